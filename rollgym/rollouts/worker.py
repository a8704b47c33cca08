"""The engine's worker for tool agents: it sends a row to its agent and reads the outcome.

The agent answers with the verified row. Only a row with a finite reward and without a failure field
is a completed rollout; everything else is a typed failure, with whatever there is of the rollout.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rollgym.engine import WorkItem
from rollgym.engine.versions import begun_late
from rollgym.records import (
    NO_USAGE,
    NOTHING,
    AgentError,
    Completed,
    Failed,
    Failure,
    FailureKind,
    ModelUse,
    OmitReason,
    Omitted,
    Outcome,
    RolloutError,
    Row,
    RowError,
    VerifierError,
)
from rollgym.records.decoding import JsonDecoder, decode_json
from rollgym.records.failure import shorten
from rollgym.records.version import PolicyTurn
from rollgym.rollouts import rows
from rollgym.rollouts.output_row import added_fields, input_row, measures_of, same_value
from rollgym.rollouts.signs import signs_of
from rollgym.rollouts.token_rows import with_tokens_stored_once
from rollgym.servers.agent import UNVERIFIED
from rollgym.servers.client import RecoveryWait, ServerClient
from rollgym.servers.context import RolloutProgress, ending_time, working_for
from rollgym.servers.exchange import Answer
from rollgym.servers.report import (
    EpisodeReport,
    read_models,
    read_phases,
    read_seconds,
    read_spans,
    read_turns,
)
from rollgym.servers.responses import Response

_FIELDS = JsonDecoder(dict[str, msgspec.Raw])
_NO_REPORT = EpisodeReport({}, (), None, None, None)
_MARKS = frozenset((rows.FAILURE_CLASS, rows.FAILURE_TERMINAL, rows.NO_PERSIST))


class AgentWorker:
    """Runs rollouts on agent servers.

    `clients` gives the client of an agent by name. A reward of at least `success_threshold` is a
    success where the verifier does not say. With `seeds` each repeat gets a sampling seed of its
    own.
    """

    def __init__(
        self,
        clients: Callable[[str], ServerClient],
        *,
        success_threshold: float = 1.0,
        seeds: rows.RepeatSeeds | None = None,
        recovery: RecoveryWait | None = None,
    ) -> None:
        self._clients = clients
        self._success_threshold = success_threshold
        self._seeds = seeds
        self._recovery = recovery or RecoveryWait()

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        clock = asyncio.get_running_loop().time
        began = clock()
        sent = input_row(item.task, item.repeat, self._seeds)
        # The task's row is parsed already, and fields of `sent` are not results.
        row, progress = item.task.row, RolloutProgress()
        ending = ending_time(deadline - began)
        with working_for(f"{item.task.index}/{item.repeat}", deadline - ending, progress):
            try:
                answer = await self._run(rows.agent_name(row), sent, ending)
                report = EpisodeReport.of(answer.headers)
                outcome = outcome_of(row, answer, self._success_threshold, report)
                return begun_late(outcome, _lateness(clock() - began, report.seconds))
            except RolloutError as error:
                return failed_outcome(
                    Failure.of(error), error.partial or progress.kept(), clock() - began
                )
            except asyncio.CancelledError:
                partial = progress.kept()
                if partial is None:
                    raise
                # The engine knows why it cancels; what there is of the rollout is kept.
                over = clock() >= deadline
                kind = FailureKind.TIMEOUT if over else FailureKind.CANCELLED
                failure = Failure.make(kind, "the rollout was cancelled before it ended")
                return failed_outcome(failure, partial, clock() - began)

    async def _run(self, agent: str, row: Row, grace: float) -> Answer:
        client = self._clients(agent).one()
        try:
            # The deadline of the attempt is the only limit.
            return await client.call("/run", row, error=AgentError, within=math.inf, grace=grace)
        except RolloutError as error:
            await self._recovery.wait_for(client.whole, error)
            raise


def outcome_of(
    sent: Row, answer: Answer, success_threshold: float, report: EpisodeReport | None = None
) -> Outcome:
    """The outcome that an agent's answer reports. Raises VerifierError where it cannot be read.

    `report` is that in the headers of the answer, for a caller that has it.
    """
    if report is None:
        report = EpisodeReport.of(answer.headers)
    try:
        answered = answer.row
        added = added_fields(sent, answered)
        named, terminal, skipped = _marks(answered)
    except RowError as error:
        raise VerifierError(f"the verified row cannot be read: {error}") from error
    if skipped:
        turns = take_turns(added, report)
        response = _readable_response(added)
        return Omitted(
            OmitReason.SKIPPED,
            f"the verifier asked for it with {rows.NO_PERSIST}",
            usage=response.usage if response else NO_USAGE,
            turns=turns,
        )
    if named or terminal:
        return _marked_failure(
            str(named or FailureKind.VERIFIER), added, report, retryable=not terminal
        )
    try:
        reward, response = _reward(answered), _response(answered)
    except VerifierError as error:
        return _unscored(Failure.of(error), added, report)
    if rows.TOKENS not in added:  # an agent of another program
        moved = with_tokens_stored_once(response)
        added |= {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in moved.items()}
    usage, turns = response.usage, take_turns(added, report)
    success = _success(sent, answered, by_reward=reward >= success_threshold)
    signs = signs_of(sent.fields.get(rows.PARAMS), response, added, success=success)
    return Completed(
        reward,
        success=success,
        measures=measures_of(response, usage) | signs,
        usage=usage,
        models=_models(report.models, response),
        phases=dict(report.phases),
        spans=report.spans,
        turns=turns,
        result=_result(added),
    )


def _marks(answered: Row) -> tuple[object, bool, bool]:
    """The kind of a failure, whether it is terminal, and whether the rollout is to be skipped."""
    if _MARKS.isdisjoint(answered.fields):
        return None, False, False
    named = answered.get(rows.FAILURE_CLASS, object)
    terminal = bool(answered.get(rows.FAILURE_TERMINAL, object))
    return named, terminal, bool(answered.get(rows.NO_PERSIST, object))


def _marked_failure(
    named: str, added: dict[str, msgspec.Raw], report: EpisodeReport, *, retryable: bool
) -> Failed:
    """A failure that the environment itself reports. A reward beside it does not count."""
    kinds = {str(kind): kind for kind in FailureKind}
    kind = kinds.get(named, FailureKind.VERIFIER)
    detail = shorten(f"the environment marked the rollout as failed: {named}")
    return _unscored(Failure(kind, detail, retryable=retryable), added, report)


def _unscored(failure: Failure, added: dict[str, msgspec.Raw], report: EpisodeReport) -> Failed:
    """The failure of a rollout that has a finished response but no verdict."""
    kept = {name: raw for name, raw in added.items() if name not in (rows.REWARD, rows.SUCCESS)}
    turns = take_turns(kept, report)
    response = _readable_response(kept)
    if response is None:
        kept.pop(rows.RESPONSE, None)
    else:
        kept[UNVERIFIED] = msgspec.Raw(b"true")
    return Failed(
        failure,
        usage=response.usage if response else NO_USAGE,
        models=_models(report.models, response),
        phases=dict(report.phases),
        spans=report.spans,
        turns=turns,
        result=_result(kept),
    )


def _reward(row: Row) -> float:
    try:
        reward = row.get(rows.REWARD, object)
        if isinstance(reward, bool) or not isinstance(reward, (int, float)):
            raise VerifierError(f"the verified row has no number as reward but {reward!r:.100}")
        return float(reward)
    except (RowError, OverflowError) as error:
        raise VerifierError("the verified row has a reward that is out of range") from error


def _success(sent: Row, answered: Row, *, by_reward: bool) -> bool:
    """The verdict of the verifier, unless it only echoes the input row."""
    raw = answered.fields.get(rows.SUCCESS)
    if raw is None or same_value(sent.fields.get(rows.SUCCESS), raw):
        return by_reward
    return {b"true": True, b"false": False}.get(bytes(raw), by_reward)


def _response(row: Row) -> Response:
    try:
        return Response.of(row.get(rows.RESPONSE, dict[str, Any], {}))
    except RowError as error:
        raise VerifierError(f"the verified row's `response` cannot be read: {error}") from error


def _result(fields: dict[str, msgspec.Raw]) -> msgspec.Raw:
    """On one line, also for readers for which a carriage return ends a line."""
    encoded = msgspec.json.encode(fields)
    return msgspec.Raw(encoded.replace(b"\r", b" ").replace(b"\n", b" "))


def failed_outcome(failure: Failure, partial: bytes | None, seconds: float) -> Failed:
    """The failure with the recorded interaction, which other servers may send in any form.

    `seconds` is the duration of the attempt.
    """
    try:
        kept = _FIELDS.decode(partial) if partial else {}
    except msgspec.DecodeError:
        kept = {}
    phases = read_phases(kept.pop("phases", None))
    spans, models_sent = read_spans(kept.pop("spans", None)), read_models(kept.pop("models", None))
    turns, within = take_turns(kept), read_seconds(kept.pop("seconds", None))
    response = _readable_response(kept)
    usage = response.usage if response else NO_USAGE
    result = _result(kept) if kept else NOTHING
    models = _models(models_sent, response)
    failed = Failed(
        failure,
        usage=usage,
        models=models,
        phases=phases,
        spans=spans,
        turns=turns,
        result=result,
    )
    return begun_late(failed, _lateness(seconds, within))


def _readable_response(fields: Mapping[str, msgspec.Raw]) -> Response | None:
    try:
        return Response.of(decode_json(fields[rows.RESPONSE], dict[str, Any]))
    except (KeyError, msgspec.DecodeError):
        return None


def _models(
    reported: tuple[ModelUse, ...] | None, response: Response | None
) -> tuple[ModelUse, ...]:
    """The calls of models as the agent reports them, else one entry with the response's tokens."""
    if reported is not None:
        return reported
    if response is None or response.usage == NO_USAGE:
        return ()
    return (ModelUse(str(response.raw.get("model") or ""), usage=response.usage),)


def take_turns(
    fields: dict[str, msgspec.Raw], report: EpisodeReport = _NO_REPORT
) -> tuple[PolicyTurn, ...]:
    """The turns of the policy, of which those among the fields are taken out."""
    sent = fields.pop(rows.TURNS, None)
    return (report.turns if sent is None else read_turns(sent)) or ()


def _lateness(seconds: float, within: float | None) -> float:
    """How late an agent may have begun that worked `within` as many of these seconds.

    An agent that does not say it may have begun at any time.
    """
    return seconds - (within or 0.0)
