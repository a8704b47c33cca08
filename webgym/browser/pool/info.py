"""What a pool tells about itself."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from webgym.browser.pool.decisions import Condition


class BrowserInfo(msgspec.Struct, frozen=True):
    """One browser as it is now. `opened` counts all sessions that it ever had."""

    pid: int
    condition: Condition
    sessions: int
    opened: int
    age: float
    memory: int


class PoolInfo(msgspec.Struct, frozen=True):
    """The pool as it is now.

    `sessions` includes those that are being opened or closed, and `waiting` are callers that found
    no room. `replaced` counts the browsers that ended, by reason. `launch_failure` is why the last
    start of a browser failed, until one succeeds; `failure` is a bug that ended the pool.
    """

    capacity: int
    sessions: int
    waiting: int
    browsers: tuple[BrowserInfo, ...]
    replaced: Mapping[str, int]
    renderers_ended: int = 0
    launch_failure: str | None = None
    failure: str | None = None


class PoolEvent(msgspec.Struct, frozen=True):
    """Something that happened in a pool, for whoever keeps an eye on it."""

    kind: Literal["started", "not_started", "ended", "renderer_ended"]
    detail: str
    pid: int | None = None
    sessions_lost: int = 0
