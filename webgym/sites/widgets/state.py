"""How a visitor has set the controls."""

import msgspec


class WidgetsState(msgspec.Struct):
    """The values that were set, by the name of the control."""

    values: dict[str, str] = msgspec.field(default_factory=dict)
    changes: int = 0
