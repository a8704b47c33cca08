"""Answers: the passages of a page that have most of what a question asks for.

A question also says what its answer looks like: how many wants a number, at what time a time. What
does not look so is worth little, however many words it shares with the question.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from webgym.policies.heuristic.assignment import Assignment
from webgym.policies.heuristic.comparing import Superlative
from webgym.policies.heuristic.passages import Passage
from webgym.policies.heuristic.scoring import Weights, coverage
from webgym.policies.heuristic.words import plain, stem, stems

LONGEST_ANSWER = 600
MOST_NUMBERS = 8
TITLE_SHARE, HEADING_SHARE = 0.6, 0.7
WRONG_LOOK = 0.35
ABOUT = 0.2
_NUMBER = re.compile(r"\d[\d,.]*")
_LOOKS: tuple[tuple[str, str], ...] = (
    (r"what time|at which time", r"\b\d{1,2}:\d{2}\b"),
    (r"(?:which|what) year", r"\b(?:1\d{3}|20\d{2})\b"),
    (r"\bwho\b", r"[A-Z]\w+ (?:[A-Z]\w+)"),
    (r"\bcode\b", r"\b[A-Z]+-?\d+\b"),
    (r"(?:which|what) (?:date|day)|^when", r"\d"),
    (r"how (?:many|much|long|high|far|old|heavy|large)|\bcost|\bprice|\btotal|\blevel|\bnumber of",
     r"\d"),
)  # fmt: skip
_COUNTED = re.compile(r"how many ([\w-]+)")
_ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4}
_ORDINAL = re.compile(rf"the ({'|'.join(_ORDINALS)}) (\w+(?: \w+)?)")


class Candidate(msgspec.Struct, frozen=True, order=True):
    """A possible answer; `score` is from 0 to 1 and more."""

    score: float
    text: str


class Question:
    """What a task wants to know."""

    def __init__(self, assignment: Assignment) -> None:
        self._text = _asked(assignment)
        self._words = list(dict.fromkeys(stems(self._text)))
        self._names = [stems(name) for name in assignment.names]
        self._superlative = Superlative.of(self._text)
        said = plain(self._text)
        looks = [look for pattern, look in _LOOKS if re.search(pattern, said)]
        self._looks = [re.compile(look) for look in looks[:2]]
        self._told = set(_NUMBER.findall(assignment.text))
        counted = _COUNTED.search(said)
        self._counted = stem(counted[1]) if counted else ""
        ordinal = _ORDINAL.search(said)
        self._ordinal = (_ORDINALS[ordinal[1]], set(stems(ordinal[2]))) if ordinal else None

    def best(self, passages: Sequence[Passage], title: str) -> Candidate | None:
        """The best answer that the page gives."""
        weights = Weights(stems(passage.text) for passage in passages)
        ranked = sorted(
            (
                (self._score(passage, title, weights), -place, passage)
                for place, passage in enumerate(passages)
            ),
            key=lambda each: each[:2],
            reverse=True,
        )
        if not ranked or ranked[0][0] <= 0:
            return None
        chosen = self._superlative.choose(passages) if self._superlative else None
        if chosen is not None:
            score = 0.8 if self._is_about(f"{title} {chosen.text}", title) else 0.45
            return Candidate(score, chosen.text[:LONGEST_ANSWER])
        score, _, first = ranked[0]
        first = self._by_ordinal(first, passages)
        return Candidate(score, self._with_the_rest(first, [each[2] for each in ranked], weights))

    def _is_about(self, text: str, title: str) -> bool:
        """Whether it has a name of the question; without names, the title has some of its words."""
        said = set(stems(text))
        if not self._names:
            return coverage(self._words, dict.fromkeys(stems(title), 1.0)) >= ABOUT
        return any(set(name) <= said for name in self._names)

    def _score(self, passage: Passage, title: str, weights: Weights) -> float:
        have = dict.fromkeys(stems(title), TITLE_SHARE)
        have |= dict.fromkeys(stems(passage.heading), HEADING_SHARE)
        own = stems(passage.text)
        have |= dict.fromkeys(own, 1.0)
        if not set(own) & set(self._words) and not passage.cells:
            return 0.0
        score = coverage(self._words, have, weights)
        if not self._looks_right(passage):
            return score * WRONG_LOOK
        return score + (0.15 if self._counts(passage) else 0.0)

    def _looks_right(self, passage: Passage) -> bool:
        fresh = _NUMBER.sub(
            lambda found: "" if found[0].rstrip(".,") in self._told else found[0], passage.text
        )
        return all(look.search(fresh) for look in self._looks)

    def _counts(self, passage: Passage) -> bool:
        """Whether a number of what is counted stands there: 219 steps, or Steps: 219."""
        if not self._counted:
            return False
        words = [stem(word) for word in re.findall(r"[\w.,-]+", plain(passage.text))]
        return any(
            (_NUMBER.fullmatch(one) and two == self._counted)
            or (one == self._counted and _NUMBER.fullmatch(two))
            for one, two in pairwise(words)
        )

    def _by_ordinal(self, first: Passage, passages: Sequence[Passage]) -> Passage:
        """The second of the like where the question says the second."""
        if self._ordinal is None or first.kind == "sentence":
            return first
        place, like = self._ordinal
        alike = [
            each
            for each in passages
            if (each.kind, each.group) == (first.kind, first.group)
            and like & set(stems(each.text)) == like & set(stems(first.text)) != set()
        ]
        return alike[place] if place < len(alike) else first

    def _with_the_rest(self, first: Passage, ranked: list[Passage], weights: Weights) -> str:
        """The best passage, and others as long as they have words that are still missing."""
        chosen, said = [first], set(stems(first.text)) | set(stems(first.heading))
        parts = len(re.findall(r"\band\b|[,.]\s", self._text)) + 1
        for passage in ranked[1:12]:
            if len(chosen) >= min(parts, 3):
                break
            missing = [word for word in self._words if word not in said]
            new = coverage(missing, dict.fromkeys(stems(passage.text), 1.0), weights)
            text = "\n".join(each.text for each in [*chosen, passage])
            is_short = len(text) <= LONGEST_ANSWER
            if new >= 0.3 and is_short and len(set(_NUMBER.findall(text))) <= MOST_NUMBERS:
                chosen.append(passage)
                said |= set(stems(passage.text))
        return "\n".join(each.text for each in chosen)[:LONGEST_ANSWER]


def _asked(assignment: Assignment) -> str:
    """The sentences or clauses that ask; of an order to do something, those that want telling."""
    if assignment.is_question:
        return assignment.text
    telling = [
        clause
        for clause in assignment.clauses
        if re.search(r"\b(?:tell|report|how many|which|what)\b", plain(clause))
    ]
    return ". ".join(telling) or assignment.text
