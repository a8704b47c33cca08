"""`python -m webgym.browser`: the same as `rollgym browser`; without an action it serves."""

from rollgym.cli.module_command import enter_module
from webgym.browser.command import configure, run

if __name__ == "__main__":
    enter_module("webgym.browser", configure, run, actions=("serve", "status"))
