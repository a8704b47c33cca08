"""All routes of a browser server.

A request about a session is forwarded unchanged to its node; the others are answered here. Errors
are raised, and `answered` writes them, in one place for all routes.
"""

import asyncio
import logging
from urllib.parse import urlsplit

import msgspec

from rollgym.records.decoding import JsonDecoder, decode_json
from rollgym.servers.access import is_loopback
from rollgym.servers.exchange import Answer, RefusedRequestError, json_answer
from webgym.browser.contract.answers import Lease
from webgym.browser.contract.errors import WIRE_ERRORS, BadRequestError
from webgym.browser.contract.http import (
    AVAILABLE_HEADER,
    VIEWPORT_ANSWER,
    BrowserRequest,
    GetQuery,
    NoQuery,
    SessionReference,
    error_answer,
    internal_error_answer,
    read_profile,
    read_query,
    read_query_session,
    read_session_reference,
    rejection_answer,
    success,
)
from webgym.browser.master.master import Master
from webgym.browser.master.registration import REGISTER_PATH, Registration
from webgym.browser.settings import TOKEN_VARIABLE, BrowserSettings, BrowserSettingsError, check_url

GET_PATH = "/get"
HEALTH_PATH = "/healthz"
INFO_PATH = "/info"
ROUTES: dict[str, str] = {
    GET_PATH: "POST",
    "/reset": "POST",
    "/execute": "POST",
    "/step": "POST",
    "/screenshot": "GET",
    "/probe": "GET",
    "/metadata": "GET",
    "/storage_state": "GET",
    "/recording": "GET",
    INFO_PATH: "GET",
    REGISTER_PATH: "POST",
    HEALTH_PATH: "GET",
}
_WITHOUT_SESSION = {"/probe": success(), "/metadata": VIEWPORT_ANSWER}
_REGISTRATION = JsonDecoder(Registration)
_LOGGER = logging.getLogger(__name__)


class GrantedLease(Lease, frozen=True):
    """The answer of `POST /get`: a lease and its lifetime."""

    lifetime_mins: float
    status: str = "success"


class ServerRoutes:
    """The routes of one server."""

    def __init__(self, settings: BrowserSettings, master: Master, token: str | None) -> None:
        self._settings = settings
        self._master = master
        self._token = token

    async def answered(self, request: BrowserRequest) -> Answer:
        """The answer to a request, also if it fails. Raises only CancelledError."""
        try:
            answer = await self._answer(request)
        except WIRE_ERRORS as error:
            answer = error_answer(error)
        except RefusedRequestError as error:
            answer = rejection_answer(error)
        except Exception as error:
            _LOGGER.exception("%s failed", request.path)
            answer = internal_error_answer(error)
        if request.path in (GET_PATH, "/reset") and self._settings.role == "node":
            headers = {**answer.headers, AVAILABLE_HEADER: str(max(0, self._master.free_slots))}
            answer = msgspec.structs.replace(answer, headers=headers)
        return answer

    def undelivered(self, answer: Answer) -> None:
        """The client disconnected before it got this answer."""
        if answer.ok:
            self._master.drop(decode_json(answer.body, Lease))

    async def _answer(self, request: BrowserRequest) -> Answer:
        _check_route(request)
        match request.path:
            case "/get":
                return await self._get(request)
            case "/info":
                read_query(request.query, NoQuery)
                return json_answer(self._master.info())
            case "/register":
                return self._register(request)
            case "/healthz":
                return json_answer({"status": "ok"})
            case "/execute" | "/step":
                reference = read_session_reference(request)
            case _:
                reference = read_query_session(request.query)
        if reference.instance_id is None and request.path in _WITHOUT_SESSION:
            read_query(request.query, SessionReference)
            return _WITHOUT_SESSION[request.path]
        reference.session  # noqa: B018 - raises if it is missing
        return await self._master.ask(request, reference)

    async def _get(self, request: BrowserRequest) -> Answer:
        wanted = read_query(request.query, GetQuery)
        now = asyncio.get_running_loop().time()
        minutes = self._settings.lifetime_of(wanted.lifetime_mins)
        wait = wanted.wait_seconds
        wait_until = now + (self._settings.wait_seconds if wait is None else wait)
        deadline = wait_until + self._settings.open_seconds
        if request.deadline is not None:
            deadline = min(deadline, request.deadline)
        lease = await self._master.get(
            request.client,
            minutes * 60,
            min(wait_until, deadline),
            deadline,
            wanted.instance_id,
            read_profile(request.body),
        )
        return json_answer(GrantedLease(lease.instance_id, lease.node, minutes))

    def _register(self, request: BrowserRequest) -> Answer:
        try:
            registration = _REGISTRATION.decode(request.body)
            check_url("url", registration.url)
        except (msgspec.DecodeError, BrowserSettingsError) as error:
            raise BadRequestError(f"the registration is invalid: {error}") from error
        if self._token is None and not is_loopback(urlsplit(registration.url).hostname or ""):
            raise BadRequestError(
                f"without a token only nodes on this machine can register, not {registration.url}: "
                f"set {TOKEN_VARIABLE} for the master and its nodes"
            )
        return json_answer(self._master.register(registration, self._token))


def _check_route(request: BrowserRequest) -> None:
    """Raises RefusedRequestError."""
    method = ROUTES.get(request.path)
    if method is None:
        known = ", ".join(f"{verb} {path}" for path, verb in ROUTES.items())
        raise RefusedRequestError(404, f"unknown path {request.path[:100]}: the routes are {known}")
    if request.method != method:
        raise RefusedRequestError(405, f"{request.path} takes {method}, not {request.method[:20]}")
