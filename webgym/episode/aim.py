"""What an action did, for the record: where on the screenshot it was aimed, what came of it."""

from webgym.browser.contract.answers import Box, Element, Problem
from webgym.context.sight import Sight
from webgym.environment.actions import Action, Mark, Point, Viewport
from webgym.trajectory import UNPARSED, ActionRecord

PARSE_FAILURE = "parse_failure"


def record_of(action: Action, sight: Sight) -> ActionRecord:
    """The action as the trajectory keeps it."""
    pixel, box = _aim(getattr(action, "target", None), sight)
    return ActionRecord(
        key=action.key, arguments=action.arguments, text=str(action), pixel=pixel, box=box
    )


def unparsed(reason: str) -> ActionRecord:
    """The record of a reply that was no action."""
    return ActionRecord(
        key=UNPARSED, text="the reply was no action", problem=Problem(PARSE_FAILURE, reason)
    )


def viewport_of(sight: Sight) -> Viewport:
    return Viewport(sight.page.width, sight.page.height)


def _aim(target: object, sight: Sight) -> tuple[tuple[int, int] | None, Box | None]:
    match target:
        case Point():
            return target.pixel(viewport_of(sight)), None
        case Mark():
            box = next((each.box for each in sight.elements if _shows(each, target.id)), None)
            if box is None:
                return None, None
            middle = round(box.x + box.width / 2), round(box.y + box.height / 2)
            return middle, box
        case _:
            return None, None


def _shows(element: Element, number: int) -> bool:
    """Whether a number is the element's own, or that of an option, which is seen in its list."""
    return element.id == number or any(option.id == number for option in element.options)
