"""What to put into the fields of a page: texts, choices of lists, boxes to tick."""

import re
from collections.abc import Iterator

from webgym.context.page_text import PageElement, PageText
from webgym.policies.heuristic.assignment import Assignment
from webgym.policies.heuristic.comparing import Superlative
from webgym.policies.heuristic.details import number_of
from webgym.policies.heuristic.intents import Intent
from webgym.policies.heuristic.proposals import Proposal
from webgym.policies.heuristic.scoring import fit
from webgym.policies.heuristic.words import plain, stem, stems, with_kin, words

CHOICE, TICK, AGREE, FILL, TO_BE_CHOSEN = 0.97, 0.95, 0.93, 0.9, 0.65
UNSURE, SURE = 0.25, 0.6
WHOLE_SHARE = 0.96
"""What it is worth that words stand in the task, but not together."""
_TICKED = frozenset({"radio", "checkbox", "switch", "menuitemradio", "menuitemcheckbox", "option"})
_AGREES = re.compile(r"\b(?:accept|agree|terms|conditions)\b")
_SORTS = re.compile(r"\b(?:sort|order|arrange)")
_NOTHING = re.compile(r"$|please|choose|select|none|-")
_OFFERED = re.compile(r"\b(?:of|to|with|as|is|be|:)\s+(?:the\s+)?([\w'-]+(?: [A-Z][\w'-]*)*)")


def is_search(element: PageElement) -> bool:
    """Whether one searches the site with it."""
    said = plain(f"{element.name} {element.placeholder or ''}")
    return element.role == "searchbox" or "search" in said


class Fields:
    """The fields that a task has something for."""

    def __init__(self, assignment: Assignment) -> None:
        self._task = assignment
        self._superlative = Superlative.of(assignment.text)
        self._clauses = [(clause, with_kin(stems(clause))) for clause in assignment.clauses]
        self._words = with_kin(assignment.words)

    def proposals(self, page: PageText) -> Iterator[Proposal]:
        """In no order."""
        for element in page.elements:
            if "disabled" in element.flags:
                continue
            if element.options and element.role != "listbox":
                yield from self._choices(element)
            elif element.role in _TICKED and "checked" not in element.flags:
                yield from self._ticks(element)
            elif "editable" in element.flags and not is_search(element):
                yield from self._texts(element, page)

    def _texts(self, element: PageElement, page: PageText) -> Iterator[Proposal]:
        label = element.name
        value = self._task.details.value_for(label, page.title) or self._said_of(label)
        if value and value != (element.value or ""):
            yield Proposal(FILL, Intent("type", element.role, label, value))

    def _said_of(self, label: str) -> str:
        """What the task gives for it: in quotes, or after the label's own word."""
        wanted = set(stems(label))
        for clause, have in self._clauses:
            if not wanted & have:
                continue
            quoted = next((each for each in self._task.quoted if each in clause), "")
            if quoted:
                return quoted
            last = max(clause.casefold().rfind(word) for word in words(label))
            found = _OFFERED.search(clause, max(0, last))
            if found and not wanted & set(stems(found[1])) and len(wanted) == 1:
                return found[1]
        return ""

    def _choices(self, element: PageElement) -> Iterator[Proposal]:
        held = next((each.text for each in element.options if each.selected), element.value or "")
        rated = [(self._choice(element, each.text), each.text) for each in element.options]
        best, text = max(rated, key=lambda each: each[0], default=(0.0, ""))
        if best <= max((score for score, each in rated if each == held), default=0.0):
            return
        score = CHOICE * best
        if _NOTHING.match(plain(held)) and best > UNSURE:
            score = max(score, TO_BE_CHOSEN)
        yield Proposal(score, Intent("select", element.role, element.name, text))

    def _choice(self, element: PageElement, option: str) -> float:
        if _SORTS.search(plain(element.name)):
            return float(self._sorts(option))
        count = self._task.details.count_named(element.name)
        if count and (option == count or str(number_of(plain(option))) == count):
            return 1.0
        if not stems(option) or (option.isdecimal() and count != option):
            return 0.0
        fits = [_fit(option, clause, have) for clause, have in self._clauses]
        return max([*fits, WHOLE_SHARE * fit(option, self._words)])

    def _sorts(self, option: str) -> bool:
        """Whether what the task compares comes first in this order."""
        wish, said = self._superlative, plain(option)
        match wish:
            case Superlative(measure="price", most=False):
                return bool(re.search(r"low(est)? (to|first)|ascending|cheap", said))
            case Superlative(measure="price", most=True):
                return bool(re.search(r"high(est)? (to|first)|descending|expensive", said))
            case Superlative(measure="rating", most=True):
                return bool(re.search(r"\brat(ed|ing)", said))
        return False

    def _ticks(self, element: PageElement) -> Iterator[Proposal]:
        if not self._task.is_question and _AGREES.search(plain(element.name)):
            yield Proposal(AGREE, Intent("click", element.role, element.name))
            return
        for clause, have in self._clauses:
            best = _fit(element.name, clause, have)
            if _begins_alike(element.name, clause):
                is_meant = best > (UNSURE if element.role == "radio" else SURE)
            else:
                is_meant = _says_all(element.name, clause)
            if is_meant:
                score = max(TICK * best, AGREE)
                yield Proposal(score, Intent("click", element.role, element.name))


def _begins_alike(name: str, clause: str) -> bool:
    """Whether the first word of a name stands in the clause, in any of its forms."""
    return stem(next(words(name), "")) in set(map(stem, words(clause)))


def _says_all(name: str, clause: str) -> bool:
    """Whether a name has all that the clause says: "Wrap it as a gift" all of "as a gift"."""
    return bool(stems(clause)) and set(stems(clause)) <= set(stems(name))


def _fit(name: str, clause: str, have: frozenset[str]) -> float:
    """How well a name fits a clause; best where it stands there as it is."""
    if not stems(name):
        return 0.0
    whole = f" {plain(name)} " in f" {plain(clause)} "
    return fit(name, have) if not whole else 1.0 + 1e-3
