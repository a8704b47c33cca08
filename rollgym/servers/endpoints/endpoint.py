"""One endpoint of a pool: its address, its requests in flight, its health and its counters.

*Cooldown.* After several failures in a row the endpoint gets no requests for a while. When the
cooldown is over, one request probes it; the next probe may follow after another cooldown, since the
response of a model can take minutes. A failed probe makes the cooldown longer, up to a bound. Any
success ends the cooldown, also that of a request which started before it: the endpoint works.

*Pause.* An endpoint that says how long to wait gets no requests for that time, up to a bound, and
is then used as before. Successes of requests that were already in flight do not shorten it.

A failure counts only if its request started after the latest cooldown did. Five hundred requests
that fail with one dying server count once.
"""

import logging
from collections import Counter

import msgspec
from yarl import URL

from rollgym.engine import Backoff
from rollgym.records import (
    DeadlineError,
    FailureKind,
    ModelMalformedError,
    ModelRateLimitError,
    ModelUnavailableError,
)
from rollgym.servers.endpoints.failures import FailedTry
from rollgym.servers.endpoints.settings import EndpointPoolSettings, EndpointSettings

_LOGGER = logging.getLogger("rollgym.servers.endpoints")
BESIDE = "/../"
"""The beginning of paths beside the API, such as `/../tokenize`."""
_UNBOUNDED = 1 << 62
WARNING_INTERVAL = 30.0
# Shorter keys are placeholders such as "EMPTY"; replacing them would only garble messages.
_SHORTEST_SECRET = 8
_COUNTED = (ModelMalformedError, ModelRateLimitError, ModelUnavailableError)


class EndpointReport(msgspec.Struct, frozen=True):
    """The counters of an endpoint. `failed` counts tries.

    `resting_for` is how many seconds of its cooldown or pause are left.
    """

    url: str
    in_flight: int
    limit: int | None
    ok: int
    failed: dict[FailureKind, int]
    cancelled: int
    resting_for: float
    last_failure: str | None


class EndpointHealth:
    """Cooldown and pause of one endpoint: a state machine without a task or a clock.

    All times are of the one clock that the caller reads.
    """

    def __init__(self, settings: EndpointPoolSettings) -> None:
        self._settings = settings
        self._cooldown = Backoff(settings.rest_initial, maximum=settings.rest_maximum, jitter=0.0)
        self._failures = 0
        self._cooldowns = 0
        self._cooldown_started = float("-inf")
        self._cooldown_ends = float("-inf")
        self._paused_until = float("-inf")

    @property
    def cooling_down(self) -> bool:
        """Whether failures keep it from getting any requests but probes."""
        return self._cooldowns > 0

    @property
    def available_at(self) -> float:
        """From when on it may get a request; in the past where it is available now."""
        return max(self._cooldown_ends, self._paused_until)

    def request_started(self, now: float) -> None:
        """Note a request. During cooldowns it is a probe, and delays the next one."""
        if self._cooldowns:
            self._cooldown_ends = now + self._cooldown_length()

    def succeeded(self) -> bool:
        """Note a success, which ends the cooldown. Returns whether there was one."""
        cooled_down = self._cooldowns > 0
        if self._failures or cooled_down:
            self._failures = self._cooldowns = 0
            self._cooldown_ends = float("-inf")
        return cooled_down

    def failed(self, now: float, started: float) -> None:
        """Note the failure of a request that started at `started`."""
        if started <= self._cooldown_started:
            return
        self._failures += 1
        if self._failures >= self._settings.failures_before_rest:
            self._cooldowns += 1
            self._cooldown_started = now
            self._cooldown_ends = now + self._cooldown_length()

    def pause(self, now: float, seconds: float) -> None:
        """The endpoint asked for a pause; of two pauses the later end holds."""
        until = now + min(seconds, self._settings.max_retry_after)
        self._paused_until = max(self._paused_until, until)

    def _cooldown_length(self) -> float:
        return self._cooldown.delay(self._cooldowns, seed=0)


