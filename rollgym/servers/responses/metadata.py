"""Parameters of a server's own in the `metadata` of a request.

The Responses API has no place for parameters that only some servers know, and strict readers of a
request reject such fields. But `metadata` is a map of strings. So files of the field carry further
parameters in two of its keys, each a JSON object written as a string: `extra_body`, and
`chat_template_kwargs` for the chat template. They are for the model server and are not sent on as
metadata. They cannot ask for a stream, which its caller would not expect.
"""

from typing import Any, NamedTuple

import msgspec

from rollgym.records import ModelRequestError
from rollgym.records.decoding import JsonDecoder
from rollgym.servers.responses.shape import JsonObject

EXTRA_BODY = "extra_body"
TEMPLATE_KWARGS = "chat_template_kwargs"
STREAM_FIELDS = ("stream", "stream_options")
_OBJECT = JsonDecoder(dict[str, Any])


class MetadataParameters(NamedTuple):
    """What the metadata of a request holds. `rest` is the metadata without it; None where empty."""

    extra_body: JsonObject
    chat_template_kwargs: JsonObject
    rest: JsonObject | None


def metadata_parameters(metadata: object) -> MetadataParameters:
    """Read the metadata of a request. Raises ModelRequestError."""
    if metadata is None:
        return MetadataParameters({}, {}, None)
    if not isinstance(metadata, dict):
        raise ModelRequestError("the request cannot be sent: metadata: must be an object")
    carried = (EXTRA_BODY, TEMPLATE_KWARGS)
    rest = {name: value for name, value in metadata.items() if name not in carried}
    extra = without_stream(_carried(metadata, EXTRA_BODY))
    return MetadataParameters(extra, _carried(metadata, TEMPLATE_KWARGS), rest or None)


def without_stream(parameters: JsonObject) -> JsonObject:
    """The parameters without those that ask for a stream."""
    return {name: value for name, value in parameters.items() if name not in STREAM_FIELDS}


def _carried(metadata: JsonObject, name: str) -> JsonObject:
    value = metadata.get(name)
    if value is None or value == "":
        return {}
    try:
        found = _OBJECT.decode(value) if isinstance(value, str) else value
    except msgspec.DecodeError as error:
        raise ModelRequestError(
            f"the request cannot be sent: metadata.{name} must be a JSON object written as a "
            f"string: {error}"
        ) from error
    if not isinstance(found, dict):
        raise ModelRequestError(
            f"the request cannot be sent: metadata.{name} must be a JSON object written as a string"
        )
    return found
