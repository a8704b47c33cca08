"""A trainer that is slow and may be killed at any time: a program of another make.

    python -m benchmarks.pool_trainer POOL MODEL LOG SECONDS_PER_VERSION [SEED]

It takes groups, notes what they say, takes its time, acknowledges them, and changes the policy
every few seconds: it holds the model, tells the pool, and lets the model go on with the new
version. After a start it says that it restarted.
"""

import json
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, TextIO

from benchmarks.versioned_model import TRUTH

MOST = 8
PATIENCE = 60.0


def ask(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Ask until there is an answer: the pool may be away."""
    headers = {"content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def noted(group: dict[str, Any]) -> dict[str, Any]:
    """What the log keeps of a group: of each turn, the versions that it names and that made it."""
    rollouts = group["rollouts"]
    turns = [turn for rollout in rollouts for turn in _turns(rollout)]
    keys = [(rollout["_ng_task_index"], rollout["_ng_rollout_index"]) for rollout in rollouts]
    kept = {name: group[name] for name in ("id", "delivery", "complete", "reason", "versions")}
    rewards = [rollout["reward"] for rollout in rollouts]
    return {**kept, "turns": turns, "rewards": rewards, "keys": keys, "at": time.time()}


def _turns(rollout: dict[str, Any]) -> Iterator[tuple[list[str], int, int]]:
    """Of each call of the model: its label, and the first and the last version that made it."""
    labels = {
        turn["item"]: [part[0] for part in turn.get("parts", ())] or [turn.get("version", "")]
        for turn in rollout.get("rollgym_turns", ())
    }
    for place, item in enumerate(rollout["response"]["output"]):
        if item["type"] != "function_call_output":
            for first, last in set(TRUTH.findall(json.dumps(item))):
                yield labels.get(place, []), int(first), int(last)


class Trainer:
    """The loop of a trainer."""

    def __init__(self, pool: str, model: str, log: TextIO, per_version: float, seed: int) -> None:
        self._pool, self._model, self._log = pool, model, log
        self._per_version = per_version
        self._random = Random(seed)
        self._changed = time.monotonic()
        self._restarted = True

    def train(self) -> None:
        """Go on until the process is killed."""
        self._begin()
        while True:
            self._take(self._take_time)
            if time.monotonic() - self._changed > self._per_version:
                self._change_policy()

    def take_all(self, wanted: set[str], seconds: float) -> None:
        """Take groups until these are among them, for so long at the most."""
        self._begin()
        end = time.monotonic() + seconds
        while wanted and time.monotonic() < end:
            wanted = wanted.difference(self._take(lambda: None))

    def _begin(self) -> None:
        ask(f"{self._model}/resume", {})  # an earlier trainer may have died while it was held
        self._restarted = True

    def _take(self, learn: Callable[[], None]) -> list[str]:
        """Take groups, learn from them, and acknowledge them."""
        body = {"trainer": "t", "max": MOST, "wait": 5, "restarted": self._restarted}
        groups, self._restarted = ask(f"{self._pool}/groups/next", body)["groups"], False
        for group in groups:
            self._note({"got": noted(group)})
        learn()
        ids = [group["id"] for group in groups]
        done = ask(f"{self._pool}/groups/ack", {"trainer": "t", "ids": ids})
        self._note({"acknowledged": done["acknowledged"], "unknown": done["unknown"]})
        return ids

    def _take_time(self) -> None:
        """Mostly a second, sometimes much longer."""
        slow = self._random.random() < 0.05
        time.sleep(self._random.uniform(5.0, 10.0) if slow else self._random.uniform(0.2, 1.5))

    def _change_policy(self) -> None:
        version = str(ask(f"{self._model}/stats")["version"] + 1)
        ask(f"{self._model}/pause", {})
        ask(f"{self._pool}/policy", {"version": version})
        ask(f"{self._model}/resume", {"version": version})
        self._changed = time.monotonic()
        self._note({"version": version})

    def _note(self, note: dict[str, Any]) -> None:
        self._log.write(json.dumps(note) + "\n")
        self._log.flush()


def main() -> None:
    pool, model, log, per_version, *seed = sys.argv[1:]
    with Path(log).open("a") as file:
        Trainer(pool, model, file, float(per_version), int(*seed)).train()


if __name__ == "__main__":
    main()