class Endpoint:
    """The state of one endpoint: requests in flight, health and counters.

    `last_failed_try` is the latest failure that counted against the endpoint.
    """

    def __init__(self, settings: EndpointSettings, pool: EndpointPoolSettings) -> None:
        self.health = EndpointHealth(pool)
        self.weight = settings.weight
        self.in_flight = 0
        self.acquired = 0
        self.last_failed_try: FailedTry | None = None
        self._base = URL(settings.base_url)
        self._limit = settings.max_concurrency
        self._slots = self._limit or _UNBOUNDED
        self._key = settings.api_key.get_secret_value() if settings.api_key else ""
        self._headers = dict(settings.headers or {})
        secure = self._base.scheme == "https"
        port = self._base.port or (443 if secure else 80)
        self.address = (self._base.raw_host or "", port, secure)
        self._heads: dict[tuple[str, str], bytes] = {}
        self._urls: dict[str, URL] = {}
        self._last_failure: str | None = None
        self._ok = self._cancelled = 0
        self._warned_at = float("-inf")
        self._unreported = 0
        self._failed: Counter[FailureKind] = Counter()

    def url(self, path: str) -> URL:
        """The URL of a path of the API at this endpoint; a query of the base URL is kept.

        `/../x` is beside the last part of the base URL, usually `/v1`.
        """
        url = self._urls.get(path)
        if url is None:
            base = self._base.raw_path.rstrip("/")
            beside = path.startswith(BESIDE)
            whole = base.rpartition("/")[0] + path[3:] if beside else base + path
            url = self._urls[path] = self._base.with_path(whole, encoded=True, keep_query=True)
        return url

    def request(self, method: str, path: str, body: bytes | None) -> bytes:
        """The bytes of a whole request."""
        head = self._heads.get((method, path))
        if head is None:
            head = self._heads[method, path] = self._head(method, path)
        if body is None:
            return head + b"\r\n"
        return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)

    def _head(self, method: str, path: str) -> bytes:
        """The first lines of every request for this path."""
        url = self.url(path)
        headers = {
            "Host": url.host_port_subcomponent or "",
            "User-Agent": "rollgym",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        given = {name.lower() for name in self._headers}
        sent = {name: value for name, value in headers.items() if name.lower() not in given}
        lines = [f"{name}: {value}" for name, value in (sent | self._headers).items()]
        whole = [f"{method} {url.raw_path_qs} HTTP/1.1", *lines]
        return "".join(f"{line}\r\n" for line in whole).encode("latin-1")

    def shown_url(self, path: str = "") -> str:
        """The URL for messages: without its query, which may hold a key."""
        return str(self.url(path).with_query(None))

    def redact(self, text: str) -> str:
        """Replace the API key and the values of own headers in a text of the server."""
        if len(self._key) >= _SHORTEST_SECRET:
            text = text.replace(self._key, "[the API key]")
        for name, value in self._headers.items():
            if len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, f"[the header {name}]")
        return text

    def has_slot(self, now: float) -> bool:
        return self.in_flight < self._slots and now >= self.health.available_at

    @property
    def asked_for_pause(self) -> bool:
        """Whether its latest failure was a rate limit, so that it only wants fewer requests."""
        return (
            self.last_failed_try is not None and self.last_failed_try.error is ModelRateLimitError
        )

    def acquire(self, now: float) -> None:
        """Take a slot for a request that starts now."""
        self.in_flight += 1
        self.acquired += 1
        self.health.request_started(now)

    def succeeded(self) -> None:
        self._ok += 1
        if self.health.succeeded():
            _LOGGER.info("%s works again", self.shown_url())

    def cancelled(self) -> None:
        self._cancelled += 1

    def failed(self, failed: FailedTry, started: float, now: float, *, alone: bool = False) -> None:
        """Count a failed try. A response that rejects the request still shows a working endpoint.

        An endpoint that rejects every request would attract them all, because it is never busy. It
        is put into cooldown, unless it is `alone` and there is no other endpoint to use.
        """
        self._failed[failed.error.kind] += 1
        self._last_failure = failed.reason
        useless = failed.local and not alone
        if useless or (failed.worth_retrying and issubclass(failed.error, _COUNTED)):
            self._count_against(failed, started, now)
        elif failed.error is not DeadlineError:
            self.health.succeeded()

    def report(self, now: float) -> EndpointReport:
        return EndpointReport(
            url=self.shown_url(),
            in_flight=self.in_flight,
            limit=self._limit,
            ok=self._ok,
            failed=dict(self._failed),
            cancelled=self._cancelled,
            resting_for=max(0.0, self.health.available_at - now),
            last_failure=self._last_failure,
        )

    def _count_against(self, failed: FailedTry, started: float, now: float) -> None:
        self.last_failed_try = failed
        if failed.retry_after is not None:
            self.health.pause(now, failed.retry_after)
        if failed.retry_after is None or failed.local or failed.error is not ModelRateLimitError:
            before = self.health.cooling_down
            self.health.failed(now, started)
            if self.health.cooling_down and not before:
                self._warn(failed, now)

    def _warn(self, failed: FailedTry, now: float) -> None:
        """Log a cooldown. A saturated endpoint can have many in a second, so not each of them."""
        self._unreported += 1
        if now - self._warned_at < WARNING_INTERVAL:
            return
        often = f" ({self._unreported} times)" if self._unreported > 1 else ""
        _LOGGER.warning(
            "%s gets no requests for %.1f s after failures%s; the last: %s",
            self.shown_url(),
            self.health.available_at - now,
            often,
            failed.reason,
        )
        self._warned_at, self._unreported = now, 0
