"""The parts that all sites are made of: routes, static files, HTML, responses, and forms.

Everything that a visitor sends is read within bounds.

*Templates* escape everything that is put into them. A template is HTML with `{name}` for each
value. Values are escaped unless they are `Markup`, which only templates make. None and False give
nothing, and a sequence gives its parts one after the other. Scripts and styles are separate files,
so a template has no other braces.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import TypeAlias, TypeVar

from aiohttp import web

from rollgym.servers.bounds import BODY_SECONDS
from rollgym.servers.exchange import RefusedRequestError
from rollgym.servers.limit import Limit
from webgym.sites.errors import InvalidInputError, MissingPageError

T = TypeVar("T")
SiteHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MakeRoute = Callable[[str, SiteHandler], web.RouteDef]

REQUEST_BYTES = 64 * 1024
FIELD_CHARACTERS = 300
MAX_FIELDS = 60
CACHED = "public, max-age=600"
ASSETS = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".html": "text/html",
}
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+")


class Markup(str):
    """Text that is HTML."""

    __slots__ = ()


Content: TypeAlias = "str | int | float | Iterable[Content] | None"
NOTHING = Markup()


class Template:
    """`Template("<b>{name}</b>")(name=name)` is Markup."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def of(cls, path: Path) -> "Template":
        return cls(path.read_text(encoding="utf-8"))

    def __call__(self, **values: Content) -> Markup:
        return Markup(self._text.format(**{name: rendered(each) for name, each in values.items()}))


def rendered(content: Content) -> Markup:
    """The content as HTML."""
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(escape(content))
    if content is None or content is False:
        return NOTHING
    if isinstance(content, int | float):
        return Markup(content)
    return Markup("".join(map(rendered, content)))


def flag(name: str, present: object) -> Markup:
    """An attribute without a value, such as `checked`, if it is present."""
    return Markup(f" {name}") if present else NOTHING


_OPTION = Template('<option value="{value}"{selected}>{text}</option>')


def options(choices: Iterable[tuple[str, str]], chosen: str) -> Markup:
    """The options of a select element, from pairs of value and text."""
    return rendered(
        _OPTION(value=value, text=text, selected=flag("selected", value == chosen))
        for value, text in choices
    )


class Site:
    """One site; its addresses start with `/name/`.

    Handlers are registered with the decorators `get` and `post`. Where two paths match, the first
    that was registered counts. `folder` has a folder `static` with styles and scripts.
    """

    def __init__(self, name: str, title: str, summary: str, folder: Path) -> None:
        self.name = name
        self.title = title
        self.summary = summary
        static = StaticFiles(folder / "static")
        self.routes = [web.get(f"/{name}/static/{{file}}", static.send)]

    def get(
        self, path: str, make_route: MakeRoute = web.get
    ) -> Callable[[SiteHandler], SiteHandler]:
        """Register a handler for GET requests to a path of the site."""

        def register(handler: SiteHandler) -> SiteHandler:
            self.routes.append(make_route(f"/{self.name}/{path}", handler))
            return handler

        return register

    def post(self, path: str) -> Callable[[SiteHandler], SiteHandler]:
        """Register a handler for POST requests to a path of the site."""
        return self.get(path, web.post)


class StaticFiles:
    """The files of a folder, read once; only these can be requested."""

    def __init__(self, folder: Path) -> None:
        self._files = {
            path.name: (path.read_bytes(), ASSETS[path.suffix])
            for path in sorted(folder.glob("*"))
            if path.suffix in ASSETS
        }

    async def send(self, request: web.Request) -> web.Response:
        """Raises MissingPageError."""
        found = self._files.get(request.match_info["file"])
        if found is None:
            raise MissingPageError("There is no such file.")
        body, content_type = found
        return web.Response(
            body=body,
            content_type=content_type,
            charset="utf-8",
            headers={"Cache-Control": CACHED},
        )


def page_response(markup: Markup, status: int = 200) -> web.Response:
    body = markup.encode("utf-8", "replace")
    return web.Response(body=body, content_type="text/html", charset="utf-8", status=status)


async def stream_response(request: web.Request, parts: AsyncIterator[bytes]) -> web.StreamResponse:
    """A page that is sent part by part, until it ends or the visitor disconnects."""
    response = web.StreamResponse()
    response.content_type, response.charset = "text/html", "utf-8"
    with suppress(ConnectionError):
        await response.prepare(request)
        async for part in parts:
            await response.write(part)
        await response.write_eof()
    return response


def picture_response(svg: Markup) -> web.Response:
    return web.Response(
        body=svg.encode(), content_type="image/svg+xml", headers={"Cache-Control": CACHED}
    )


async def read_form(request: web.Request) -> dict[str, str]:
    """The fields of a posted form, without surrounding space. Raises InvalidInputError."""
    try:
        with Limit(BODY_SECONDS):
            fields = await request.post()
    except TimeoutError as error:
        raise RefusedRequestError(408, "the form did not arrive in time") from error
    except (ValueError, LookupError) as error:
        raise InvalidInputError("The form could not be read.") from error
    return _bounded(fields)


def read_query(request: web.Request) -> dict[str, str]:
    """The parameters of the URL. Raises InvalidInputError."""
    return _bounded(request.query)


def read_number(fields: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    """A field that is a whole number within bounds. Raises InvalidInputError."""
    text = fields.get(name) or str(default)
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and low <= int(text) <= high):
        raise InvalidInputError(f"“{name}” must be a whole number from {low} to {high}.")
    return int(text)


def read_choice(fields: Mapping[str, str], name: str, choices: Mapping[str, str]) -> str:
    """A field that is one of the choices, by default the first. Raises InvalidInputError."""
    chosen = fields.get(name) or next(iter(choices))
    if chosen not in choices:
        raise InvalidInputError(f"“{name}” cannot be “{chosen[:40]}”.")
    return chosen


def is_email(text: str) -> bool:
    return _EMAIL.fullmatch(text) is not None


def append_bounded(items: list[T], item: T, limit: int) -> None:
    """Append an item; beyond the limit the oldest items are removed."""
    items.append(item)
    del items[:-limit]


def _bounded(fields: Mapping[str, object]) -> dict[str, str]:
    if len(fields) > MAX_FIELDS:
        raise InvalidInputError("There are too many fields.")
    bounded: dict[str, str] = {}
    for name, value in fields.items():
        if not isinstance(value, str):
            raise InvalidInputError("Files are not accepted.")
        if len(value) > FIELD_CHARACTERS:
            raise InvalidInputError(f"A field may have at most {FIELD_CHARACTERS} characters.")
        bounded[name] = value.replace("\x00", "").strip()
    return bounded
