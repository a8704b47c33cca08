"""`python -m webgym.policies`: the same as `rollgym policy`; without an action it serves."""

from rollgym.cli.process import run_module_command
from webgym.policies.command import configure, run

if __name__ == "__main__":
    run_module_command("webgym.policies", configure, run, actions=("serve",))
