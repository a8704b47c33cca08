"""What a model server thinks with: a script in the user's text, or two answers made beforehand."""

import json
from collections import deque
from typing import Any, Protocol

from tests.counterparts import answers
from tests.counterparts.answers import Call, Turn
from tests.counterparts.script import (
    InvalidRequestError,
    check_tools,
    from_input,
    from_messages,
    play,
)

REMEMBERED = 1_000
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    411: "Length Required",
    429: "Too Many Requests",
}
Json = dict[str, Any]


def message(status: int, body: object, *headers: str) -> bytes:
    """A whole HTTP response."""
    content = json.dumps(body, ensure_ascii=False).encode()
    lines = [
        f"HTTP/1.1 {status} {REASONS[status]}",
        "content-type: application/json",
        f"content-length: {len(content)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


class Mind(Protocol):
    """What decides on the answer."""

    def reply(self, head: bytes, body: bytes) -> tuple[bytes, float]:
        """The whole HTTP response to a request, and the seconds it takes to come."""
        ...


class BenchMind:
    """One tool call, then an answer."""

    def __init__(self, latency: float) -> None:
        call = Turn((Call("call_1", "get_weather", '{"city": "Berlin"}'),))
        final = Turn(text="It is foggy in Berlin, at -7 degrees.")
        self._latency = latency
        self._models = message(200, answers.models())
        self._response_call = message(200, answers.as_response(call))
        self._response_final = message(200, answers.as_response(final))
        self._chat_call = message(200, answers.as_chat_completion(call))
        self._chat_final = message(200, answers.as_chat_completion(final))
        self._unknown = message(404, answers.error("there is no such path here"))

    def reply(self, head: bytes, body: bytes) -> tuple[bytes, float]:
        if head.startswith(b"POST /v1/responses "):
            done = b'"function_call_output"' in body
            return (self._response_final if done else self._response_call), self._latency
        if head.startswith(b"POST /v1/chat/completions "):
            done = b'"tool_call_id"' in body
            return (self._chat_final if done else self._chat_call), self._latency
        if head.startswith(b"GET /v1/models "):
            return self._models, 0.0
        return self._unknown, 0.0


class ScriptMind:
    """Plays the script in the user's text, and remembers what it was asked."""

    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._requests: deque[Json] = deque(maxlen=REMEMBERED)
        self._answered = 0

    def reply(self, head: bytes, body: bytes) -> tuple[bytes, float]:
        request, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = request.split(" ")
        if path == "/_requests":
            return message(200, list(self._requests)), 0.0
        headers = {
            name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
        }
        text = body.decode(errors="replace")
        self._requests.append({"method": method, "path": path, "headers": headers, "body": text})
        try:
            status, answer, wait = self._decide(method, path, body)
        except InvalidRequestError as problem:
            status, answer, wait = 400, answers.error(str(problem)), 0.0
        self._answered += 1
        cookie = f"set-cookie: model_session={self._answered}; path=/; HttpOnly"
        return message(status, answer, cookie), wait

    def _decide(self, method: str, path: str, body: bytes) -> tuple[int, Json, float]:
        match method, path:
            case "GET", "/v1/models":
                return 200, answers.models(), 0.0
            case "POST", "/v1/responses":
                params = self._read(body)
                check_tools(params.get("tools") or [], nested=False)
                turn, wait = play(from_input(params), keeps_reasoning=True)
                return 200, answers.as_response(turn), self._latency + wait
            case "POST", "/v1/chat/completions":
                params = self._read(body)
                check_tools(params.get("tools") or [], nested=True)
                turn, wait = play(from_messages(params), keeps_reasoning=False)
                return 200, answers.as_chat_completion(turn), self._latency + wait
            case _:
                return 404, answers.error(f"there is no {method} {path} here"), 0.0

    def _read(self, body: bytes) -> Json:
        try:
            params = json.loads(body)
        except ValueError as problem:
            raise InvalidRequestError(f"the body is not JSON: {problem}") from problem
        if not isinstance(params, dict):
            raise InvalidRequestError("the body is not a JSON object")
        return params
