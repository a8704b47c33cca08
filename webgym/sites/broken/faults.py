"""Faulty responses: cut short, huge, redirecting in circles, or missing."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from http import HTTPStatus

from aiohttp import web

from webgym.sites.errors import InvalidInputError
from webgym.sites.sessions import session_of
from webgym.sites.site import read_number, read_query, stream_response

MOST_MEGABYTES = 200
LONGEST_CHAIN = 1_000
SOCKET_MESSAGES = 100
SOCKET_SECONDS = 60.0
_MEGABYTE = 1_000_000
_NO_LINGER = struct.pack("ii", 1, 0)


async def status(request: web.Request) -> web.Response:
    """Any status between 400 and 599."""
    code = int(request.match_info["code"])
    if not 400 <= code <= 599:
        raise InvalidInputError("The status must be from 400 to 599.")
    session_of(request).broken.failures += 1
    try:
        phrase = HTTPStatus(code).phrase
    except ValueError:
        phrase = "Unknown"
    text = (
        f"<!doctype html><title>{code} {phrase}</title><h1>{code} {phrase}</h1>"
        "<hr><address>anchor/0.4 (rust)</address>"
    )
    return web.Response(text=text, content_type="text/html", status=code)


async def redirect_to_itself(request: web.Request) -> web.Response:
    session_of(request).broken.redirects += 1
    raise web.HTTPFound("/broken/loop")


async def redirect_chain(request: web.Request) -> web.Response:
    """A chain of redirects of the requested length, each to another address, and then a page."""
    left = read_number(read_query(request), "left", 30, 0, LONGEST_CHAIN)
    session_of(request).broken.redirects += 1
    raise web.HTTPFound(f"/broken/chain?left={left - 1}" if left else "/broken/")


async def reset(request: web.Request) -> web.StreamResponse:
    """Reset the connection without a response."""
    _reset(request)
    return web.StreamResponse()


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Close the connection without a response."""
    if request.transport is not None:
        request.transport.close()
    return web.StreamResponse()


async def cut_short(request: web.Request) -> web.StreamResponse:
    """Send half of a page, and then reset the connection."""
    response = web.StreamResponse(headers={"Content-Length": "100000"})
    response.content_type = "text/html"
    await response.prepare(request)
    await response.write(b"<!doctype html><title>Cut short</title><h1>The first half of a")
    _reset(request)
    return response


async def big(request: web.Request) -> web.StreamResponse:
    """A page of the requested number of megabytes."""
    megabytes = read_number(read_query(request), "megabytes", 10, 1, MOST_MEGABYTES)
    return await stream_response(request, _lines(megabytes))


async def _lines(megabytes: int) -> AsyncIterator[bytes]:
    row = b"<p>One more line of the longest log of the isles, number %08d.</p>\n"
    at_a_time = _MEGABYTE // len(row % 0)
    yield b"<!doctype html><title>Big</title><h1>A big page</h1>"
    for first in range(0, megabytes * at_a_time, at_a_time):
        yield b"".join(row % number for number in range(first, first + at_a_time))
        await asyncio.sleep(0)


async def download(request: web.Request) -> web.Response:
    session_of(request).broken.downloads += 1
    name = request.match_info["name"]
    return web.Response(
        body=b"barrel,rope,salt\n12,40,9\n" * 400,
        content_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def sign_in(request: web.Request) -> web.Response:
    """Ask for a user name and a password; none is accepted."""
    session_of(request).broken.failures += 1
    return web.Response(
        text="<!doctype html><title>Locked</title><h1>Crew only</h1>",
        content_type="text/html",
        status=HTTPStatus.UNAUTHORIZED,
        headers={"WWW-Authenticate": 'Basic realm="Crew only"'},
    )


async def line(request: web.Request) -> web.WebSocketResponse:
    """A web socket that echoes messages, for a bounded time."""
    response = web.WebSocketResponse(max_msg_size=4_096, timeout=5.0)
    await response.prepare(request)
    try:
        async with asyncio.timeout(SOCKET_SECONDS):
            for _ in range(SOCKET_MESSAGES):
                message = await response.receive()
                if message.type != web.WSMsgType.TEXT:
                    break
                await response.send_str(message.data)
    except TimeoutError:
        pass
    await response.close()
    return response


def _reset(request: web.Request) -> None:
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()
