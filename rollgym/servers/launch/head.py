"""The head: one address that lists the servers of a run, and the client of it.

`GET /server_instances` lists the servers; `GET /healthz` and `GET /` say that the launcher is
running. `GET /global_config_dict_yaml` is what NeMo Gym's clients read to find the servers: YAML
inside a JSON string, with each server's host and port beside its settings. Secrets are `***` in
both.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import web
from omegaconf import OmegaConf

from rollgym.records.decoding import decode_json
from rollgym.servers.access import ServerAccess, bearer, is_loopback
from rollgym.servers.bounds import check_body, handler_runner, serving
from rollgym.servers.config.instances import Address, head_advice, listening_socket
from rollgym.servers.exchange import RefusedRequestError
from rollgym.servers.http_client import http_session
from rollgym.servers.launch.addresses import ANY_HOST, Directory
from rollgym.servers.launch.records import InstanceRecord, NoHeadError, ServerStatus, StartError
from rollgym.servers.replicas import SERVER_ERROR

INSTANCES_PATH = "/server_instances"
CONFIG_PATH = "/global_config_dict_yaml"
LARGEST_BODY = 1024
SHUTDOWN_TIMEOUT = 0.5
HEAD_TIMEOUT = 5.0
MOVE_INTERVAL = 3.0
HEALTH_TIMEOUT = 3.0
_INTERPOLATION = re.compile(r"(\\*)\$\{")


@asynccontextmanager
async def head_listening(
    address: Address, records: Callable[[], list[InstanceRecord]], token: str | None = None
) -> AsyncIterator[None]:
    """Serve the listing at this address during the block. Raises StartError.

    Beyond loopback, requests must send the token.
    """
    access = ServerAccess(address.host, None if is_loopback(address.host) else token)
    answers: dict[str, Callable[[], object]] = {
        INSTANCES_PATH: records,
        CONFIG_PATH: lambda: _config_yaml(address, records()),
        "/healthz": lambda: {"status": "ok"},
        "/": lambda: {"status": "ok"},
    }

    async def respond(request: web.BaseRequest) -> web.Response:
        try:
            access.check(request.headers, request.remote)
            check_body(request)
        except RefusedRequestError as error:
            return _error(error.status, str(error))
        if request.path not in answers:
            return _error(404, f"the head has {', '.join(answers)}")
        return _json(answers[request.path]()) if request.method == "GET" else _error(405, "use GET")

    try:
        bound = listening_socket(address)
        bound.listen()
    except OSError as error:
        raise StartError(
            f"the head server cannot listen at {address.url} ({error.strerror or error}); "
            f"{head_advice(address)}"
        ) from error
    runner = handler_runner(respond, LARGEST_BODY, shutdown_timeout=SHUTDOWN_TIMEOUT)
    async with serving(runner, bound):
        yield


def _json(value: object, status: int = 200) -> web.Response:
    body = msgspec.json.encode(value)
    return web.Response(body=body, status=status, content_type="application/json")


def _error(status: int, message: str) -> web.Response:
    return _json({"error": {"message": message}}, status)


def _config_yaml(head: Address, records: Sequence[InstanceRecord]) -> str:
    """The configuration of a run in the form of NeMo Gym: name, kind, implementation, settings."""
    config: dict[str, Any] = {"head_server": {"host": head.host, "port": head.port}}
    for record in records:
        address = urlsplit(record.url)
        settings = record.config | {"host": address.hostname, "port": record.port}
        config[record.name] = {str(record.server_type): {record.implementation: settings}}
    return OmegaConf.to_yaml(OmegaConf.create(_literal(msgspec.to_builtins(config))))


def _literal(value: Any) -> Any:
    """The value, with texts that OmegaConf would take for interpolations escaped."""
    match value:
        case dict():
            return {name: _literal(part) for name, part in value.items()}
        case list():
            return [_literal(part) for part in value]
        case str():
            return _INTERPOLATION.sub(r"\1\1\\${", value)
    return value


@asynccontextmanager
async def connected_to(
    records: Sequence[InstanceRecord], token: str | None = None, head: Address | None = None
) -> AsyncIterator[Directory]:
    """Clients of the servers that a head lists, for the block. The token is for its own servers.

    With `head`, the clients learn new addresses of servers on a cluster from it.
    """
    urls = _urls(records)
    own = [record.name for record in records if record.status is not ServerStatus.EXTERNAL]
    tokens = dict.fromkeys(own, token) if token else {}
    on_cluster = any(replica.node for record in records for replica in record.replicas)
    directory = (
        _HeadDirectory(urls, tokens, head, token)
        if head is not None and on_cluster
        else Directory(urls, tokens)
    )
    try:
        yield directory
    finally:
        await directory.close()


class _HeadDirectory(Directory):
    """Clients of servers on a cluster, where they may get other addresses."""

    def __init__(
        self,
        urls: Mapping[str, Sequence[str]],
        tokens: Mapping[str, str],
        head: Address,
        token: str | None,
    ) -> None:
        super().__init__(urls, tokens)
        self._head = head
        self._token = token

    async def until_lost(self) -> None:
        """Never return, and ask the head for new addresses meanwhile."""
        known = dict(self._urls)
        while True:
            await asyncio.sleep(MOVE_INTERVAL)
            try:
                found = _urls(await fetch_records(self._head, self._token))
            except NoHeadError:
                continue
            moved = {
                name: urls
                for name, urls in found.items()
                if name in known and urls != known[name] and len(urls) == len(known[name])
            }
            if moved:
                known |= moved
                self.move(moved)


def _urls(records: Sequence[InstanceRecord]) -> dict[str, list[str]]:
    return {record.name: record.urls for record in records}


async def fetch_records(head: Address, token: str | None = None) -> list[InstanceRecord]:
    """The listing of the head. Raises NoHeadError.

    Servers that listen at every address of their machine get the host at which the head was found.
    """
    url = head.url + INSTANCES_PATH
    try:
        async with (
            asyncio.timeout(HEAD_TIMEOUT),
            http_session() as session,
            session.get(url, headers=bearer(token)) as response,
        ):
            body = await response.read()
            if response.status in (401, 403):
                raise NoHeadError(_refused(head, body))
            if response.status != 200:
                raise NoHeadError(_not_ng_run(head, f"HTTP {response.status}"))
    except (aiohttp.ClientError, OSError) as error:
        raise NoHeadError(
            f"no ng_run answers at {head.url} ({_reason(error)}); start one with "
            '`ng_run "+config_paths=[…]"`, or pass the +head_server.port of a running one'
        ) from error
    try:
        records = decode_json(body, list[InstanceRecord])
    except msgspec.DecodeError as error:
        raise NoHeadError(_not_ng_run(head, str(error))) from error
    return [_as_reached(record, head) for record in records]


def _as_reached(record: InstanceRecord, head: Address) -> InstanceRecord:
    if record.host not in ANY_HOST or head.host in ANY_HOST:
        return record
    ports = [urlsplit(url).port or record.port for url in record.urls]
    urls = [Address(head.host, port).url for port in ports]
    replicas = [
        msgspec.structs.replace(replica, url=url)
        for replica, url in zip(record.replicas, urls, strict=True)
    ]
    return msgspec.structs.replace(record, url=urls[0], urls=urls, replicas=replicas)


async def check_health(
    records: Sequence[InstanceRecord], token: str | None = None
) -> dict[str, str]:
    """The health of every process of every server by URL: `ok`, or what is wrong."""
    async with http_session() as session:
        asked = {url: record for record in records for url in record.urls}
        checks = (_health(url, each, session, token) for url, each in asked.items())
        answers = await asyncio.gather(*checks)
    return dict(zip(asked, answers, strict=True))


async def _health(
    url: str, record: InstanceRecord, session: aiohttp.ClientSession, token: str | None
) -> str:
    if not url:
        return "no address yet"
    is_external = record.status is ServerStatus.EXTERNAL
    headers = {} if is_external else bearer(token)
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT):
            async with session.get(f"{url}/healthz", headers=headers) as response:
                status = response.status
            if is_external and status != 200:
                # A server of another program need not have /healthz: any answer shows that it runs.
                async with session.get(f"{url}/") as response:
                    return "ok" if response.status < SERVER_ERROR else f"HTTP {response.status}"
            return "ok" if status == 200 else f"HTTP {status}"
    except (aiohttp.ClientError, OSError) as error:
        return _reason(error)


def _reason(error: aiohttp.ClientError | OSError) -> str:
    match error:
        case TimeoutError():
            return "no answer in time"
        case aiohttp.ClientConnectorError():
            return "nothing listens there"
        case _:
            return f"{type(error).__name__}: {error}"


def _refused(head: Address, body: bytes) -> str:
    return (
        f"the ng_run at {head.url} refuses the request: {body[:300].decode('utf-8', 'replace')}; "
        "set the same server_token in env.yaml as ng_run has, or pass +server_token=…"
    )


def _not_ng_run(head: Address, reason: str) -> str:
    return (
        f"the server at {head.url} is not an ng_run ({reason}); pass the +head_server.port of a "
        "running one"
    )
