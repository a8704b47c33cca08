"""A measured figure: one JSON object on a line of its own, for people and programs."""

import json
import sys


class Figures:
    """Prints figures as they come and remembers whether every goal was met."""

    def __init__(self) -> None:
        self.all_ok = True

    def report(
        self,
        name: str,
        value: float,
        unit: str,
        goal: float | None = None,
        *,
        at_least: bool = False,
    ) -> None:
        """`goal` is the most the value may be, or the least; a figure without one is only told."""
        ok = goal is None or (value >= goal if at_least else value <= goal)
        self.all_ok = self.all_ok and ok
        figure = {"name": name, "value": round(value, 4), "unit": unit, "goal": goal, "ok": ok}
        print(json.dumps(figure), flush=True)

    def exit(self) -> None:
        sys.exit(0 if self.all_ok else 1)
