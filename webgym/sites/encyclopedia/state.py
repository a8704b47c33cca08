"""What a visitor has looked up."""

import msgspec

TITLES_KEPT = 200


class EncyclopediaState(msgspec.Struct):
    """The titles of the articles that were opened, and the texts searched for, in their order."""

    read: list[str] = msgspec.field(default_factory=list)
    searches: list[str] = msgspec.field(default_factory=list)
