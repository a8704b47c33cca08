"""A resources server: sessions by cookie, a few tools (two of them bad), and a verifier.

    python -m tests.counterparts.resources_server --port 0 [--silent] [--strict]

The session cookie changes with every answer, as one that carries data does, and the verifier
refuses a cookie that a tool call has already used up: a caller that does not follow `Set-Cookie`
gets no reward. Tool calls of one turn may share a cookie, because they are sent at the same time.

The row of a task is `{responses_create_params, secrets: {key: secret}, expected}`: the reward is 1
when the final text contains `expected` and the calls in the response are those the tools saw. A row
may also have `verify_instead: {status, body}`, which is then what the verifier answers.

With `--strict` it accepts requests as the servers of NeMo Gym do (see `strict.py`), and is as alive
as they are: `GET /` answers, `GET /healthz` does not.

`GET /_requests` gives every request there was, with the status it was answered with, or `left` when
its caller did not wait for the answer.
"""

import json
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from statistics import fmean
from typing import Any

from tests.counterparts.life import parser
from tests.counterparts.serving import Answer, Request, serve
from tests.counterparts.strict import problems

COOKIE = "session={}; path=/; HttpOnly; SameSite=lax; Max-Age=1209600"
LONGEST_HANG = 3600.0
LONGEST_MEETING = 60.0
Json = dict[str, Any]


class RefusedError(Exception):
    """An answer other than 200, as JSON `{"detail": …}`."""

    def __init__(self, status: int, detail: object) -> None:
        super().__init__(detail)
        self.answer = {"detail": detail}
        self.status = status


class Session:
    """What the server remembers of one episode."""

    def __init__(self, row: Json) -> None:
        self.row = row
        self.total = 0
        self.tools_seen: list[Json] = []
        self.lock = threading.Lock()
        self.gathering: threading.Barrier | None = None
        # Each cookie is one generation younger than the youngest that a tool call has carried.
        self.carried = 0


class Sessions:
    """Which cookie belongs to which session, and how young it is. Safe between threads."""

    def __init__(self) -> None:
        self._cookies: dict[str, tuple[Session, int]] = {}
        self._lock = threading.Lock()

    def issue(self, session: Session) -> str:
        """A new cookie for the session."""
        value = secrets.token_hex(16)
        with self._lock:
            self._cookies[value] = session, session.carried + 1
        return COOKIE.format(value)

    def of_tool_call(self, request: Request) -> Session:
        session, generation = self._find(request)
        with self._lock:
            session.carried = max(session.carried, generation)
        return session

    def of_verify(self, request: Request) -> Session:
        session, generation = self._find(request)
        if generation <= session.carried:
            raise RefusedError(
                401, "stale session cookie: the answer to a tool call has replaced it"
            )
        return session

    def _find(self, request: Request) -> tuple[Session, int]:
        try:
            return self._cookies[request.cookies["session"]]
        except KeyError:
            raise RefusedError(401, f"no such session: {request.cookies}") from None


def get_secret(session: Session, arguments: Json) -> Answer:
    known: Json = session.row.get("secrets", {})
    key = arguments.get("key")
    if key not in known:
        raise RefusedError(404, f"no secret named {key!r}")
    return Answer.of({"key": key, "secret": known[key]})


def add(session: Session, arguments: Json) -> Answer:
    amount = arguments.get("amount")
    if not isinstance(amount, int):
        raise RefusedError(422, [{"loc": ["body", "amount"], "msg": "should be an integer"}])
    with session.lock:
        session.total += amount
        return Answer.of({"total": session.total})


def meet(session: Session, arguments: Json) -> Answer:
    """Answers only when that many calls of the session are waiting here at the same time."""
    with session.lock:
        if session.gathering is None:
            session.gathering = threading.Barrier(arguments["parties"])
    try:
        session.gathering.wait(LONGEST_MEETING)
    except threading.BrokenBarrierError:
        raise RefusedError(409, "nobody else came") from None
    return Answer.of({"met": arguments["parties"]})


def motto(_session: Session, _arguments: Json) -> Answer:
    return Answer.plain("Übung macht den Meister \N{EM DASH} 熟能生巧")


def proverb(_session: Session, _arguments: Json) -> Answer:
    return Answer.of('Haste makes waste,\n"they" say')


def broken(_session: Session, _arguments: Json) -> Answer:
    return Answer.plain("Internal Server Error: the tool broke", 500)


TOOLS: dict[str, Callable[[Session, Json], Answer]] = {
    "get_secret": get_secret,
    "add": add,
    "meet": meet,
    "motto": motto,
    "proverb": proverb,
    "broken": broken,
}


def final_text(response: Json) -> str:
    """The text of the last message of the assistant."""
    for item in reversed(response["output"]):
        if item["type"] == "message":
            return "".join(part.get("text", "") for part in item["content"])
    return ""


