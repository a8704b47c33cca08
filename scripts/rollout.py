"""Rolls out web tasks: `python scripts/rollout.py --config-name rollout_train save_path=…`.

The configurations are in `config/` beside this file; `--help` lists all keys, and
`docs/web-agents.md` explains them.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    try:
        from webgym.rollout.command import enter
    except ModuleNotFoundError as missing:
        sys.exit(
            f"rollgym is not installed for {sys.executable} ({missing}). Run this with the Python "
            "of the clone, .venv/bin/python (scripts/setup.sh makes it), or pip install the clone."
        )
    enter(Path(__file__).parent / "config")
