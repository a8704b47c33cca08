"""`python -m webgym.sites`: the same as `rollgym sites`; without an action it serves."""

from rollgym.cli.process import run_module_command
from webgym.sites.command import configure, run

if __name__ == "__main__":
    run_module_command("webgym.sites", configure, run, actions=("serve", "tasks"))
