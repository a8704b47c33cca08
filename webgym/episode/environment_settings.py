"""`env_config` and `retry_policy` of AsyncWebGym: plain dictionaries, or nodes of Hydra, read.

A name that nobody reads is refused: it is a typing error, and the run would not be what was meant.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta
from omegaconf import DictConfig, OmegaConf

from rollgym.store import RefusedError
from webgym.tasks import Difficulty

SESSIONS_AT_A_TIME = 4
_T = TypeVar("_T")
Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
MaxSteps = dict[Difficulty, Count] | tuple[()]


class EnvironmentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `env_config` may say; times in seconds unless the name says otherwise.

    An empty list for the steps means the defaults.
    """

    train_difficulty_max_steps: MaxSteps = ()
    test_difficulty_max_steps: MaxSteps = ()
    evaluation_workers: Count = 16
    instance_lifetime_max: Positive = 50.0
    watch_for_blocking: bool = False
    isolation: Literal["none", "process"] = "none"
    isolation_workers: Count = 8
    save_every_percent: Annotated[float, Meta(gt=0, le=100)] = 25.0
    sites_url: str = ""
    seed: int = 0

    def max_steps(self, split: str) -> dict[Difficulty, int]:
        chosen = (
            self.train_difficulty_max_steps if split == "train" else self.test_difficulty_max_steps
        )
        return dict(chosen)


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `retry_policy` may say.

    `http_pools` bounds requests to the browser server by what they do. `allocate` and `release`
    are for sessions. A step of ours is one request for what the other names do, so the largest of
    those bounds the steps.
    """

    wait_timeout: Positive = 2400.0
    operation_timeout: Positive = 120.0
    max_retries: Annotated[int, Meta(ge=0)] = 2
    http_pools: dict[
        Literal[
            "allocate",
            "release",
            "navigate",
            "screenshot",
            "ac_tree",
            "metadata",
            "page_metadata",
            "execute",
        ],
        Annotated[int, Meta(ge=0)],
    ] = {}

    @property
    def taking(self) -> int:
        """How many sessions may be asked for at a time."""
        return max(1, self.http_pools.get("allocate", SESSIONS_AT_A_TIME))

    @property
    def giving(self) -> int:
        """How many sessions may be given back at a time."""
        return max(1, self.http_pools.get("release", SESSIONS_AT_A_TIME))

    def connections(self, sessions: int) -> int:
        """How many requests may be under way at a time."""
        others = ("allocate", "release")
        steps = [size for name, size in self.http_pools.items() if name not in others]
        return (max(steps) if any(steps) else sessions) + self.taking + self.giving


def read_config(name: str, given: object, as_type: type[_T]) -> _T:
    """Read a dictionary or a node of Hydra. Raises RefusedError, naming the key."""
    plain = plain_config(name, given)
    known = [field.name for field in msgspec.structs.fields(as_type)]  # type: ignore[arg-type]
    for key in plain:
        if key not in known:
            close = get_close_matches(key, known, 1)
            meant = f": did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"
            raise RefusedError(f"{name} has no key {key!r}{meant}")
    try:
        return msgspec.convert(plain, as_type)
    except msgspec.ValidationError as error:
        raise RefusedError(f"{name}: {error}") from error


def plain_config(name: str, given: object) -> dict[str, Any]:
    """The same as a plain dictionary; None is an empty one. Raises RefusedError."""
    if given is None:
        return {}
    if isinstance(given, DictConfig):
        given = OmegaConf.to_container(given, resolve=True)
    if not isinstance(given, Mapping):
        raise RefusedError(f"{name} must be a dictionary, not {type(given).__name__}")
    return {str(key): value for key, value in given.items()}
