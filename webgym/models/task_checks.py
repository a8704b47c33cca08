"""Tasks with their own check: they need no judge.

The server of such a task records what each visitor does. An episode starts at a URL that names its
session, and at the end the server is asked for the state of that session (`GET /_truth/SESSION`). A
state that was lost, or that the server does not return, is a VerifierError: the attempt is not
scored as 0, but fails and can be retried.

*Its end.* The same state says whether the task is over, also before the agent gives an answer: the
page of MiniWoB++ has ended its episode, or every fact of a task that needs no answer holds.
"""

import asyncio
from http import HTTPStatus
from typing import TypeVar

import aiohttp
import msgspec
from yarl import URL

from rollgym.records import VerifierError
from rollgym.records.decoding import decode_json
from rollgym.servers.context import seconds_left
from rollgym.servers.http_client import bounded_body
from rollgym.servers.limit import Limit
from webgym.miniwob.episodes import MiniWobState
from webgym.models.assessment import BlockingResult, CriterionResult, Evaluation, FactOutcome
from webgym.served import is_session_name
from webgym.sites import PARAMETER
from webgym.sites.errors import StateError
from webgym.sites.tasks.checks import Says, SaysNumber, Tells
from webgym.sites.tasks.task import SiteTask, verify
from webgym.tasks.task import SESSION, WebTask
from webgym.trajectory.records import Trajectory

STATE_TIMEOUT = 30.0
TRY_TIMEOUT = 10.0
END_TIMEOUT = 5.0
"""Seconds to learn whether a task is over; without a response the episode continues."""
PAUSES = (0.2, 0.5, 1.5)
"""Seconds before each further try."""
LARGEST_STATE = 2**24

T = TypeVar("T")


class _NoStateError(Exception):
    """The server returned no state; a further try may succeed."""


def start_url(task: WebTask, session: str) -> str:
    """The start page of an episode, in a session whose state its server records.

    A task with a verifier of the user says itself where the session's name belongs. Raises
    VerifierError if the name is not valid.
    """
    if task.verifier is None or not (task.is_checked_by_its_server or SESSION in task.website):
        return task.website
    if not is_session_name(session):
        raise VerifierError(
            f"{session!r:.100} is not a session name for task {task.task_id}: give 1 to 64 letters "
            "and digits",
            retryable=False,
        )
    if not task.is_checked_by_its_server:
        return task.website.replace(SESSION, session)
    return str(URL(task.website).update_query({PARAMETER: session}))


class TaskCheckClient:
    """Asks the servers of tasks with their own check. Belongs to one event loop; close it there."""

    def __init__(self) -> None:
        self._http: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def evaluate(self, task: WebTask, trajectory: Trajectory) -> Evaluation:
        """Score the episode by the state that the task's server recorded. Raises VerifierError."""
        url = _state_url(task, trajectory.session, trajectory.start_url)
        return _evaluated(task, trajectory.answer, url, await self._ask(url))

    async def find_end(self, task: WebTask, session: str, start_url: str) -> str | None:
        """Why the task is over; None if it is not, or if its server does not respond now.

        Raises VerifierError where the state of the session is lost.
        """
        if not _ends_by_itself(task):
            return None
        url = _state_url(task, session, start_url)
        try:
            with Limit(min(END_TIMEOUT, seconds_left(END_TIMEOUT))):
                body = await self._get(url)
        except (_NoStateError, TimeoutError):
            return None
        if task.verifier == "miniwob":
            return "its page has ended" if _miniwob_state(url, body).done else None
        evaluation = _evaluated(task, None, url, body)
        return "every fact holds" if evaluation.reward else None

    async def _ask(self, url: URL) -> bytes:
        deadline = asyncio.get_running_loop().time() + seconds_left(STATE_TIMEOUT)
        for pause in (*PAUSES, None):
            try:
                with Limit(min(TRY_TIMEOUT, max(0.0, deadline - _now()))):
                    return await self._get(url)
            except (_NoStateError, TimeoutError) as error:
                if pause is None or _now() + pause >= deadline:
                    why = str(error) or "it did not respond in time"
                    raise VerifierError(
                        f"cannot get the state of the session from {url}: {why}; is the task's own "
                        "server running?"
                    ) from error
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def _get(self, url: URL) -> bytes:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=None)
            )
        try:
            async with self._http.get(url, allow_redirects=False) as response:
                body = await bounded_body(response, LARGEST_STATE)
        except (aiohttp.ClientError, OSError) as error:
            raise _NoStateError(f"{type(error).__name__}: {error}") from error
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _NoStateError(f"HTTP {response.status}")
        if response.status != HTTPStatus.OK:
            raise VerifierError(
                f"{url} answered {response.status}: the task's own server does not know the "
                "session (was it restarted?); the attempt has to run again"
            )
        return body


