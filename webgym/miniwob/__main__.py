"""`python -m webgym.miniwob`: the same as `rollgym miniwob`."""

from rollgym.cli.process import run_module_command
from webgym.miniwob.command import configure, run

if __name__ == "__main__":
    run_module_command("webgym.miniwob", configure, run)
