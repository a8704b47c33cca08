"""A pool behind HTTP: a trainer takes groups, acknowledges them, and tells the policy's version.

The routes follow the rules of all our servers (`servers/access`, `servers/bounds`): open on
loopback, a token beyond it, JSON bodies of a bounded size. A trainer that disconnects while it
waits, or before its groups were read, has taken none.
"""

from typing import Annotated, TypeVar

import msgspec

from rollgym.engine import EngineError
from rollgym.pool.pool import RolloutPool
from rollgym.records.decoding import JsonDecoder
from rollgym.servers.exchange import Answer, RefusedRequestError, Request, error_answer, json_answer
from rollgym.servers.server import Server, ServerConfig
from rollgym.store import StoreError

LONGEST_WAIT = 300.0
MOST_GROUPS = 1000
MOST_IDS = 100_000
_SHORT = msgspec.Meta(min_length=1, max_length=200)
T = TypeVar("T")


class NextRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A trainer asks for groups. With `restarted` it gets again what it did not acknowledge."""

    trainer: Annotated[str, _SHORT]
    max: Annotated[int, msgspec.Meta(ge=1, le=MOST_GROUPS)] = 1
    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)] = 0.0
    restarted: bool = False


class AcknowledgeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A trainer does not need these groups again."""

    trainer: Annotated[str, _SHORT]
    ids: Annotated[list[Annotated[str, _SHORT]], msgspec.Meta(max_length=MOST_IDS)]


class PolicyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The policy has this version from now on."""

    version: Annotated[str, _SHORT]


_NEXT = JsonDecoder(NextRequest)
_ACKNOWLEDGE = JsonDecoder(AcknowledgeRequest)
_POLICY = JsonDecoder(PolicyRequest)


class PoolServer(Server):
    """The routes of one pool."""

    kind = "pool"

    def __init__(self, pool: RolloutPool) -> None:
        super().__init__("the pool", ServerConfig(request_timeout=LONGEST_WAIT + 60.0))
        self._pool = pool
        self.route("POST", "/groups/next", self._next)
        self.route("POST", "/groups/ack", self._acknowledge)
        self.route("POST", "/policy", self._set_policy)
        self.route("GET", "/status", self._status)

    async def _next(self, request: Request) -> Answer:
        asked = _decoded(_NEXT, request.body)
        try:
            groups = await self._pool.next_groups(
                asked.trainer, asked.max, asked.wait, restarted=asked.restarted
            )
        except (StoreError, EngineError) as error:
            return _stopped(error)
        return json_answer({"policy_version": self._pool.policy_version, "groups": groups})

    async def _acknowledge(self, request: Request) -> Answer:
        asked = _decoded(_ACKNOWLEDGE, request.body)
        try:
            result = await self._pool.acknowledge(asked.ids, asked.trainer)
        except (StoreError, EngineError) as error:
            return _stopped(error)
        return json_answer(result._asdict())

    async def _set_policy(self, request: Request) -> Answer:
        asked = _decoded(_POLICY, request.body)
        try:
            await self._pool.set_policy_version(asked.version, by="a trainer")
        except ValueError as error:
            raise RefusedRequestError(400, str(error)) from error
        except (StoreError, EngineError) as error:
            return _stopped(error)
        return json_answer({"policy_version": self._pool.policy_version})

    async def _status(self, _: Request) -> Answer:
        return json_answer(self._pool.status())


def _decoded(decoder: JsonDecoder[T], body: bytes) -> T:
    """Raises RefusedRequestError."""
    try:
        return decoder.decode(body or b"{}")
    except msgspec.DecodeError as error:
        raise RefusedRequestError(400, f"the request cannot be read: {error}") from error


def _stopped(error: Exception) -> Answer:
    return error_answer(503, f"the pool has stopped: {error}")