def _now() -> float:
    return asyncio.get_running_loop().time()


def _state_url(task: WebTask, session: str, start_url: str) -> URL:
    """At the episode's start page, because the website may have moved since the row was written."""
    if not is_session_name(session):
        raise VerifierError(
            f"the trajectory of task {task.task_id} names no session, so its state is unknown: "
            "start the episode at Evaluator.start_url(task, session), and keep the session",
            retryable=False,
        )
    try:
        origin = URL(start_url or task.website).origin()
    except ValueError as error:
        raise VerifierError(
            f"the website of task {task.task_id} is not the address of a server: {error}",
            retryable=False,
        ) from error
    return origin / "_truth" / session


def _evaluated(task: WebTask, answer: str | None, url: URL, body: bytes) -> Evaluation:
    """The evaluation by a state. Raises VerifierError where it cannot be read or was lost."""
    if task.verifier == "miniwob":
        return _by_miniwob(_miniwob_state(url, body))
    try:
        return _by_sites(task, answer, body)
    except (msgspec.DecodeError, StateError) as error:
        raise _unusable(url, error) from error


def _miniwob_state(url: URL, body: bytes) -> MiniWobState:
    try:
        return decode_json(body, MiniWobState)
    except msgspec.DecodeError as error:
        raise _unusable(url, error) from error


def _unusable(url: URL, error: Exception) -> VerifierError:
    return VerifierError(
        f"the response of {url} cannot be used: {error}; is it the task's own server?"
    )


def _ends_by_itself(task: WebTask) -> bool:
    """Whether the state alone can show that the task is over."""
    match task.verifier:
        case "miniwob":
            return True
        case "sites":
            row = _sites_task(task)
            needs_answer = any(isinstance(check, Says | SaysNumber | Tells) for check in row.truth)
            return bool(row.truth) and not needs_answer and not row.blocked
        case _:
            return False


def _by_sites(task: WebTask, answer: str | None, body: bytes) -> Evaluation:
    row = _sites_task(task)
    state = decode_json(body, dict[str, object])
    verdict = verify(row, answer, state)
    if row.blocked:
        found = CriterionResult.of(False, "no visitor gets past the wall of this site")
    else:
        found = CriterionResult.of_facts(
            FactOutcome(each.fact, "pass" if each.passed else "fail", each.reason)
            for each in verdict.facts
        )
    walls = "the visitor reached a wall" if verdict.blocked else "the visitor met no wall"
    return Evaluation(
        judge="truth:sites",
        criteria={"truth": found},
        blocking=BlockingResult.of(verdict.blocked, walls),
    )


def _sites_task(task: WebTask) -> SiteTask:
    try:
        return decode_json(task.row.raw, SiteTask)
    except msgspec.DecodeError as error:
        raise VerifierError(
            f"task {task.task_id} names the sites as its verifier, but its row is not a task of "
            f"the sites: {error}",
            retryable=False,
        ) from error


def _by_miniwob(state: MiniWobState) -> Evaluation:
    if not state.done:
        reason = "the task was not finished"
    else:
        reason = state.reason or f"its page gave a reward of {state.raw_reward:g}"
    return Evaluation(
        judge="truth:miniwob",
        criteria={"truth": CriterionResult.of(state.done and state.reward >= 1, reason)},
        blocking=BlockingResult.of(False, "the pages block no visitor"),
    )
