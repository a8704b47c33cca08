"""The settings of a browser server, each with its default and its check.

The token is not a setting: it comes from the environment and is never printed.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from rollgym.servers.access import is_loopback
from rollgym.store import RefusedError
from webgym.browser.guard.rules import NetworkRules, RuleError

Role = Literal["both", "master", "node"]
LOOPBACK = "127.0.0.1"
MASTER_PORT, NODE_PORT = 7000, 8080
TOKEN_VARIABLE = "CPU_CLUSTER_TOKEN"  # noqa: S105 - the name of a variable
MOST_SESSIONS, SESSIONS_PER_CORE = 64, 32
SESSION_BYTES = 256 * 2**20
"""The memory of a session on an ordinary page, with a reserve for larger ones."""

_Positive = Annotated[float, msgspec.Meta(gt=0)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
_Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class BrowserSettingsError(RefusedError):
    """A browser server cannot be started with these settings."""


class BrowserUsageError(BrowserSettingsError):
    """An option is wrong, or does not go with another one."""

    is_misuse = True


class BrowserSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one server. `port` None is the default port of the role, 0 any free port.

    `url` is where the master reaches a node. `capacity` None means what the machine can run.
    Lifetimes are in minutes, as in the contract; other durations are in seconds.
    """

    role: Role = "both"
    host: str = LOOPBACK
    port: _Port | None = None
    master: str | None = None
    url: str | None = None

    capacity: _Count | None = None
    browser: str | None = None
    sessions_per_browser: _Count = 16
    browser_sessions: _Count = 500
    browser_minutes: _Positive = 60.0
    browser_megabytes: _Count = 4096
    """A browser that holds more is replaced; at twice as much its largest page is killed."""
    allow_network: tuple[str, ...] = ()
    allow_proxy: tuple[str, ...] = ()
    """Addresses of proxies that sessions may use although they are not public."""

    lifetime_mins: _Positive = 60.0
    longest_lifetime_mins: _Positive = 24 * 60.0
    idle_seconds: _Positive = 15 * 60.0
    first_use_seconds: _Positive = 60.0
    queue_size: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 1024
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=600)] = 60.0

    open_seconds: _Positive = 30.0
    silence_seconds: _Positive = 8.0
    startup_seconds: Annotated[float, msgspec.Meta(ge=0)] = 15.0

    page_megabytes: _Count = 1536
    """A page process that holds more is killed."""
    drain_seconds: _Positive = 3_600.0
    """How long the sessions of a browser that is being replaced may continue."""
    ping_interval: _Positive = 2.0
    ping_timeout: _Positive = 6.0
    """A browser that does not answer for this long hangs, and is killed."""
    memory_interval: _Positive = 1.0
    launch_timeout: _Positive = 20.0
    """How long a browser may take to start."""
    close_timeout: _Positive = 10.0
    """How long a session may take to close; its browser is replaced if it takes longer."""

    @property
    def accepts_nodes(self) -> bool:
        return self.role != "node"

    @property
    def has_browsers(self) -> bool:
        return self.role != "master"

    @property
    def bound_port(self) -> int:
        if self.port is not None:
            return self.port
        return NODE_PORT if self.role == "node" else MASTER_PORT

    @property
    def sessions(self) -> int:
        return default_capacity() if self.capacity is None else self.capacity

    @property
    def most_browsers(self) -> int:
        """The largest number of browsers that get new sessions at the same time."""
        return -(-self.sessions // self.sessions_per_browser)

    @property
    def spare_slots(self) -> int:
        """The next browser is started when fewer slots than this are free."""
        return max(1, self.sessions_per_browser // 8)

    def lifetime_of(self, minutes: float | None) -> float:
        """The lifetime of a session, in minutes, for the lifetime that a client requests."""
        return min(self.lifetime_mins if minutes is None else minutes, self.longest_lifetime_mins)

    def check(self, token: str | None) -> None:
        """Raises BrowserSettingsError, which says what to do."""
        if self.role == "node" and self.master is None:
            raise BrowserUsageError("a node needs its master: give --master http://HOST:7000")
        if self.role != "node" and self.master is not None:
            raise BrowserUsageError("--master is for nodes: add --role node")
        for name, url in (("--master", self.master), ("--url", self.url)):
            if url is not None:
                check_url(name, url)
        try:
            NetworkRules.parse(self.allow_network)
            NetworkRules.parse(self.allow_proxy)
        except RuleError as error:
            raise BrowserUsageError(str(error)) from error
        if token is not None and not (token.isascii() and token.isprintable()):
            raise BrowserSettingsError(
                f"{TOKEN_VARIABLE} has characters that are not allowed in an HTTP header"
            )
        if token is None and not is_loopback(self.host):
            raise BrowserSettingsError(
                f"to listen on {self.host}, which other machines can reach, set {TOKEN_VARIABLE} "
                "in the environment of the server and of its clients: "
                f"export {TOKEN_VARIABLE}=$(python3 -c 'import secrets; "
                "print(secrets.token_urlsafe(32))')"
            )


def read_settings(given: Mapping[str, object], token: str | None) -> BrowserSettings:
    """Raises BrowserSettingsError, which says what to do."""
    try:
        settings = msgspec.convert(given, BrowserSettings)
    except msgspec.ValidationError as error:
        raise BrowserUsageError(f"a setting is invalid: {error}") from error
    settings.check(token)
    return settings


def read_token() -> str | None:
    """The token in the environment; None if it is missing or empty."""
    return os.environ.get(TOKEN_VARIABLE, "").strip() or None


def default_capacity() -> int:
    """The number of sessions for the memory and the cores of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    by_cores = SESSIONS_PER_CORE * len(os.sched_getaffinity(0))
    return max(1, min(MOST_SESSIONS, memory // SESSION_BYTES, by_cores))


def check_url(name: str, url: str) -> None:
    """Raises BrowserSettingsError if this is not the URL of a server."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    else:
        usable = usable and parts.path in ("", "/") and not (parts.query or parts.fragment)
        usable = usable and "@" not in parts.netloc
    if not usable:
        raise BrowserUsageError(
            f"{name}: {url!r} is not the URL of a server, such as http://10.0.0.5:7000"
        )
