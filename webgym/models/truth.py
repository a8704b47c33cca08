"""Tasks that know their own truth: no judge is needed, and none is asked.

The server of such a task remembers what each visitor did. An episode begins at a URL that names its
session, and in the end the server is asked for the truth about that session
(`GET /_truth/SESSION`). A truth that was lost, or cannot be had, is a VerifierError: the attempt is
not worth 0, it is worth another attempt.
"""

import asyncio
from http import HTTPStatus
from typing import TypeVar

import aiohttp
import msgspec
from yarl import URL

from rollgym.records import VerifierError
from rollgym.servers.context import seconds_left
from rollgym.servers.limit import Limit
from webgym.miniwob.episodes import MiniWobState
from webgym.models.judging.findings import Blocking, Evaluation, FactFinding, Finding
from webgym.sites.errors import StateError
from webgym.sites.names import PARAMETER, is_name
from webgym.sites.tasks import SiteTask, verify
from webgym.tasks import WebTask
from webgym.trajectory import Trajectory

TRUTH_SECONDS = 30.0
TRY_SECONDS = 10.0
PAUSES = (0.2, 0.5, 1.5)
"""Before the truth is asked for again."""
LARGEST_TRUTH = 2**24

T = TypeVar("T")


class _NoTruthYetError(Exception):
    """The server gave no answer; it may if asked again."""


def start_url(task: WebTask, session: str) -> str:
    """Where an episode begins, so that its server can tell what was done in it.

    Raises VerifierError where the session has no name that a server takes.
    """
    if task.verifier is None:
        return task.website
    if not is_name(session):
        raise VerifierError(
            f"{session!r:.100} is no session of task {task.task_id}: give 1 to 64 letters and "
            "digits",
            retryable=False,
        )
    return str(URL(task.website).update_query({PARAMETER: session}))


class TruthSource:
    """The servers of tasks that know their own truth. Belongs to one event loop; close it there."""

    def __init__(self) -> None:
        self._http: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def judge(self, task: WebTask, trajectory: Trajectory) -> Evaluation:
        """What the task's own server knows about the episode. Raises VerifierError."""
        url = _truth_url(task, trajectory)
        body = await self._ask(url)
        try:
            match task.verifier:
                case "sites":
                    return _by_sites(task, trajectory.answer, body)
                case "miniwob":
                    return _by_miniwob(body)
                case None:
                    raise AssertionError(f"task {task.task_id} has no verifier of its own")
        except (msgspec.DecodeError, StateError) as error:
            raise VerifierError(
                f"what {url} answered cannot be judged by: {error}; is the task's own server there?"
            ) from error

    async def _ask(self, url: URL) -> bytes:
        deadline = asyncio.get_running_loop().time() + seconds_left(TRUTH_SECONDS)
        for pause in (*PAUSES, None):
            try:
                with Limit(min(TRY_SECONDS, max(0.0, deadline - _now()))):
                    return await self._get(url)
            except (_NoTruthYetError, TimeoutError) as error:
                if pause is None or _now() + pause >= deadline:
                    why = str(error) or "it did not answer in time"
                    raise VerifierError(
                        f"the truth about the episode cannot be had from {url}: {why}; is the "
                        "task's own server running?"
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
                body = await _bounded_body(response)
        except (aiohttp.ClientError, OSError) as error:
            raise _NoTruthYetError(f"{type(error).__name__}: {error}") from error
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _NoTruthYetError(f"HTTP {response.status}")
        if response.status != HTTPStatus.OK:
            raise VerifierError(
                f"{url} answered {response.status}: the task's own server does not know the "
                "session (was it restarted?); the attempt has to run again"
            )
        return body


def _now() -> float:
    return asyncio.get_running_loop().time()


def _truth_url(task: WebTask, trajectory: Trajectory) -> URL:
    """The website may have moved since the row was written; the episode knows where it began."""
    if not is_name(trajectory.session):
        raise VerifierError(
            f"the trajectory of task {task.task_id} names no session, so its truth cannot be asked "
            "for: begin the episode at Evaluator.start_url(task, session), and keep the session",
            retryable=False,
        )
    try:
        origin = URL(trajectory.start_url or task.website).origin()
    except ValueError as error:
        raise VerifierError(
            f"the website of task {task.task_id} is no address to ask for the truth: {error}",
            retryable=False,
        ) from error
    return origin / "_truth" / trajectory.session


async def _bounded_body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for block in response.content.iter_any():
        body += block
        if len(body) > LARGEST_TRUTH:
            raise _NoTruthYetError(f"it answers over {LARGEST_TRUTH:,} bytes")
    return bytes(body)


def _by_sites(task: WebTask, answer: str | None, body: bytes) -> Evaluation:
    row = _sites_task(task)
    truth = msgspec.json.decode(body, type=dict[str, object])
    verdict = verify(row, answer, truth)
    if row.blocked:
        found = Finding.of(False, "nobody gets past the wall of this site")
    else:
        found = Finding.of_facts(
            FactFinding(each.fact, "pass" if each.passed else "fail", each.reason)
            for each in verdict.facts
        )
    walls = "the visitor stood before a wall" if verdict.blocked else "no wall was in the way"
    return Evaluation(
        judge="truth:sites",
        criteria={"truth": found},
        blocking=Blocking.of(verdict.blocked, walls),
    )


def _sites_task(task: WebTask) -> SiteTask:
    try:
        return msgspec.json.decode(task.row.raw, type=SiteTask)
    except msgspec.DecodeError as error:
        raise VerifierError(
            f"task {task.task_id} names the sites as its verifier, but its row is none of their "
            f"tasks: {error}",
            retryable=False,
        ) from error


def _by_miniwob(body: bytes) -> Evaluation:
    truth = msgspec.json.decode(body, type=MiniWobState)
    if not truth.done:
        reason = "the task was not brought to an end"
    else:
        reason = truth.reason or f"its page gave a reward of {truth.raw_reward:g}"
    return Evaluation(
        judge="truth:miniwob",
        criteria={"truth": Finding.of(truth.done and truth.reward >= 1, reason)},
        blocking=Blocking.of(False, "the page lets everybody in"),
    )
