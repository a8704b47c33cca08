"""HTTP authentication in one tab: the answer to a site that asks for a name and a password.

Chromium asks only for requests that it pauses, so the requests of such a session take a round trip
more each; with an origin, only the requests to it. Wrong credentials are given once for a request:
then the page shows what the site answers.
"""

from collections.abc import Callable

import msgspec

from webgym.browser.contract.profile import HttpCredentials, origin_of

MOST_REMEMBERED = 1000


class _Paused(msgspec.Struct, rename="camel"):
    request_id: str


class _Challenge(msgspec.Struct):
    origin: str


class _AuthRequired(msgspec.Struct, rename="camel"):
    request_id: str
    auth_challenge: _Challenge


_READ_PAUSED = msgspec.json.Decoder(_Paused).decode
_READ_AUTH = msgspec.json.Decoder(_AuthRequired).decode


def read_paused(params: msgspec.Raw) -> str:
    """The id of a paused request."""
    return _READ_PAUSED(params).request_id


class HttpAuthentication:
    """Answers the challenges of one tab. `send` sends a DevTools command to it."""

    def __init__(
        self, credentials: HttpCredentials, send: Callable[[str, dict[str, object]], None]
    ) -> None:
        self._credentials = credentials
        self._origin = None if credentials.origin is None else origin_of(credentials.origin)
        self._send = send
        self._active = False
        self._answered: dict[str, None] = {}
        self.handlers: dict[str, Callable[[msgspec.Raw], None]] = {
            "Fetch.requestPaused": self._continue,
            "Fetch.authRequired": self._answer,
        }

    def start(self) -> None:
        """Let Chromium ask."""
        self._active = True
        pattern = "*" if self._origin is None else f"{self._origin}/*"
        patterns = [{"urlPattern": pattern}]
        self._send("Fetch.enable", {"patterns": patterns, "handleAuthRequests": True})

    def stop(self) -> None:
        """Leave paused requests to another user of the domain."""
        self._active = False

    def _continue(self, params: msgspec.Raw) -> None:
        if self._active:
            self._send("Fetch.continueRequest", {"requestId": read_paused(params)})

    def _answer(self, params: msgspec.Raw) -> None:
        asked = _READ_AUTH(params)
        answer: dict[str, object] = {"response": "CancelAuth"}
        is_meant = self._origin in (None, origin_of(asked.auth_challenge.origin))
        if is_meant and asked.request_id not in self._answered:
            self._answered[asked.request_id] = None
            if len(self._answered) > MOST_REMEMBERED:
                del self._answered[next(iter(self._answered))]
            answer = {
                "response": "ProvideCredentials",
                "username": self._credentials.username,
                "password": self._credentials.password,
            }
        self._send(
            "Fetch.continueWithAuth",
            {"requestId": asked.request_id, "authChallengeResponse": answer},
        )
