"""Why a reply is no action, in words for the model; and what was forgiven on the way."""


class ReplyError(Exception):
    """A reply cannot be read as one action. The message is fit for the model."""


class Tolerances:
    """What the reader forgave, each named once, in the order in which it met them."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def note(self, *names: str) -> None:
        self._names.update(dict.fromkeys(names))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)
