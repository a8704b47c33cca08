"""`python -m webgym.miniwob`: the same as `rollgym miniwob`."""

from rollgym.cli.module_command import enter_module
from webgym.miniwob.command import configure, run

if __name__ == "__main__":
    enter_module("webgym.miniwob", configure, run)
