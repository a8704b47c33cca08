"""`python -m webgym.policies`: the same as `rollgym policy`; without an action it serves."""

from rollgym.cli.module_command import enter_module
from webgym.policies.command import configure, run

if __name__ == "__main__":
    enter_module("webgym.policies", configure, run, actions=("serve",))
