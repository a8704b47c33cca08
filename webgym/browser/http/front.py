"""Every route of a browser server, with what is asked there.

A route about a session goes to the node it names, as the bytes that came; the others are answered
here. Errors are raised, and written by `answered`, in one place for all of them.
"""

import asyncio
import logging
from urllib.parse import urlsplit

import msgspec

from rollgym.servers.exchange import Answer, RefusedRequestError, json_answer
from webgym.browser.contract.answers import VIEWPORT_HEIGHT, VIEWPORT_WIDTH, Lease
from webgym.browser.contract.errors import WIRE_ERRORS, BadRequestError
from webgym.browser.exchange.answer import (
    AVAILABLE_HEADER,
    bug_answer,
    error_answer,
    refusal_answer,
    success,
)
from webgym.browser.exchange.request import (
    Address,
    GetQuery,
    NoQuery,
    Request,
    read_address,
    read_query,
    read_query_address,
)
from webgym.browser.master import Master
from webgym.browser.registration import REGISTER_PATH, Registration
from webgym.browser.settings import Settings, SettingsError, check_url, is_loopback

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
    INFO_PATH: "GET",
    REGISTER_PATH: "POST",
    HEALTH_PATH: "GET",
}
_WITHOUT_SESSION = {
    "/probe": success(),
    "/metadata": json_answer({"width": VIEWPORT_WIDTH, "height": VIEWPORT_HEIGHT}),
}
_REGISTRATION = msgspec.json.Decoder(Registration)
_LOGGER = logging.getLogger(__name__)


class Granted(msgspec.Struct, frozen=True):
    """What `POST /get` answers: a lease, and how long it is good for."""

    instance_id: str
    node: str
    lifetime_mins: float
    status: str = "success"


class Front:
    """The routes of one server."""

    def __init__(self, settings: Settings, master: Master, token: str | None) -> None:
        self._settings = settings
        self._master = master
        self._token = token

    async def answered(self, request: Request) -> Answer:
        """The answer to a request, whatever comes of it. Raises nothing but cancellation."""
        try:
            answer = await self._answer(request)
        except WIRE_ERRORS as error:
            answer = error_answer(error)
        except RefusedRequestError as error:
            answer = refusal_answer(error)
        except Exception as error:
            _LOGGER.exception("%s failed", request.path)
            answer = bug_answer(error)
        if request.path in (GET_PATH, "/reset") and self._settings.role == "node":
            told = {**answer.headers, AVAILABLE_HEADER: str(max(0, self._master.room))}
            answer = msgspec.structs.replace(answer, headers=told)
        return answer

    def undelivered(self, answer: Answer) -> None:
        """The client went away before it got this answer."""
        if answer.ok:
            self._master.drop(msgspec.json.decode(answer.body, type=Lease))

    async def _answer(self, request: Request) -> Answer:
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
                address = read_address(request.body)
            case _:
                address = read_query_address(request.query)
        if address.instance_id is None and request.path in _WITHOUT_SESSION:
            read_query(request.query, Address)
            return _WITHOUT_SESSION[request.path]
        address.session  # noqa: B018 - raises where it is missing
        return await self._master.ask(request, address)

    async def _get(self, request: Request) -> Answer:
        wanted = read_query(request.query, GetQuery)
        now = asyncio.get_running_loop().time()
        minutes = self._settings.lifetime_of(wanted.lifetime_mins)
        patience = wanted.wait_seconds
        wait_until = now + (self._settings.wait_seconds if patience is None else patience)
        deadline = wait_until + self._settings.open_seconds
        if request.deadline is not None:
            deadline = min(deadline, request.deadline)
        lease = await self._master.get(
            request.client, minutes * 60, min(wait_until, deadline), deadline, wanted.instance_id
        )
        return json_answer(Granted(lease.instance_id, lease.node, minutes))

    def _register(self, request: Request) -> Answer:
        try:
            said = _REGISTRATION.decode(request.body)
            check_url("url", said.url)
        except (msgspec.DecodeError, SettingsError) as error:
            raise BadRequestError(f"the registration is wrong: {error}") from error
        if self._token is None and not is_loopback(urlsplit(said.url).hostname or ""):
            raise BadRequestError(
                f"without a token only nodes on this machine can register, not {said.url}"
            )
        return json_answer(self._master.register(said, self._token))


def _check_route(request: Request) -> None:
    """Raises RefusedRequestError."""
    method = ROUTES.get(request.path)
    if method is None:
        known = ", ".join(f"{verb} {path}" for path, verb in ROUTES.items())
        raise RefusedRequestError(404, f"there is no {request.path[:100]}; there are {known}")
    if request.method != method:
        raise RefusedRequestError(405, f"{request.path} takes {method}, not {request.method[:20]}")
