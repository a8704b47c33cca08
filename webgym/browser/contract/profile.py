"""How a session presents itself and what it starts with: the body of `POST /get`.

Every key may be left out; without any, a session is as it always was. The storage state has the
form that Playwright saves and loads: cookies, and the local storage of origins.
"""

import re
import zoneinfo
from functools import cache
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from webgym.browser.contract.answers import VIEWPORT_HEIGHT, VIEWPORT_WIDTH
from webgym.browser.contract.errors import BadRequestError

MOST_ORIGINS = 100
LARGEST_VIEWPORT = 4096
_LOCALE = r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$"
_LANGUAGE = re.compile(r"[-_]")
_HEADER_TEXT = r"^[\x20-\x7e]+$"
_Pixels = Annotated[int, msgspec.Meta(ge=100, le=LARGEST_VIEWPORT)]
_Locale = Annotated[str, msgspec.Meta(pattern=_LOCALE, max_length=40)]
_UserAgent = Annotated[str, msgspec.Meta(pattern=_HEADER_TEXT, max_length=500)]
_Text = Annotated[str, msgspec.Meta(max_length=1000)]


RecordingKind = Literal["har", "video"]
RECORDING_TYPES: dict[RecordingKind, str] = {"har": "application/json", "video": "image/webp"}


class _ProfilePart(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A part of a profile."""


class ViewportSettings(_ProfilePart, frozen=True):
    """The size of the page in pixels."""

    width: _Pixels = VIEWPORT_WIDTH
    height: _Pixels = VIEWPORT_HEIGHT


class StoredCookie(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"http_only": "httpOnly", "same_site": "sameSite"},
):
    """A cookie. `url` may stand for domain and path. `expires` -1: at the end of the session.

    Other keys are ignored, because programs that save cookies add their own.
    """

    name: str
    value: str
    domain: str | None = None
    path: str | None = None
    url: str | None = None
    expires: float = -1
    http_only: bool = False
    secure: bool = False
    same_site: Literal["Strict", "Lax", "None"] | None = None


class StoredItem(msgspec.Struct, frozen=True):
    """An entry of a local storage."""

    name: str
    value: str


class StoredOrigin(msgspec.Struct, frozen=True, rename={"local_storage": "localStorage"}):
    """The local storage of an origin, such as `https://example.com`."""

    origin: str
    local_storage: tuple[StoredItem, ...] = ()


class StorageState(msgspec.Struct, frozen=True):
    """Cookies and local storage."""

    cookies: tuple[StoredCookie, ...] = ()
    origins: Annotated[tuple[StoredOrigin, ...], msgspec.Meta(max_length=MOST_ORIGINS)] = ()


class HttpCredentials(_ProfilePart, frozen=True):
    """The answer to sites that ask for a name and a password. With `origin`, only this one."""

    username: _Text
    password: _Text
    origin: _Text | None = None


class UpstreamProxy(_ProfilePart, frozen=True):
    """The proxy that a session's connections go through, after the guard has allowed them.

    `server` is `http://HOST:PORT` (CONNECT) or `socks5://HOST:PORT`.
    """

    server: _Text
    username: _Text | None = None
    password: _Text = ""

    @property
    def address(self) -> tuple[str, str, int]:
        """Scheme, host and port. Raises BadRequestError."""
        try:
            parts = urlsplit(self.server)
            scheme, host, port = parts.scheme, parts.hostname, parts.port
        except ValueError:
            scheme, host, port = "", None, None
        if scheme not in ("http", "socks5") or not host or not port or "@" in self.server:
            raise BadRequestError(
                "proxy.server must be http://HOST:PORT or socks5://HOST:PORT, with a name and a "
                "password in proxy.username and proxy.password"
            )
        return scheme, host, port


class SessionProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client asks of its session. The default is an ordinary one.

    - `locale`: the language of pages and of `Accept-Language`, such as `de-DE`.
    - `timezone`: the time zone of pages, such as `Europe/Berlin`.
    - `accept_dialogs`: the answer to `confirm` and `prompt`.
    - `downloads`: keep the files that pages download, and answer them with the step.
    - `record_har`, `record_video`: record the session, for `GET /recording`.
    """

    viewport: ViewportSettings = ViewportSettings()
    locale: _Locale | None = None
    timezone: str | None = None
    user_agent: _UserAgent | None = None
    storage_state: StorageState = StorageState()
    http_credentials: HttpCredentials | None = None
    proxy: UpstreamProxy | None = None
    accept_dialogs: bool = True
    downloads: bool = False
    record_har: bool = False
    record_video: bool = False

    def check(self) -> None:
        """Check what the types do not. Raises BadRequestError, which names the key."""
        zones = _time_zones()
        if self.timezone is not None and zones and self.timezone not in zones:
            raise BadRequestError(
                f"timezone: {self.timezone[:60]!r} is unknown: give a name such as Europe/Berlin"
            )
        for cookie in self.storage_state.cookies:
            if cookie.url is None and cookie.domain is None:
                raise BadRequestError(f"cookie {cookie.name[:60]!r} needs a domain or a url")
        for stored in self.storage_state.origins:
            _check_origin("storage_state.origins", stored.origin)
        if self.http_credentials is not None and self.http_credentials.origin is not None:
            _check_origin("http_credentials.origin", self.http_credentials.origin)
        if self.proxy is not None:
            self.proxy.address  # noqa: B018 - raises if it is invalid

    @property
    def accept_language(self) -> str | None:
        """The header for the locale: `de-DE` is also `de`."""
        if self.locale is None:
            return None
        full = self.locale.replace("_", "-")
        language = _LANGUAGE.split(self.locale)[0]
        return full if full == language else f"{full},{language}"


DEFAULT_PROFILE = SessionProfile()


def origin_of(url: str) -> str | None:
    """The origin of an HTTP URL as browsers write it; None for other URLs."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host:
        return None
    name = f"[{host}]" if ":" in host else host
    usual = 443 if parts.scheme == "https" else 80
    return (
        f"{parts.scheme}://{name}" if port in (None, usual) else f"{parts.scheme}://{name}:{port}"
    )


def _check_origin(key: str, text: str) -> None:
    if origin_of(text) != text.rstrip("/").lower():
        raise BadRequestError(
            f"{key}: {text[:100]!r} is not an origin, such as https://example.com"
        )


@cache
def _time_zones() -> frozenset[str]:
    """Empty on a machine without a database of time zones; the browser checks the name there."""
    return frozenset(zoneinfo.available_timezones())
