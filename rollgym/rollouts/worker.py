"""The engine's worker for tool agents: hand a row to its agent, and read what came of it.

The agent answers with the verified row. Only a row with a finite reward and no mark of failure is a
completed rollout; everything else that can come back, or fail to, is a typed failure.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

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
    VerifierError,
)
from rollgym.rollouts.fields import (
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    NO_PERSIST,
    RESPONSE,
    REWARD,
    SUCCESS,
)
from rollgym.rollouts.inputs import agent_name
from rollgym.rollouts.output_row import added_fields, input_row, measures_of
from rollgym.rollouts.patience import Patience
from rollgym.servers.agent import PHASES_HEADER
from rollgym.servers.client import ServerClient
from rollgym.servers.context import working_for
from rollgym.servers.exchange import Answer
from rollgym.servers.responses import Response

_OBJECT = msgspec.json.Decoder(dict[str, Any])
_PHASES = msgspec.json.Decoder(dict[str, float])


class AgentWorker:
    """Runs rollouts on agent servers.

    `clients` gives the client of an agent by name. A reward of at least `success_threshold` is a
    success where the verifier does not say. With `sampling_seed` each repeat gets a seed of its own
    among its parameters, counted from there.
    """

    def __init__(
        self,
        clients: Callable[[str], ServerClient],
        *,
        success_threshold: float = 1.0,
        sampling_seed: int | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._clients = clients
        self._success_threshold = success_threshold
        self._sampling_seed = sampling_seed
        self._patience = patience or Patience()

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        seed = None if self._sampling_seed is None else self._sampling_seed + item.repeat
        sent = input_row(item.task, item.repeat, seed)
        with working_for(f"{item.task.index}/{item.repeat}", deadline):
            try:
                answer = await self._run(agent_name(sent), sent)
                return outcome_of(sent, answer, self._success_threshold)
            except RolloutError as error:
                partial = msgspec.Raw(error.partial) if error.partial else NOTHING
                return Failed(Failure.of(error), result=partial)

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
        failure_class = _marked(answered, FAILURE_CLASS)
    except RowError as error:
        raise VerifierError(f"the verified row is no JSON object: {error}") from error
    if _marked(answered, NO_PERSIST):
        return Omitted(OmitReason.SKIPPED, f"the verifier asked for it with {NO_PERSIST}")
    if failure_class is not None:
        return _marked_failure(answered, added, str(failure_class))
    response = _response(answered)
    return Completed(
        _reward(answered),
        success=_success(answered, success_threshold),
        measures=measures_of(response),
        usage=response.usage,
        phases=_phases(answer.headers),
        result=msgspec.Raw(msgspec.json.encode(added)),
    )


def _marked(row: Row, name: str) -> object:
    raw = row.fields.get(name)
    return None if raw is None else msgspec.json.decode(raw)


def _marked_failure(row: Row, added: dict[str, msgspec.Raw], named: str) -> Failed:
    """A failure that the environment itself reports. A reward beside it would be none."""
    kinds = {str(kind): kind for kind in FailureKind}
    kind = kinds.get(named, FailureKind.VERIFIER)
    terminal = bool(_marked(row, FAILURE_TERMINAL))
    detail = f"the environment marked the rollout as failed: {named}"
    kept = {name: raw for name, raw in added.items() if name not in (REWARD, SUCCESS)}
    failure = Failure(kind, detail, retryable=not terminal)
    return Failed(failure, result=msgspec.Raw(msgspec.json.encode(kept)))


def _reward(row: Row) -> float:
    reward = _marked(row, REWARD)
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise VerifierError(f"the verified row has no number as reward but {reward!r}")
    if not math.isfinite(reward):
        raise VerifierError(f"the verified row has {reward} as reward, which is not finite")
    return float(reward)


def _success(row: Row, threshold: float) -> bool:
    success = _marked(row, SUCCESS)
    return success if isinstance(success, bool) else _reward(row) >= threshold


def _response(row: Row) -> Response:
    raw = row.fields.get(RESPONSE)
    try:
        return Response.of({} if raw is None else _OBJECT.decode(raw))
    except msgspec.ValidationError as error:
        raise VerifierError("the verified row's `response` is no object") from error


def _phases(headers: Mapping[str, str]) -> dict[str, float]:
    try:
        return _PHASES.decode(headers.get(PHASES_HEADER, "{}"))
    except msgspec.DecodeError:
        return {}
