"""A resources server and an agent that somebody else wrote, and that go wrong where rows say so.

    python -m tests.chaos.faulty_stranger --port 0

The task is that of `faulty_environment.py`, played over sockets by hand. The agent needs no model:
it knows the secret.
"""

import json
import secrets
import threading
from collections import Counter
from typing import Any

from tests.chaos.faulty_environment import LONGEST_HANG, FaultyTask, Place, secret_of
from tests.counterparts.life import parser
from tests.counterparts.resources_server import final_text
from tests.counterparts.serving import Answer, Request, serve

PLACES: dict[str, Place] = {
    "/seed_session": "seed",
    "/look_up": "tool",
    "/verify": "verify",
    "/run": "run",
}
Json = dict[str, Any]


class Stranger:
    """Answers requests on any number of threads."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[Place, int]] = Counter()
        self._sessions: dict[str, FaultyTask] = {}
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Answer | None:
        place = PLACES.get(request.path)
        if place is None:
            return Answer.of({"detail": "Not Found"}, 404)
        body: Json = request.json()
        task = self._task(place, request, body)
        if task is None:
            return Answer.of({"detail": "no such session"}, 401)
        with self._lock:
            self._calls[place, task.number] += 1
            fault = task.fault(place, self._calls[place, task.number])
        return go_wrong(fault, request) if fault else self._answer(place, task, body)

    def _task(self, place: Place, request: Request, body: Json) -> FaultyTask | None:
        if place in ("seed", "run"):
            return FaultyTask.model_validate(body)
        return self._sessions.get(request.cookies.get("session", ""))

    def _answer(self, place: Place, task: FaultyTask, body: Json) -> Answer:
        secret = secret_of(task.number)
        match place:
            case "seed":
                session = secrets.token_hex(8)
                self._sessions[session] = task
                return Answer.of({}, 200, f"session={session}; path=/")
            case "tool":
                return Answer.plain(secret_of(body["number"]))
            case "verify":
                return Answer.of({**body, "reward": float(final_text(body["response"]) == secret)})
            case _:
                content = [{"type": "output_text", "text": secret, "annotations": []}]
                message = {"type": "message", "role": "assistant", "content": content}
                return Answer.of({**body, "response": {"output": [message]}, "reward": 1.0})


def go_wrong(fault: str, request: Request) -> Answer | None:
    """None closes the connection without an answer."""
    match fault:
        case "vanishes":
            return None
        case "hangs":
            request.caller_leaves_within(LONGEST_HANG)
            return None
        case "answers 500":
            return Answer.plain("Internal Server Error", 500)
        case "answers in HTML":
            return Answer(200, b"<html><body>It works!</body></html>", "text/html")
        case "answers with a NaN":
            return Answer(200, json.dumps({**request.json(), "reward": float("nan")}).encode())
        case _:
            raise AssertionError(f"nobody knows how to go wrong like this: {fault}")


def main() -> None:
    chosen = parser(__doc__).parse_args()
    serve(Stranger(), chosen.port, end_with_stdin=chosen.end_with_stdin)


if __name__ == "__main__":
    main()
