"""Asking an environment for its verdict on a finished response, again where that may help.

A finished response cost minutes of a model, its verdict a moment. So when `/verify` fails for a
reason that may go away, it alone is asked again: in the same session, a bounded number of times and
before the rollout's deadline. When it fails for good, the rollout fails and is not run again. Its
response is kept, and `rollgym reverify` can score it later.

A session that is lost, or in which a tool broke, is the exception: it has no state that could be
verified, so the failure passes unchanged, and the engine may run the rollout again.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from rollgym.engine import Backoff
from rollgym.records import (
    EnvironmentSessionError,
    Failure,
    RolloutError,
    Row,
    RowError,
    ToolError,
    VerifierError,
    error_of,
)
from rollgym.records.decoding import JsonDecoder
from rollgym.servers.client import RecoveryWait, ServerClient
from rollgym.servers.context import seconds_left
from rollgym.servers.exchange import CookieJar

PAUSES = Backoff(1.0, maximum=30.0, jitter=0.0)
LONGEST_WAIT = 300.0
"""The most seconds that an environment may ask to wait."""
KEPT = "its response is kept: `rollgym reverify` can score it without calling the model"


class _Verdict(msgspec.Struct):
    """The fields of a verified row that say whether it has a verdict."""

    reward: object = None
    failed: object = msgspec.field(name="_ng_failure_class", default=None)
    terminal: object = msgspec.field(name="_ng_failure_terminal", default=None)
    skipped: object = msgspec.field(name="_ng_no_persist", default=None)


_VERDICT = JsonDecoder(_Verdict)


async def verify(
    client: ServerClient,
    jar: CookieJar,
    row: Row,
    response: Mapping[str, Any] | msgspec.Raw,
    within: float,
) -> Row:
    """Ask once; returns the verified row with its response. Raises VerifierError without a verdict.

    A row that the environment marks as failed or as not to be kept is a verdict too.
    """
    if not isinstance(response, msgspec.Raw):
        response = msgspec.Raw(msgspec.json.encode(response))
    asked = row.with_json("response", response)
    answer = await client.call("/verify", asked, error=VerifierError, jar=jar, within=within)
    sent, verified = asked.raw, answer.body
    try:
        answered = answer.row
    except RowError as error:
        raise VerifierError(f"the verified row is not a JSON object: {error}") from error
    if verified.startswith(sent[:-1]):  # the row with further fields
        _check(b"{" + verified[len(sent) :] if len(verified) > len(sent) else b"{}")
        return answered
    _check(verified)
    if "response" in answered.fields:
        return answered
    return answered.with_json("response", response)


def _check(verdict: bytes) -> None:
    """Raises VerifierError for a verified row that has neither a reward nor a mark."""
    try:
        fields = _VERDICT.decode(verdict)
    except msgspec.DecodeError as error:
        raise VerifierError(f"the verified row cannot be read: {error}") from error
    reward, marked = fields.reward, fields.failed or fields.terminal or fields.skipped
    if not marked and (isinstance(reward, bool) or not isinstance(reward, (int, float))):
        raise VerifierError(f"the verified row has no number as reward but {reward!r:.100}")


class Verification:
    """Asks for verdicts up to `attempts` times each.

    `timeout` bounds each time; what fails after twice as many seconds is not repeated. `recovery`
    waits for an environment that does not answer.
    """

    def __init__(self, attempts: int, timeout: float, recovery: RecoveryWait) -> None:
        self._attempts = attempts
        self._timeout = timeout
        self._recovery = recovery

    async def __call__(
        self,
        client: ServerClient,
        jar: CookieJar,
        row: Row,
        response: Mapping[str, Any] | msgspec.Raw,
    ) -> Row:
        """The verified row. Raises a failure that is not retryable, or that of the session."""
        loop, attempt, failure = asyncio.get_running_loop(), 1, None
        bugs: set[tuple[str, str, int]] = set()
        ends = loop.time() + 2 * self._timeout
        while True:
            try:
                return await verify(client, jar, row, response, self._timeout)
            except (EnvironmentSessionError, ToolError) as error:
                if failure is None:
                    raise
                raise _lost(Failure.of(error), failure) from error
            except RolloutError as error:
                failure = Failure.of(error)
                wait = max(PAUSES.delay(attempt, 0), failure.retry_after or 0.0)
                late = loop.time() >= ends or wait >= seconds_left(LONGEST_WAIT)
                hopeless = not failure.retryable or failure.bug in bugs
                if late or hopeless or attempt >= self._attempts:
                    raise _final(failure, attempt) from error
                await self._recovery.wait_for(client, error)
                if client.is_lost:
                    client = _elsewhere(client, jar, failure)
            if failure.bug is not None:
                bugs.add(failure.bug)
            await asyncio.sleep(wait)
            attempt += 1


def _elsewhere(client: ServerClient, jar: CookieJar, failure: Failure) -> ServerClient:
    """Another replica, where no session is lost. Raises EnvironmentSessionError."""
    if jar.cookies:
        detail = f"the replica of {client.name} that has the session is gone: {failure.detail}"
        raise EnvironmentSessionError(detail)
    return client.whole.one()


def _lost(session: Failure, earlier: Failure) -> RolloutError:
    """The loss of the session, with the reason why it was needed again."""
    detail = f"{session.detail} (it was verified again because: {earlier.detail})"
    return error_of(msgspec.structs.replace(session, detail=detail))


def _final(failure: Failure, attempts: int) -> RolloutError:
    times = "" if attempts == 1 else f" {attempts} times"
    detail = f"{failure.detail} (verification failed{times}; {KEPT})"
    return error_of(msgspec.structs.replace(failure, detail=detail, retryable=False))
