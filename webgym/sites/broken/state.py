"""What a visitor met on the broken site."""

import msgspec

PRESSED_KEPT = 100


class BrokenState(msgspec.Struct):
    """`pressed` are the names of the buttons that were pressed, in their order."""

    pressed: list[str] = msgspec.field(default_factory=list)
    texts: list[str] = msgspec.field(default_factory=list)
    downloads: int = 0
    redirects: int = 0
    failures: int = 0
