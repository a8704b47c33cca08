"""One endpoint as the pool sees it: where it is, what it is busy with, and how it has done."""

import logging
from collections import Counter

import msgspec
from yarl import URL

from rollgym.records import (
    DeadlineError,
    FailureKind,
    ModelMalformedError,
    ModelRateLimitError,
    ModelUnavailableError,
)
from rollgym.servers.endpoints.fault import Fault
from rollgym.servers.endpoints.health import Health, HealthRules
from rollgym.servers.endpoints.settings import EndpointSettings

_LOGGER = logging.getLogger("rollgym.servers.endpoints")
_UNBOUNDED = 1 << 62
# Shorter keys are placeholders such as "EMPTY"; replacing them would only garble messages.
_SHORTEST_SECRET = 8
_ILL = (ModelMalformedError, ModelRateLimitError, ModelUnavailableError)


class EndpointReport(msgspec.Struct, frozen=True):
    """What an endpoint has done so far. `failed` counts tries; `resting_for` is in seconds."""

    url: str
    in_flight: int
    limit: int | None
    ok: int
    failed: dict[FailureKind, int]
    cancelled: int
    resting_for: float
    last_failure: str | None


class Endpoint:
    """The state of one endpoint: requests in flight, health and counters.

    `illness` is the fault that last spoke against using it.
    """

    def __init__(self, settings: EndpointSettings, rules: HealthRules) -> None:
        self.health = Health(rules)
        self.weight = settings.weight
        self.in_flight = 0
        self.taken = 0
        self.illness: Fault | None = None
        self._base = URL(settings.base_url)
        self._limit = settings.max_concurrency
        self._room = self._limit or _UNBOUNDED
        self._key = settings.api_key.get_secret_value() if settings.api_key else ""
        secure = self._base.scheme == "https"
        port = self._base.port or (443 if secure else 80)
        self.address = (self._base.raw_host or "", port, secure)
        self._heads: dict[tuple[str, str], bytes] = {}
        self._urls: dict[str, URL] = {}
        self._last_failure: str | None = None
        self._ok = self._cancelled = 0
        self._failed: Counter[FailureKind] = Counter()

    def url(self, path: str) -> URL:
        """Where a path of the API is at this endpoint; a query of the base URL is kept."""
        url = self._urls.get(path)
        if url is None:
            whole = self._base.raw_path.rstrip("/") + path
            url = self._urls[path] = self._base.with_path(whole, encoded=True, keep_query=True)
        return url

    def request(self, method: str, path: str, body: bytes | None) -> bytes:
        """A whole request, ready to be sent."""
        head = self._heads.get((method, path))
        if head is None:
            head = self._heads[method, path] = self._head(method, path)
        if body is None:
            return head + b"\r\n"
        return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)

    def _head(self, method: str, path: str) -> bytes:
        """What all requests for a path begin with."""
        url = self.url(path)
        lines = [
            f"{method} {url.raw_path_qs} HTTP/1.1",
            f"Host: {url.host_port_subcomponent}",
            "User-Agent: rollgym",
            "Accept: application/json",
            "Accept-Encoding: identity",
            "Content-Type: application/json",
        ]
        if self._key:
            lines.append(f"Authorization: Bearer {self._key}")
        return "".join(f"{line}\r\n" for line in lines).encode("latin-1")

    def shown_url(self, path: str = "") -> str:
        """The URL for people: without its query, which may hold a key."""
        return str(self.url(path).with_query(None))

    def redact(self, text: str) -> str:
        """What the server said, without the API key, should it have repeated it."""
        if len(self._key) < _SHORTEST_SECRET:
            return text
        return text.replace(self._key, "[the API key]")

    def can_take(self, now: float) -> bool:
        return self.in_flight < self._room and now >= self.health.wakes_at

    @property
    def asked_for_time(self) -> bool:
        """Whether it rests because it wants fewer requests, and not because it fails."""
        return self.illness is not None and self.illness.error is ModelRateLimitError

    def take(self, now: float) -> None:
        """A request goes out."""
        self.in_flight += 1
        self.taken += 1
        self.health.begin(now)

    def succeeded(self) -> None:
        self._ok += 1
        if self.health.resting:
            _LOGGER.info("%s answers again", self.shown_url())
        self.health.succeeded()

    def cancelled(self) -> None:
        self._cancelled += 1

    def failed(self, fault: Fault, began: float, now: float, *, alone: bool = False) -> None:
        """Learn from a fault: an answer that refuses the request is still a sign of life.

        One that would refuse every request draws them all, because it is never busy, so it rests,
        unless it is `alone` and there is nobody to do better.
        """
        self._failed[fault.error.kind] += 1
        self._last_failure = fault.reason
        useless = fault.local and not alone
        if useless or (fault.worth_retrying and issubclass(fault.error, _ILL)):
            self._fell_ill(fault, began, now)
        elif fault.error is not DeadlineError:
            self.health.succeeded()

    def report(self, now: float) -> EndpointReport:
        return EndpointReport(
            url=self.shown_url(),
            in_flight=self.in_flight,
            limit=self._limit,
            ok=self._ok,
            failed=dict(self._failed),
            cancelled=self._cancelled,
            resting_for=max(0.0, self.health.wakes_at - now),
            last_failure=self._last_failure,
        )

    def _fell_ill(self, fault: Fault, began: float, now: float) -> None:
        self.illness = fault
        if fault.retry_after is not None:
            self.health.pause(now, fault.retry_after)
        if fault.retry_after is None or fault.local or fault.error is not ModelRateLimitError:
            rested = self.health.resting
            self.health.failed(now, began)
            if self.health.resting and not rested:
                _LOGGER.warning(
                    "%s rests for %.1f s after failures; the last: %s",
                    self.shown_url(),
                    self.health.wakes_at - now,
                    fault.reason,
                )
