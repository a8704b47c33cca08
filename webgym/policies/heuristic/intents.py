"""Intents: what the heuristic wants with an element, until it is done.

With numbers an intent is one action. With coordinates it may take several: to scroll there, or to
open a list before its option can be clicked.
"""

from typing import Literal

import msgspec

from webgym.browser.contract.commands import InteractionMode
from webgym.context.page_text import PageElement, PageText
from webgym.environment.actions import Action, Click, Hover, Mark, Select, Type
from webgym.policies.reaching import Reach, aim

MOST_ACTIONS = 8


class Intent(msgspec.Struct, frozen=True):
    """`value` is what to type or to choose."""

    kind: Literal["click", "hover", "type", "select"]
    role: str
    name: str
    value: str = ""

    def __str__(self) -> str:
        match self.kind:
            case "type":
                return f"Type {self.value!r} into {self.name!r}."
            case "select":
                return f"Choose {self.value!r} in {self.name!r}."
        return f"{self.kind.capitalize()} {self.role} {self.name!r}."


class Pursuit:
    """An intent that is being carried out."""

    def __init__(self, intent: Intent, mode: InteractionMode) -> None:
        self.intent = intent
        self._mode = mode
        self._reach = Reach()
        self._actions = 0
        self.is_over = False

    def next(self, page: PageText) -> Action | None:
        """The next action towards it; None where it cannot be done any more."""
        self._actions += 1
        found = find(page, self.intent)
        if found is None or self._actions > MOST_ACTIONS:
            self.is_over = True
            return None
        scroll = self._reach.towards(found, page)
        if scroll is not None:
            return scroll
        if self.intent.kind == "select":
            return self._select(found, page)
        self.is_over = True
        target = aim(found)
        match self.intent.kind:
            case "type":
                return Type(target, self.intent.value)
            case "hover":
                return Hover(target)
        return Click(target)

    def _select(self, found: PageElement, page: PageText) -> Action | None:
        if self._mode == "set_of_marks":
            self.is_over = True
            wanted = (each.id for each in found.options if each.text == self.intent.value)
            number = next(wanted, None)
            return None if number is None else Select(Mark(number))
        if "expanded" not in found.flags:
            return Click(aim(found))
        for element in page.elements:
            if element.role == "option" and self.intent.value in (element.name, element.text):
                scroll = self._reach.towards(element, page)
                if scroll is None:
                    self.is_over = True
                    return Click(aim(element))
                return scroll
        self.is_over = True
        return None


def find(page: PageText, intent: Intent) -> PageElement | None:
    """The element that an intent is about; at best one that is in view."""
    alike = [
        each
        for each in page.elements
        if (each.role, each.name) == (intent.role, intent.name) and "disabled" not in each.flags
    ]
    in_view = (each for each in alike if "out of view" not in each.flags)
    return next(in_view, next(iter(alike), None))
