"""`python -m webgym.sites`: the same as `rollgym sites`; without an action it serves."""

from rollgym.cli.module_command import enter_module
from webgym.sites.command import configure, run

if __name__ == "__main__":
    enter_module("webgym.sites", configure, run, actions=("serve", "tasks"))
