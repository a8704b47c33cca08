"""What to click on: buttons that do what the task says, links that lead to what it is about."""

import re
from collections.abc import Iterator, Sequence

from webgym.context.page_text import PageElement, PageText
from webgym.policies.heuristic.assignment import Assignment
from webgym.policies.heuristic.comparing import Superlative
from webgym.policies.heuristic.fields import is_search
from webgym.policies.heuristic.intents import Intent
from webgym.policies.heuristic.passages import Passage
from webgym.policies.heuristic.proposals import Proposal
from webgym.policies.heuristic.scoring import Weights, coverage, fit
from webgym.policies.heuristic.words import plain, stems, with_kin, words

CHOSEN, BUTTON, SEARCH, PROGRESS, SEARCH_AGAIN, EXPLORE = 0.89, 0.88, 0.85, 0.63, 0.62, 0.12
LOWEST_FIT = 0.6
WHOLE_SHARE = 0.9
"""What it is worth that words stand in the task, but not together."""
_BUTTONS = frozenset({"button", "menuitem", "tab", "gridcell"})
_PROGRESS = re.compile(
    r"^(?:yes\b|ok$|continue|next$|proceed|confirm|submit|place|go to|check ?out|book now|book\b|"
    r"finish|done|review|add to (?:cart|basket|bag))|checkout"
)
_TRANSACTION = re.compile(
    r"\b(?:order|buy|purchase|book|reserve|cancel|subscribe|send|submit|sign up|register|equip|"
    r"sound|set|print)\b"
)
_COMPARES = re.compile(r"est$|weigh|cost|rated|expensive|price|stock")
_UNDOES = frozenset(
    {"cancel", "remove", "delete", "update", "edit", "change", "clear", "reset", "empty", "undo"}
    | {"no", "less", "logout", "discard"}
)
"""Verbs of buttons that are not pressed unless the task says so in these words."""


class Clicks:
    """The buttons and links that may be of use for a task."""

    def __init__(self, assignment: Assignment) -> None:
        self._task = assignment
        self._words = with_kin(assignment.words)
        self._names = [frozenset(stems(name)) for name in _subjects(assignment)]
        self._clauses = [with_kin(stems(clause)) for clause in assignment.clauses]
        self._superlative = Superlative.of(assignment.text)
        self._orders = {_first_word(clause) for clause in assignment.clauses}
        self._transacts = bool(_TRANSACTION.search(plain(assignment.text)))

    def searches(self, page: PageText, *, is_start: bool) -> Iterator[Proposal]:
        """What to look for: at first, and again when little else is left."""
        box = next((each for each in page.elements if is_search(each) and _editable(each)), None)
        if box is not None:
            for place, query in enumerate(self.queries()):
                if plain(query) not in plain(page.title):
                    score = SEARCH if is_start else SEARCH_AGAIN
                    intent = Intent("type", box.role, box.name, query)
                    yield Proposal(score - 0.02 * place, intent)

    def queries(self) -> list[str]:
        """Names first; without any, the words that say most."""
        names = [*self._task.quoted, *_subjects(self._task)]
        return names[:4] or [" ".join(_keywords(self._task))]

    def buttons(self, page: PageText) -> Iterator[Proposal]:
        """Those that the task names, and those by which forms go on."""
        for element in page.elements:
            if element.role not in _BUTTONS or "disabled" in element.flags or not element.name:
                continue
            intent = Intent("click", element.role, element.name)
            fits = [fit(element.name, clause) for clause in self._clauses]
            best = max([*fits, WHOLE_SHARE * fit(element.name, self._words)])
            if self._is_forbidden(element.name) or self._undoes(element.name):
                continue
            if best >= LOWEST_FIT and not self._task.is_question:
                yield Proposal(BUTTON * best, intent)
            elif self._goes_on(element.name):
                yield Proposal(PROGRESS, intent)

    def links(self, page: PageText, passages: Sequence[Passage]) -> Iterator[Proposal]:
        """Those that lead to what the task is about; all others are worth a look at last."""
        weights = Weights(stems(each.name) for each in page.elements if each.role == "link")
        chosen = self._compared(page.title, passages)
        for place, element in enumerate(page.elements):
            if element.role != "link" or not element.name or self._is_forbidden(element.name):
                continue
            intent = Intent("click", "link", element.name)
            score = self._link(element.name, passages, weights)
            if not self._task.is_question and self._goes_on(element.name):
                score = max(score, PROGRESS)
            if chosen is not None and chosen.text.startswith(element.name):
                score = max(score, CHOSEN)
            if score <= EXPLORE:
                score = EXPLORE - place * 1e-4
            yield Proposal(score, intent, element.url or "")

    def _compared(self, title: str, passages: Sequence[Passage]) -> Passage | None:
        """What the task finds by comparing, where the page shows what is to be compared."""
        if self._superlative is None or self._task.is_question:
            return None
        said = set(stems(title))
        if self._names and not any(name <= said for name in self._names):
            return None
        return self._superlative.choose(passages)

    def _link(self, name: str, passages: Sequence[Passage], weights: Weights) -> float:
        own = frozenset(stems(name))
        if not own:
            return 0.0
        precise = fit(name, self._words)
        named = max((coverage(each, dict.fromkeys(own, 1.0)) for each in self._names), default=0.0)
        wanted = coverage(self._task.words, dict.fromkeys(own, 1.0), weights)
        around = next((p.text for p in passages if name in p.text and p.kind != "sentence"), "")
        near = coverage(self._task.words, dict.fromkeys(stems(around), 1.0), weights)
        by_name = 0.4 * precise + 0.45 * named**2 + 0.3 * wanted if precise else 0.0
        return by_name + 0.2 * near

    def _goes_on(self, name: str) -> bool:
        said = plain(name)
        if not self._transacts or self._undoes(name):
            return False
        if self._task.forbidden and not said.startswith("add to"):
            return False
        verb = _first_word(name)
        if _TRANSACTION.match(verb) and verb not in self._orders:
            return False
        return bool(_PROGRESS.search(said))

    def _undoes(self, name: str) -> bool:
        return bool(_UNDOES & set(words(name)) - set(words(self._task.text)))

    def _is_forbidden(self, name: str) -> bool:
        said = set(stems(name))
        return any(said & set(stems(each)) for each in self._task.forbidden)


def _first_word(text: str) -> str:
    return plain(text).partition(" ")[0]


def _editable(element: PageElement) -> bool:
    return "editable" in element.flags


def _subjects(assignment: Assignment) -> list[str]:
    """Names that a site may know: not those of the person who asks, nor of days."""
    details = assignment.details
    own = plain(
        " ".join((details.person, details.street, details.city, details.country, *details.codes))
    )
    return [name for name in assignment.names if plain(name) not in own]


def _keywords(assignment: Assignment) -> list[str]:
    """The first words in a row that carry meaning, and do not compare things."""
    row: list[str] = []
    for word in words(assignment.text):
        if stems(word) and not _COMPARES.search(word):
            row.append(word)
        elif row:
            break
    return row[:4]
