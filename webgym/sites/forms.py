"""What a visitor sends: the fields of a form and the parameters of a URL, read within bounds."""

from collections.abc import Mapping

from aiohttp import web

from webgym.sites.bounds import FIELD_CHARACTERS, FIELDS
from webgym.sites.errors import BadRequestError


async def posted(request: web.Request) -> dict[str, str]:
    """The fields of a posted form, without the space around them. Raises BadRequestError."""
    try:
        fields = await request.post()
    except (ValueError, LookupError) as error:
        raise BadRequestError("The form could not be read.") from error
    return _bounded(fields)


def asked(request: web.Request) -> dict[str, str]:
    """The parameters of the URL. Raises BadRequestError."""
    return _bounded(request.query)


def whole_number(fields: Mapping[str, str], name: str, usual: int, low: int, high: int) -> int:
    """A field that is a whole number, within bounds. Raises BadRequestError."""
    text = fields.get(name) or str(usual)
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and low <= int(text) <= high):
        raise BadRequestError(f"“{name}” must be a whole number from {low} to {high}.")
    return int(text)


def one_of(fields: Mapping[str, str], name: str, choices: Mapping[str, str]) -> str:
    """A field that is one of the choices; nothing chosen is the first. Raises BadRequestError."""
    chosen = fields.get(name) or next(iter(choices))
    if chosen not in choices:
        raise BadRequestError(f"“{name}” cannot be “{chosen[:40]}”.")
    return chosen


def _bounded(fields: Mapping[str, object]) -> dict[str, str]:
    if len(fields) > FIELDS:
        raise BadRequestError("There are too many fields.")
    bounded: dict[str, str] = {}
    for name, value in fields.items():
        if not isinstance(value, str):
            raise BadRequestError("Files are not accepted.")
        if len(value) > FIELD_CHARACTERS:
            raise BadRequestError(f"A field may have at most {FIELD_CHARACTERS} characters.")
        bounded[name] = value.replace("\x00", "").strip()
    return bounded
