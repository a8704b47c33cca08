"""Rolls out web tasks: `python scripts/rollout.py --config-name rollout_train save_path=…`.

The configurations are in `config/` beside this file; `--help` lists all keys, and
`docs/web-agents.md` explains them. `calculate_rollout_metrics` can be imported from here.
"""

import sys
from pathlib import Path

try:
    from webgym.rollout.command import enter
    from webgym.trajectory.metrics import calculate_rollout_metrics
except ModuleNotFoundError as missing:
    if __name__ != "__main__":
        raise
    sys.exit(
        f"rollgym is not installed for {sys.executable} ({missing}). Run this with the Python "
        "of the clone, .venv/bin/python (scripts/setup.sh makes it), or pip install the clone."
    )

__all__ = ["calculate_rollout_metrics"]

if __name__ == "__main__":
    enter(Path(__file__).parent / "config")
