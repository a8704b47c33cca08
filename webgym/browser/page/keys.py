"""Keys by the names that people and models use for them."""

import msgspec

from webgym.browser.contract.errors import CommandError

ALT, CONTROL, META, SHIFT = 1, 2, 4, 8
"""The modifiers' bits in the DevTools protocol."""


class Key(msgspec.Struct, frozen=True):
    """A key as the browser wants it. `text` is what it types; `modifier` its bit, if it is one."""

    key: str
    code: str
    number: int
    text: str = ""
    modifier: int = 0


_NAMED = {
    "enter": Key("Enter", "Enter", 13, "\r"),
    "tab": Key("Tab", "Tab", 9),
    "escape": Key("Escape", "Escape", 27),
    "backspace": Key("Backspace", "Backspace", 8),
    "delete": Key("Delete", "Delete", 46),
    "insert": Key("Insert", "Insert", 45),
    "space": Key(" ", "Space", 32, " "),
    "home": Key("Home", "Home", 36),
    "end": Key("End", "End", 35),
    "pageup": Key("PageUp", "PageUp", 33),
    "pagedown": Key("PageDown", "PageDown", 34),
    "arrowleft": Key("ArrowLeft", "ArrowLeft", 37),
    "arrowup": Key("ArrowUp", "ArrowUp", 38),
    "arrowright": Key("ArrowRight", "ArrowRight", 39),
    "arrowdown": Key("ArrowDown", "ArrowDown", 40),
    "contextmenu": Key("ContextMenu", "ContextMenu", 93),
    "alt": Key("Alt", "AltLeft", 18, modifier=ALT),
    "control": Key("Control", "ControlLeft", 17, modifier=CONTROL),
    "meta": Key("Meta", "MetaLeft", 91, modifier=META),
    "shift": Key("Shift", "ShiftLeft", 16, modifier=SHIFT),
    **{f"f{number}": Key(f"F{number}", f"F{number}", 111 + number) for number in range(1, 13)},
}
_ALIASES = {
    "return": "enter",
    "esc": "escape",
    "del": "delete",
    "ins": "insert",
    "spacebar": "space",
    "pgup": "pageup",
    "pgdn": "pagedown",
    "pgdown": "pagedown",
    "left": "arrowleft",
    "up": "arrowup",
    "right": "arrowright",
    "down": "arrowdown",
    "menu": "contextmenu",
    "option": "alt",
    "ctrl": "control",
    "cmd": "meta",
    "command": "meta",
    "win": "meta",
    "windows": "meta",
    "super": "meta",
}
_PUNCTUATION = {
    "`": ("Backquote", 192), "~": ("Backquote", 192), "-": ("Minus", 189), "_": ("Minus", 189),
    "=": ("Equal", 187), "+": ("Equal", 187), "[": ("BracketLeft", 219), "{": ("BracketLeft", 219),
    "]": ("BracketRight", 221), "}": ("BracketRight", 221), "\\": ("Backslash", 220),
    "|": ("Backslash", 220), ";": ("Semicolon", 186), ":": ("Semicolon", 186),
    "'": ("Quote", 222), '"': ("Quote", 222), ",": ("Comma", 188), "<": ("Comma", 188),
    ".": ("Period", 190), ">": ("Period", 190), "/": ("Slash", 191), "?": ("Slash", 191),
    ")": ("Digit0", 48), "!": ("Digit1", 49), "@": ("Digit2", 50), "#": ("Digit3", 51),
    "$": ("Digit4", 52), "%": ("Digit5", 53), "^": ("Digit6", 54), "&": ("Digit7", 55),
    "*": ("Digit8", 56), "(": ("Digit9", 57),
}  # fmt: skip


def find_key(name: str) -> Key:
    """The key of this name or character, in any case. Raises CommandError for an unknown one."""
    if len(name) == 1:
        return character_key(name)
    plain = name.strip().lower().replace("_", "").replace("-", "").replace(" ", "")
    key = _NAMED.get(_ALIASES.get(plain, plain))
    if key is None:
        known = ", ".join(key.key for key in _NAMED.values() if key.key.strip())
        raise CommandError(f"there is no key {name[:40]!r}: use one character or one of {known}")
    return key


def find_keys(names: tuple[str, ...]) -> list[Key]:
    """The keys of a combination, which may also be written as one text: `Control+a`."""
    parts = [
        part
        for name in names
        for part in (name.split("+") if len(name) > 1 and not name.endswith("+") else [name])
    ]
    return [find_key(part) for part in parts]


def character_key(character: str) -> Key:
    """The key that types one character, on a US keyboard where that has it."""
    if character in "\r\n":
        return _NAMED["enter"]
    if character == "\t":
        return _NAMED["tab"]
    if character == " ":
        return _NAMED["space"]
    if character.isascii() and character.isalpha():
        return Key(character, f"Key{character.upper()}", ord(character.upper()), character)
    if character.isascii() and character.isdigit():
        return Key(character, f"Digit{character}", ord(character), character)
    code, number = _PUNCTUATION.get(character, ("", 0))
    return Key(character, code, number, character)
