"""A task as the heuristic understands it: what it asks, what it names, what it wants done."""

import re
from functools import cached_property

from webgym.policies.heuristic.details import Details
from webgym.policies.heuristic.words import plain, stems

_SENTENCE = re.compile(r"(?<=[.?!;:])\s+")
_CLAUSE = re.compile(r"[.?!;:]\s+|,\s+(?:and\s+)?(?:then\s+)?|\s+and\s+(?:then\s+)?")
_QUOTED = re.compile(r"[“\"]([^“”\"]{2,80})[”\"]")
_QUESTION = re.compile(
    r"^(?:who|whom|whose|what|which|when|where|why|how|is|are|does|do|did|at what|in which|"
    r"from which|from where|within how|by how|over how|according to|on which|for how)\b"
)
_TELLS = re.compile(r"\b(?:tell|report|answer with|find out)\b", re.IGNORECASE)
_ORDERS = re.compile(r"\bdo not (order|buy|book|submit|send|place)\b", re.IGNORECASE)


class Assignment:
    """One task. All parts are worked out once."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())
        self.details = Details.of(self.text)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        return tuple(each for each in _SENTENCE.split(self.text) if each)

    @cached_property
    def clauses(self) -> tuple[str, ...]:
        """Parts of sentences: each may be a thing to do."""
        return tuple(each.strip(" .?!") for each in _CLAUSE.split(self.text) if each.strip(" .?!"))

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The stems of all words that carry meaning, each once."""
        return tuple(dict.fromkeys(stems(self.text)))

    @cached_property
    def quoted(self) -> tuple[str, ...]:
        return tuple(_QUOTED.findall(self.text))

    @cached_property
    def is_question(self) -> bool:
        """Whether it only wants to know something."""
        return "?" in self.text and any(
            _QUESTION.match(plain(sentence)) for sentence in self.sentences
        )

    @cached_property
    def wants_answer(self) -> bool:
        return self.is_question or _TELLS.search(self.text) is not None

    @cached_property
    def forbidden(self) -> frozenset[str]:
        """What is not to be done."""
        return frozenset(found.casefold() for found in _ORDERS.findall(self.text))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Proper names, the longest first: what begins with a capital within a sentence."""
        found = [name for sentence in self.sentences for name in _names(sentence)]
        return tuple(sorted(dict.fromkeys(found), key=lambda name: -len(name.split())))


def _names(sentence: str) -> list[str]:
    """Runs of words with capitals; the first word of a sentence has one in any case."""
    names: list[str] = []
    run: list[str] = []
    for place, word in enumerate(sentence.split()):
        bare = word.strip('.,;:?!()“”"')
        joins = bool(run) and bare in ("of", "the", "&")
        if place and (bare[:1].isupper() or joins):
            run.append(bare)
        elif run:
            names.append(_without_joints(run))
            run = []
        if run and word != bare and word[-1:] in '.,;:?!)”"':
            names.append(_without_joints(run))
            run = []
    if run:
        names.append(_without_joints(run))
    return [name for name in names if len(name) > 1]


def _without_joints(run: list[str]) -> str:
    while run and run[-1] in ("of", "the", "&"):
        run = run[:-1]
    return " ".join(run).removesuffix("'s").removesuffix("’s")  # noqa: RUF001
