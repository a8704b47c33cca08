"""Cookies, as far as servers on one machine need them: names, values, and being dropped.

A jar belongs to one rollout and one server, so paths and domains need not be kept.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def parse_cookies(header: str) -> dict[str, str]:
    """What a `Cookie` header holds."""
    pairs = (part.strip().partition("=") for part in header.split(";"))
    return {name: value for name, separator, value in pairs if name and separator}


def format_cookies(cookies: Mapping[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in cookies.items())


def parse_set_cookies(headers: Iterable[str]) -> dict[str, str]:
    """What `Set-Cookie` headers say; a cookie that is to be dropped has an empty value."""
    cookies = {}
    for header in headers:
        pair, _, attributes = header.partition(";")
        name, separator, value = pair.strip().partition("=")
        if name and separator:
            cookies[name] = "" if _is_dropped(attributes) else value
    return cookies


def format_set_cookie(name: str, value: str) -> str:
    lifetime = "" if value else " Max-Age=0;"
    return f"{name}={value}; Path=/;{lifetime} HttpOnly; SameSite=lax"


def _is_dropped(attributes: str) -> bool:
    """Whether its time is over. What cannot be read does not count, as browsers have it."""
    pairs = (attribute.partition("=") for attribute in attributes.split(";"))
    said = {name.strip().lower(): value.strip() for name, _, value in pairs}
    age = said.get("max-age", "")
    if age.removeprefix("-").isdecimal():
        return age.startswith("-") or not age.strip("0")
    try:
        expires = parsedate_to_datetime(said["expires"])
    except (KeyError, ValueError, OverflowError):
        return False
    return expires.replace(tzinfo=expires.tzinfo or UTC) <= datetime.now(UTC)


class CookieJar:
    """The cookies of one rollout with one server."""

    __slots__ = ("cookies",)

    def __init__(self, cookies: Mapping[str, str] | None = None) -> None:
        self.cookies = dict(cookies or {})

    def keep(self, given: Mapping[str, str]) -> None:
        for name, value in given.items():
            if value:
                self.cookies[name] = value
            else:
                self.cookies.pop(name, None)
