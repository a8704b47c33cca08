"""A trainer of another make: it takes groups over HTTP, and writes down what happened.

    python http_trainer.py URL LOG NAME

It notes a group before it acknowledges it, as one that trains would. Where the pool is away, it
asks again.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any


def ask(url: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError:
            raise
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def train(url: str, log: Path, name: str) -> None:
    restarted = log.exists()
    with log.open("a", buffering=1) as notes:
        version = 0
        while True:
            body = {"trainer": name, "max": 2, "wait": 10, "restarted": restarted}
            answer, restarted = ask(f"{url}/groups/next", body), False
            for group in answer["groups"]:
                print(json.dumps({"got": group, "version": answer["policy_version"]}), file=notes)
            ids = [group["id"] for group in answer["groups"]]
            done = ask(f"{url}/groups/ack", {"trainer": name, "ids": ids})
            print(json.dumps({"acknowledged": done["acknowledged"]}), file=notes)
            version += 1
            ask(f"{url}/policy", {"version": f"{name}{version}"})


if __name__ == "__main__":
    train(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
