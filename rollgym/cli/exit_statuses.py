"""What the exit status of a command says."""

INTERRUPTED = 5
EXIT_STATUSES = """\
exit status of a command that collects:
  0  every rollout is completed      4  some were omitted on purpose
  1  something broke                 5  interrupted: run the same command again
  2  the command was used wrongly    6  refused, and nothing was changed
  3  some rollouts failed            7  the disk failed; what it has is kept

Commands that only look at a run end with 0 when they could.
"""