def readable_calls(response: Json) -> Iterable[tuple[str, Json]]:
    """The calls in a response that must have reached a tool."""
    for item in response["output"]:
        if item["type"] == "function_call" and item["name"] in TOOLS:
            try:
                yield item["name"], json.loads(item["arguments"])
            except ValueError:
                continue


def verdict(session: Session, body: Json) -> Json:
    row, response = dict(body), body["response"]
    del row["response"]
    called = Counter(json.dumps(call) for call in readable_calls(response))
    seen = Counter(json.dumps((call["name"], call["arguments"])) for call in session.tools_seen)
    answered = session.row["expected"] in final_text(response)
    return {
        "reward": 1.0 if answered and called == seen else 0.0,
        "answered": answered,
        "calls_match": called == seen,
        "row_unchanged": row == session.row,
        "tools_seen": session.tools_seen,
        "total": session.total,
    }


def aggregate(body: Json) -> Json:
    rows: list[Json] = body["verify_responses"]
    groups: dict[Any, list[float]] = {}
    for row in rows:
        groups.setdefault(row.get("_ng_task_index"), []).append(row["reward"])
    mean = fmean(row["reward"] for row in rows) if rows else None
    return {
        "agent_metrics": {"mean/reward": mean, "counterpart/rows": len(rows)},
        "key_metrics": {"mean/reward": mean},
        "group_level_metrics": [
            {"_ng_task_index": index, "mean/reward": fmean(rewards)}
            for index, rewards in groups.items()
        ],
    }


class ResourcesServer:
    """Answers requests, and remembers them."""

    def __init__(self, *, silent: bool, strict: bool) -> None:
        self._silent = silent
        self._strict = strict
        self._sessions = Sessions()
        self._requests: list[Json] = []

    def __call__(self, request: Request) -> Answer | None:
        if (request.method, request.path) == ("GET", "/_requests"):
            return Answer.of(self._requests)
        record: Json = {
            "method": request.method,
            "path": request.path,
            "headers": request.headers,
            "cookies": request.cookies,
            "body": request.body.decode(errors="replace"),
            "status": None,
            "left": False,
        }
        self._requests.append(record)
        try:
            answer = self._answer(request)
        except RefusedError as refused:
            answer = Answer.of(refused.answer, refused.status)
        if answer is None:
            record["left"] = True
        else:
            record["status"] = answer.status
        return answer

    def _answer(self, request: Request) -> Answer | None:
        if self._strict and request.method == "GET":
            alive = request.path == "/"
            return Answer.of({"status": "ok"}) if alive else Answer.of({"detail": "Not Found"}, 404)
        if request.method != "POST":
            raise RefusedError(405, "Method Not Allowed")
        if self._strict and request.path in {"/seed_session", "/verify"}:
            wrong = problems(request.json())
            if wrong:
                raise RefusedError(422, wrong)
        match request.path:
            case "/seed_session":
                return Answer.of({}, 200, self._sessions.issue(Session(request.json())))
            case "/verify":
                return self._verify(request)
            case "/aggregate_metrics":
                return Answer.of(aggregate(request.json()))
            case "/hang":
                self._sessions.of_tool_call(request)
                left = request.caller_leaves_within(LONGEST_HANG)
                return None if left else Answer.plain("hung for long enough", 504)
            case _:
                return self._call_tool(request)

    def _call_tool(self, request: Request) -> Answer:
        name = request.path.removeprefix("/")
        if name not in TOOLS:
            raise RefusedError(404, "Not Found")
        session, arguments = self._sessions.of_tool_call(request), request.json()
        session.tools_seen.append({"name": name, "arguments": arguments})
        try:
            answer = TOOLS[name](session, arguments)
        except RefusedError as refused:
            answer = Answer.of(refused.answer, refused.status)
        return answer._replace(set_cookies=(self._sessions.issue(session),))

    def _verify(self, request: Request) -> Answer:
        session, body = self._sessions.of_verify(request), request.json()
        instead = session.row.get("verify_instead")
        if instead:
            return Answer.plain(instead["body"], instead["status"])
        echoed = {} if self._silent else body
        cookie = self._sessions.issue(session)
        return Answer.of({**echoed, **verdict(session, body)}, 200, cookie)


def main() -> None:
    options = parser(__doc__)
    options.add_argument(
        "--silent", action="store_true", help="verify answers without the fields it was given"
    )
    options.add_argument(
        "--strict", action="store_true", help="refuse all that NeMo Gym's servers refuse"
    )
    chosen = options.parse_args()
    server = ResourcesServer(silent=chosen.silent, strict=chosen.strict)
    serve(server, chosen.port, end_with_stdin=chosen.end_with_stdin)


if __name__ == "__main__":
    main()
