"""A command as a process: its standard streams, its open files, its errors and its exit status.

`run_override_command` and `run_module_command` are whole console scripts. The heavy parts of
rollgym are imported only when a command does something, so that `--help` answers at once.

A traceback is for bugs only. Rejected requests and broken disks are part of the work: they end as a
message that says what to do, and an exit status.
"""

import contextlib
import os
import resource
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Collection, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn

CRASHED = 1
MISUSED = 2
INTERRUPTED = 5
DENIED = 7
BROKEN_PIPE = 128 + 13
"""What a shell reports of a program that SIGPIPE ended, as in `rollgym profile | head`."""
EXIT_STATUSES = """\
exit status of a command that collects:
  0  every rollout is completed      4  some were omitted on purpose
  1  something broke                 5  interrupted: run the same command again
  2  the command was used wrongly    6  rejected, and nothing was changed
  3  some rollouts failed            7  the disk failed; what it has is kept
  8  stopped: it could not go on, such as after the same failure many times in
     a row; the reason and the remedy are in the last lines
"""
OTHER_EXIT_STATUSES = """\
exit status:
  0  it is done                      5  interrupted
  1  something broke                 6  rejected, and nothing was changed
  2  the command was used wrongly    7  the disk failed
"""
OPEN_FILES = 1 << 16
HIGHEST_PORT = 65_535
_HELP = ("-h", "--help", "help")

OverrideCommand = Callable[[Sequence[str]], int]
Configure = Callable[[ArgumentParser], None]
ParsedCommand = Callable[[Namespace], int]


def run_override_command(
    help_text: Callable[[], str], command: OverrideCommand, *, takes_flags: bool = False
) -> NoReturn:
    """The console script of a command with overrides: `ng_run +config_paths=[…]`, for example."""
    end_process(lambda: override_command(sys.argv[1:], help_text, command, takes_flags=takes_flags))


def run_module_command(
    name: str, configure: Configure, command: ParsedCommand, *, actions: Collection[str] = ()
) -> NoReturn:
    """The console script `python -m NAME` of a command with flags.

    `actions` are the sub-commands. The first of them runs where none is named.
    """
    end_process(lambda: _module_command(name, configure, command, list(actions)))


def override_command(
    arguments: Sequence[str],
    help_text: Callable[[], str],
    command: OverrideCommand,
    *,
    takes_flags: bool = False,
) -> int:
    """Run a command with overrides to its exit status; `--help` anywhere prints the text.

    `takes_flags` says that the command also reads options that are written as flags.
    """
    if set(_HELP) & set(arguments):
        say(help_text().strip())
        return 0
    if takes_flags:
        return exit_status_of(lambda: command(arguments))
    return exit_status_of(lambda: command(_without_dashes(arguments)))


def _without_dashes(arguments: Sequence[str]) -> Sequence[str]:
    """Raises RefusedError for an option that is written with dashes."""
    from rollgym.store import RefusedError  # noqa: PLC0415 - --help does not need the store

    dashed = [argument for argument in arguments if argument.startswith("-")]
    if dashed:
        # The value is not repeated: it may be a credential.
        name = dashed[0].partition("=")[0]
        written = f"+{name.lstrip('-').replace('-', '_')}=VALUE"
        error = RefusedError(
            f"{name}: this command's options are written without dashes: {written}. "
            "`--help` lists them."
        )
        error.is_misuse = True
        raise error
    return arguments


def _module_command(
    name: str, configure: Configure, command: ParsedCommand, actions: Sequence[str]
) -> int:
    parser = ArgumentParser(f"python -m {name}", allow_abbrev=False)
    configure(parser)
    arguments = sys.argv[1:]
    if actions and (not arguments or arguments[0] not in (*actions, "-h", "--help")):
        arguments = [actions[0], *arguments]
    options = parser.parse_args(arguments)
    return exit_status_of(lambda: command(options))


def end_process(command: Callable[[], int]) -> NoReturn:
    """Run a console script and exit with its status, also on Ctrl-C and after wrong use."""
    prepare_process()
    try:
        status = command()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except PermissionError as error:
        if error.filename is None:
            raise
        say_error(
            f"rollgym: {error.filename}: permission denied: check who owns it and its folders"
        )
        status = DENIED
    except SystemExit as wrong_use_or_help:
        status = int(wrong_use_or_help.code or 0)
    exit_now(status)


def exit_now(status: int) -> NoReturn:
    """Write out what was printed and exit, without waiting for threads.

    A worker may have left a thread behind that never ends, and the interpreter would wait for it.
    By the time a command has its status, everything that counts is on disk. When a signal handler
    calls this, it may interrupt the very write that it flushes; Python answers that with a
    RuntimeError, and the text is written already, or is lost.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            stream.flush()
    os._exit(status)


def exit_status_of(command: Callable[[], int]) -> int:
    """Run a command; errors that are part of the work become a message and an exit status."""
    from rollgym.engine import EngineError, ExitStatus  # noqa: PLC0415 - --help does not need it
    from rollgym.store import RefusedError, StorageError  # noqa: PLC0415

    try:
        status = command()
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return BROKEN_PIPE
    except RefusedError as error:
        return _report(error, MISUSED if error.is_misuse else ExitStatus.REFUSED)
    except StorageError as error:
        return _report(error, ExitStatus.STORAGE)
    except EngineError as error:
        return _report(error, CRASHED)
    except KeyboardInterrupt:
        say_error("\nrollgym: stopped at once; every record that was written is kept")
        return ExitStatus.INTERRUPTED
    return status


def _report(error: Exception, status: int) -> int:
    from rollgym.monitor import printable_line  # noqa: PLC0415 - --help does not need it

    notes: list[str] = getattr(error, "__notes__", [])
    for line in "\n".join([f"rollgym: {error}", *notes]).splitlines():
        indent = line[: len(line) - len(line.lstrip(" "))]
        print(indent + printable_line(line, limit=4_000), file=sys.stderr)
    return status


def _silence_stdout() -> None:
    """Keep the interpreter from flushing into the broken pipe when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str) -> None:
    """Print at once. When the reader has gone, the text is dropped and the command goes on."""
    try:
        print(text, flush=True)
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            _silence_stdout()


def say_beside(text: str) -> None:
    """Print what is beside the data: to standard output on a terminal, else to standard error.

    So `command | jq` gets the data alone.
    """
    if sys.stdout.isatty():
        say(text)
    else:
        say_error(text)


def say_error(text: str) -> None:
    """Print to standard error at once. When the reader has gone, the text is dropped."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table without a frame."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def port_number(text: str) -> int:
    """Reads the option of a port. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal()) or int(text) > HIGHEST_PORT:
        raise ArgumentTypeError(f"{text!r} is not a port: give a number from 0 to {HIGHEST_PORT}")
    return int(text)


def relative_path(path: Path) -> str:
    """The path from the working directory, where it is inside."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith(os.pardir) else relative


def prepare_process() -> None:
    """Make standard streams usable whatever they are, and allow many open files."""
    _open_missing_descriptors()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):
            # Text that the terminal's encoding lacks is escaped.
            stream.reconfigure(errors="backslashreplace")
        elif stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    _allow_many_open_files()


def _open_missing_descriptors() -> None:
    """Open /dev/null for a closed standard stream.

    Otherwise the next file or socket would get its number, and processes that are started later
    would use that as their own standard stream.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free


def _allow_many_open_files() -> None:
    """Raise the limit to what the system gives without further rights, at most `OPEN_FILES`.

    The usual limit is a thousand, and a collection may have more connections than that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # a system may refuse what it promised
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
