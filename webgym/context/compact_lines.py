"""The lines of the compact format: reading, writing, and a grammar for constrained decoding.

    click "LABEL"
    hover "LABEL"
    type "TEXT" into "LABEL"
    select "OPTION" in "LABEL"
    press "KEYS"
    scroll up, scroll down, back, wait
    answer "TEXT"

Texts are quoted as JSON. A line is read as it stands; what leaves no doubt about the meaning is
tolerated and recorded. A label that is not on the page is rejected with the labels that are.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from webgym.actions.space import (
    Action,
    Click,
    GiveAnswer,
    GoBack,
    Hover,
    Mark,
    PressKeys,
    Scroll,
    Select,
    Type,
    Wait,
)
from webgym.browser.contract.answers import Element
from webgym.context.labelled_page import TEXT_CHARACTERS, LabelledPage
from webgym.context.page_text import quote_json
from webgym.context.parsers.loose_json import ReplyError, Tolerances

WAIT_SECONDS = 2.0
_FORMS = """\
click "LABEL"
hover "LABEL"
type "TEXT" into "LABEL"
select "OPTION" in "LABEL"
press "KEYS", such as "Enter" or "Control+a"
scroll up, scroll down
back
wait
answer "TEXT", which ends the task"""
"""The lines of the grammar."""

LONGEST_LINE = 10_000
_ORNAMENT = re.compile(r"(?:(?:action|next)\s*+:)?[`*\-> ]*+", re.IGNORECASE)
_WORDS_BETWEEN = r"((?:\s++[A-Za-z]++)*+)"
_STRING = r'("(?:[^"\\]|\\.)*+")'
_ONE = re.compile(rf"{_WORDS_BETWEEN}\s*+{_STRING}{_WORDS_BETWEEN}")
_TWO = re.compile(rf"\s*+{_STRING}{_WORDS_BETWEEN}\s*+{_STRING}{_WORDS_BETWEEN}")
_VERB = re.compile(r"([A-Za-z]++)(.*)", re.DOTALL)
_NOISE = frozenset(
    ("on", "the", "an", "a", "button", "link", "item", "text", "textbox", "field", "box", "list")
)
_PLAIN: Mapping[str, Action] = {
    "scroll up": Scroll("up"),
    "scroll down": Scroll("down"),
    "back": GoBack(),
    "wait": Wait(WAIT_SECONDS),
}
_VERBS = frozenset(
    {"click", "hover", "type", "select", "press", "scroll", "back", "wait", "answer"}
)
_JOINTS = {"type": ("into", "in"), "select": ("in", "from")}


def find_line(said: str, tolerances: Tolerances) -> str:
    """The line of a reply that is the action. Raises ReplyError if there are several."""
    lines = [line.strip() for line in said.splitlines() if line.strip(" `\t\r")]
    if not lines:
        raise ReplyError(f"the reply is empty: write one line\n{_FORMS}")
    first, *others = map(_unadorned, lines)
    if any(other != first and _verb(other) for other in others):
        raise ReplyError("the reply has several lines that could be the action: write one")
    if others:
        tolerances.note("trailing_text")
    if first != lines[0]:
        tolerances.note("ornaments")
    if len(first) > LONGEST_LINE:
        raise ReplyError(f"the line has {len(first)} characters: write at most {LONGEST_LINE}")
    return first


def _unadorned(line: str) -> str:
    ornament = _ORNAMENT.match(line)
    return line[ornament.end() if ornament else 0 :].rstrip("`*. ")


def _verb(line: str) -> str:
    found = _VERB.match(line)
    verb = found[1].lower() if found else ""
    return verb if verb in _VERBS else ""


def read_line(line: str, page: LabelledPage, tolerances: Tolerances) -> Action:
    """Raises ReplyError."""
    verb = _verb(line)
    plain = " ".join(line.lower().split())
    if plain in _PLAIN:
        if plain != line:
            tolerances.note("spelling")
        return _PLAIN[plain]
    if not verb:
        raise ReplyError(f"this is not an action. Write one line:\n{_FORMS}")
    if line[: len(verb)] != verb:
        tolerances.note("spelling")
    rest = line[len(verb) :]
    if verb in _JOINTS:
        text, label = _two_strings(verb, rest, tolerances)
        mark = Mark(page.find(label, tolerances).id)
        return Type(mark, text, press_enter=False) if verb == "type" else Select(mark, text)
    text = _one_string(verb, rest, page, tolerances)
    match verb:
        case "click":
            return Click(Mark(page.find(text, tolerances).id))
        case "hover":
            return Hover(Mark(page.find(text, tolerances).id))
        case "press":
            return _keys(text)
        case _:
            return GiveAnswer(text)


def _one_string(verb: str, rest: str, page: LabelledPage, tolerances: Tolerances) -> str:
    """The quoted text after a verb. Raises ReplyError."""
    found = _ONE.fullmatch(rest)
    if found is None and '"' not in rest and verb in {"answer", "click", "hover", "press"}:
        bare = rest.strip()
        if bare and (verb in {"answer", "press"} or bare in page.elements):
            tolerances.note("no_quotes")
            return bare
    if found is None or verb not in {"answer", "click", "hover", "press"}:
        raise ReplyError(f"`{verb}` is written otherwise:\n{_form(verb)}")
    _note_words(verb, f"{found[1]}{found[3]}", tolerances)
    return _unquoted(found[2])


def _two_strings(verb: str, rest: str, tolerances: Tolerances) -> tuple[str, str]:
    """The two quoted texts after a verb. Raises ReplyError."""
    found = _TWO.fullmatch(rest)
    joint, *words = found[2].lower().split() or [""] if found else [""]
    if found is None or joint not in _JOINTS[verb]:
        raise ReplyError(f"`{verb}` is written otherwise:\n{_form(verb)}")
    if joint != _JOINTS[verb][0]:
        tolerances.note("spelling")
    _note_words(verb, f"{' '.join(words)} {found[4]}", tolerances)
    return _unquoted(found[1]), _unquoted(found[3])


def _note_words(verb: str, words: str, tolerances: Tolerances) -> None:
    """Words beside the texts are tolerated if they cannot change the meaning."""
    if not set(words.lower().split()) <= _NOISE:
        raise ReplyError(f"`{verb}` is written otherwise:\n{_form(verb)}")
    if words.split():
        tolerances.note("extra_words")


def _form(verb: str) -> str:
    return "\n".join(form for form in _FORMS.splitlines() if form.startswith(verb))


def _unquoted(text: str) -> str:
    try:
        return msgspec.json.decode(text, type=str)
    except msgspec.DecodeError as error:
        raise ReplyError(f'{text[:80]} has a wrong escape: write quotes in it as \\"') from error


def _keys(text: str) -> PressKeys:
    keys = ("+",) if text == "+" else tuple(key.strip() for key in text.split("+"))
    try:
        return msgspec.convert({"keys": keys}, PressKeys)
    except msgspec.ValidationError as error:
        raise ReplyError(f'`press` needs keys, such as "Enter": {error}') from error


def write_line(action: Action, page: LabelledPage) -> str:
    """The line of an action that `read_line` read."""
    labels = {element.id: quote_json(label) for label, element in page.elements.items()}
    text = quote_json(getattr(action, "text", ""))
    aim = labels.get(getattr(getattr(action, "target", None), "id", 0), "")
    match action:
        case Click() | Hover():
            return f"{action.key} {aim}"
        case Type():
            return f"type {text} into {aim}"
        case Select(option=option):
            return f"select {quote_json(option)} in {aim}"
        case PressKeys(keys):
            return f"press {quote_json('+'.join(keys))}"
        case GiveAnswer():
            return f"answer {text}"
    return next(line for line, each in _PLAIN.items() if each == action)


def line_grammar(page: LabelledPage) -> Iterator[str]:
    """The rules of the lines that name elements of this page."""
    aims = {"click": page.elements, "type": _those(page, editable=True)}
    rules = {
        "answer": '"answer " text',
        "press": '"press \\"" key "\\""',
        "plain": " | ".join(map(_literal, _PLAIN)),
        **({"click": '("click " | "hover ") label'} if page.elements else {}),
        **({"type": '"type " text " into " field'} if aims["type"] else {}),
        **({"select": " | ".join(_selections(page))} if _those(page, options=True) else {}),
    }
    yield f"root ::= {' | '.join(rules)}"
    for name, body in rules.items():
        yield f"{name} ::= {body}"
    yield 'key ::= ("Control+" | "Shift+" | "Alt+")? ([A-Z] [a-z0-9]{1,9} | [a-z0-9])'
    yield f'text ::= "\\"" character{{0,{TEXT_CHARACTERS}}} "\\""'
    yield 'character ::= [^"\\\\\\x00-\\x1f] | "\\\\" ["\\\\/bfnrt]'
    for name, aim in (("label", aims["click"]), ("field", aims["type"])):
        if aim:
            yield f"{name} ::= {' | '.join(_literal(quote_json(label)) for label in aim)}"


def _those(
    page: LabelledPage, *, editable: bool = False, options: bool = False
) -> dict[str, Element]:
    return {
        label: element
        for label, element in page.elements.items()
        if (editable and element.editable) or (options and element.options)
    }


def _selections(page: LabelledPage) -> Iterator[str]:
    for label, element in _those(page, options=True).items():
        options = [_literal(quote_json(each.text or each.value)) for each in element.options]
        yield f'"select " ({" | ".join(options)}) {_literal(f" in {quote_json(label)}")}'


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
