"""The engine's worker for tool agents: hand a row to its agent, and read what came of it.

The agent answers with the verified row. Only a row with a finite reward and no mark of failure is a
completed rollout; everything else that can come back, or fail to, is a typed failure.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from rollgym.engine import WorkItem
from rollgym.records import (
    NOTHING,
    AgentError,
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Omitted,
    Outcome,
    RolloutError,
    Row,
    RowError,
    Span,
    VerifierError,
)
from rollgym.records.failure import shorten
from rollgym.rollouts.output_row import added_fields, input_row, measures_of, same_value
from rollgym.rollouts.rows import (
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    NO_PERSIST,
    RESPONSE,
    REWARD,
    SUCCESS,
    agent_name,
)
from rollgym.servers.agent import PHASES_HEADER
from rollgym.servers.client import RecoveryWait, ServerClient
from rollgym.servers.context import working_for
from rollgym.servers.episode import SPANS_HEADER, decode_spans
from rollgym.servers.exchange import Answer
from rollgym.servers.responses import Response

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PHASES = msgspec.json.Decoder(dict[str, float])


class AgentWorker:
    """Runs rollouts on agent servers.

    `clients` gives the client of an agent by name. A reward of at least `success_threshold` is a
    success where the verifier does not say. With `first_seed` each repeat gets a seed of its own
    among its parameters, counted from there.
    """

    def __init__(
        self,
        clients: Callable[[str], ServerClient],
        *,
        success_threshold: float = 1.0,
        first_seed: int | None = None,
        patience: RecoveryWait | None = None,
    ) -> None:
        self._clients = clients
        self._success_threshold = success_threshold
        self._first_seed = first_seed
        self._patience = patience or RecoveryWait()

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        sent = input_row(item.task, item.repeat, self._first_seed)
        # Its fields have been read already, and what was added to it is not what answers add.
        row = item.task.row
        with working_for(f"{item.task.index}/{item.repeat}", deadline):
            try:
                answer = await self._run(agent_name(row), sent)
                return outcome_of(row, answer, self._success_threshold)
            except RolloutError as error:
                return _failed(error)

    async def _run(self, agent: str, row: Row) -> Answer:
        client = self._clients(agent).one()
        try:
            return await client.call("/run", row.raw, error=AgentError)
        except RolloutError as error:
            await self._patience.wait_for(client, error)
            raise


def outcome_of(sent: Row, answer: Answer, success_threshold: float) -> Outcome:
    """What an agent's answer says of a rollout. Raises VerifierError where it says nothing."""
    try:
        answered = Row.parse(answer.body)
        added = added_fields(sent, answered)
        marks = _Marks.of(answered)
    except (RowError, RecursionError) as error:
        raise VerifierError(f"the verified row cannot be read: {error}") from error
    if marks.no_persist:
        return Omitted(OmitReason.SKIPPED, f"the verifier asked for it with {NO_PERSIST}")
    if marks.failure_class or marks.failure_terminal:
        return _marked_failure(marks, added, answer.headers)
    reward, response = _reward(answered), _response(answered)
    usage = response.usage
    return Completed(
        reward,
        success=_success(sent, answered, by_reward=reward >= success_threshold),
        measures=measures_of(response, usage),
        usage=usage,
        phases=_phases(answer.headers.get(PHASES_HEADER, "{}")),
        spans=_spans(answer.headers.get(SPANS_HEADER, "[]")),
        result=_result(added),
    )


class _Marks(NamedTuple):
    """What an environment may say of a rollout besides its reward."""

    failure_class: object
    failure_terminal: bool
    no_persist: bool

    @classmethod
    def of(cls, row: Row) -> "_Marks":
        """Raises RowError."""
        named = row.get(FAILURE_CLASS, object)
        terminal, skipped = row.get(FAILURE_TERMINAL, object), row.get(NO_PERSIST, object)
        return cls(named, bool(terminal), bool(skipped))


def _marked_failure(
    marks: _Marks, added: dict[str, msgspec.Raw], headers: Mapping[str, str]
) -> Failed:
    """A failure that the environment itself reports. A reward beside it would be none."""
    named = str(marks.failure_class or FailureKind.VERIFIER)
    kinds = {str(kind): kind for kind in FailureKind}
    kind = kinds.get(named, FailureKind.VERIFIER)
    detail = shorten(f"the environment marked the rollout as failed: {named}")
    kept = {name: raw for name, raw in added.items() if name not in (REWARD, SUCCESS)}
    failure = Failure(kind, detail, retryable=not marks.failure_terminal)
    return Failed(
        failure,
        phases=_phases(headers.get(PHASES_HEADER, "{}")),
        spans=_spans(headers.get(SPANS_HEADER, "[]")),
        result=_result(kept),
    )


def _reward(row: Row) -> float:
    try:
        reward = row.get(REWARD, object)
        if isinstance(reward, bool) or not isinstance(reward, int | float):
            raise VerifierError(f"the verified row has no number as reward but {reward!r:.100}")
        return float(reward)
    except (RowError, OverflowError) as error:
        raise VerifierError("the verified row has a reward that is out of range") from error


def _success(sent: Row, answered: Row, *, by_reward: bool) -> bool:
    """The verifier's word. What it echoes of the input is none."""
    raw = answered.fields.get(SUCCESS)
    if raw is None or same_value(sent.fields.get(SUCCESS), raw):
        return by_reward
    return {b"true": True, b"false": False}.get(bytes(raw), by_reward)


def _response(row: Row) -> Response:
    try:
        return Response.of(row.get(RESPONSE, dict[str, Any], {}))
    except (RowError, RecursionError) as error:
        raise VerifierError(f"the verified row's `response` cannot be read: {error}") from error


def _result(fields: dict[str, msgspec.Raw]) -> msgspec.Raw:
    """On one line, also for readers to whom a carriage return ends one."""
    return msgspec.Raw(msgspec.json.encode(fields).replace(b"\r", b" "))


def _failed(error: RolloutError) -> Failed:
    """With what there was of the interaction; other servers may send anything under that name."""
    try:
        partial = _FIELDS.decode(error.partial) if error.partial else {}
    except msgspec.DecodeError:
        partial = {}
    phases = _phases(partial.pop("phases", "{}"))
    spans = _spans(partial.pop("spans", "[]"))
    result = _result(partial) if partial else NOTHING
    return Failed(Failure.of(error), phases=phases, spans=spans, result=result)


def _phases(text: str | msgspec.Raw) -> dict[str, float]:
    try:
        return _PHASES.decode(text)
    except msgspec.DecodeError:
        return {}


def _spans(text: str | msgspec.Raw) -> tuple[Span, ...]:
    try:
        return decode_spans(text)
    except msgspec.DecodeError:
        return ()
