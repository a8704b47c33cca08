"""`python -m webgym.browser`: the same as `rollgym browser`; without an action it serves."""

from rollgym.cli.process import run_module_command
from webgym.browser.command import configure, run

if __name__ == "__main__":
    run_module_command("webgym.browser", configure, run, actions=("serve", "status"))
