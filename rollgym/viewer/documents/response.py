"""A row's `response` without what it said."""

import msgspec

from rollgym.rollouts.fields import RESPONSE
from rollgym.viewer.values import ABSENT, Fields, read


class ResponseFacts(msgspec.Struct, frozen=True):
    """Each field undecoded; what is not named here is not looked at."""

    id: msgspec.Raw = ABSENT
    status: msgspec.Raw = ABSENT
    model: msgspec.Raw = ABSENT
    incomplete_details: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    output: msgspec.Raw = ABSENT


_RESPONSE = msgspec.json.Decoder(ResponseFacts)


def response_facts(row: Fields) -> ResponseFacts:
    """Empty where the row has no response."""
    return read(row.get(RESPONSE), _RESPONSE) or ResponseFacts()
