"""How often a visitor stood before the wall, and tried to get past it."""

import msgspec


class CaptchaState(msgspec.Struct):
    walls: int = 0
    attempts: int = 0
