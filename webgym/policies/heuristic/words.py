"""Words: taken from texts so that what means the same looks the same.

A word is cut down to its stem by a few rules of English; small words that stand in any text are
left out. `kin` adds, for words of everyday web pages, others that stand for the same thing: whoever
asks what something costs looks for its price.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

_WORD = re.compile(r"[^\W_]+(?:[.,:'/-][^\W_]+)*(?:%|°)?|[$€£]\d[\d.,]*")
_TYPOGRAPHY = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-"})  # noqa: RUF001
_SMALL_WORDS = """
    a an the this that these those it its is are was were be been being am do does did done has have
    had having can could may might must shall should will would and or but nor so if then than as at
    by for from in into of off on onto out over to under up with without about between within after
    before during per via not no only also just very more most less least all any each every some
    such own same other another one who whom whose which what when where why how there here i you he
    she we they me him her us them my your his our their please go goes get tell answer give name
"""
_SMALL = frozenset(_SMALL_WORDS.split())
_IRREGULAR = {
    "paid": "pay", "sent": "send", "held": "hold", "built": "build", "lost": "lose",
    "born": "birth", "weigh": "weight", "weighs": "weight", "bought": "buy", "sold": "sell",
    "found": "find", "founded": "establish", "people": "person", "men": "man", "women": "woman",
    "feet": "foot", "knives": "knife", "children": "child", "highest": "high", "lowest": "low",
    "longest": "long", "shortest": "short", "largest": "large", "smallest": "small",
}  # fmt: skip
_KIN = (
    ("cost", "price", "total", "expensive", "cheap", "cheapest"),
    ("buy", "order", "purchase", "checkout", "place"),
    ("put", "add"),
    ("cart", "basket", "bag"),
    ("hold", "capacity", "volume"),
    ("weight", "heavy", "light", "kg", "kilogram"),
    ("litre", "liter", "l"),
    ("high", "height", "tall"),
    ("long", "length", "longest"),
    ("birth", "birthplace"),
    ("return", "send", "back"),
    ("begin", "start", "open"),
    ("establish", "foundation"),
    ("level", "depth"),
    ("colour", "color"),
    ("person", "guest", "passenger", "inhabitant"),
    ("check-out", "checkout", "departure"),
    ("check-in", "checkin", "arrival"),
)
_ENDINGS = (("ies", "y"), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x"))
_SHORTEST_STEM = 3


def plain(text: str) -> str:
    """Without what does not matter: typography, capitals, ends of lines."""
    return " ".join(unicodedata.normalize("NFKC", text).translate(_TYPOGRAPHY).casefold().split())


def words(text: str) -> Iterator[str]:
    """All words of a text, as they are written but for capitals."""
    for found in _WORD.finditer(plain(text)):
        yield found[0].removesuffix("'s")


def stem(word: str) -> str:
    """What is left of a word without its ending."""
    known = _IRREGULAR.get(word)
    if known is not None:
        return known
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word.removesuffix(ending) + instead
    for ending in ("ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= _SHORTEST_STEM and any(each in "aeiouy" for each in root):
            return root.removesuffix("e")
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > _SHORTEST_STEM:
        word = word[:-1]
    return word.removesuffix("e") if len(word) > _SHORTEST_STEM else word


def stems(text: str) -> list[str]:
    """The stems of the words that carry meaning, in their order."""
    return [stem(word) for word in words(text) if word not in _SMALL]


def kin(word: str) -> frozenset[str]:
    """The stems that stand for the same thing as this stem, with itself."""
    return _KINDRED.get(word, frozenset()) | {word}


def with_kin(wanted: Iterable[str]) -> frozenset[str]:
    return frozenset(other for word in wanted for other in kin(word))


def _gathered() -> dict[str, frozenset[str]]:
    gathered: dict[str, frozenset[str]] = {}
    for group in _KIN:
        together = frozenset(map(stem, group))
        for word in together:
            gathered[word] = gathered.get(word, frozenset()) | together
    return gathered


_KINDRED = _gathered()
