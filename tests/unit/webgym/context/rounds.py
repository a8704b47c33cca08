"""Sights, rounds and tasks for the tests of the context."""

import msgspec

from rollgym.records import Row
from webgym.browser.contract.answers import Box, CommandFailure, Element, Option, PageInfo, Picture
from webgym.context.page_view import AgentObservation, Round
from webgym.tasks.task import WebTask
from webgym.trajectory.records import ActionRecord, Observation, ResponseRecord, Step

PICTURE = Picture("image/png", b"\x89PNG picture")


def task(name: str = "What does the blue lamp cost?") -> WebTask:
    fields = {"task_name": name, "website": "http://lamps.example/"}
    return WebTask.of(Row(raw=msgspec.json.encode(fields)), "task-1")


def element(number: int = 12, name: str = "Add to cart", **others: object) -> Element:
    fields: dict[str, object] = {
        "id": number,
        "tag": "button",
        "role": "button",
        "name": name,
        "text": name,
        "box": Box(600, 250, 110, 22),
    }
    return Element(**(fields | others))  # type: ignore[arg-type]


def drop_down() -> Element:
    return element(
        20,
        "Colour",
        tag="select",
        role="combobox",
        text="Blue",
        value="Blue",
        expanded=False,
        options=(Option(21, "Red", "r"), Option(22, "Blue", "b", True)),
    )


def observation(number: int = 1, **others: object) -> AgentObservation:
    fields: dict[str, object] = {
        "page": PageInfo(f"http://lamps.example/{number}", f"Lamps {number}"),
        "picture": PICTURE,
        "blob": f"{number:064d}.png",
        "elements": (element(), drop_down()),
        "tree": f'RootWebArea "Lamps {number}"\n  [12] button "Add to cart"',
    }
    return AgentObservation(**(fields | others))  # type: ignore[arg-type]


def past_round(
    number: int,
    raw_response: str | None = None,
    *,
    fields: dict[str, object] | None = None,
    failure: str | None = None,
    problem: str | None = None,
    seen: AgentObservation | None = None,
    same: bool | None = None,
) -> Round:
    seen = seen or observation(number)
    response = ResponseRecord(
        raw_response=f"<think>hmm</think>reply {number}" if raw_response is None else raw_response,
        fields={"intention": f"intention {number}"} if fields is None else fields,
        parse_failure=failure,
    )
    action = ActionRecord(
        key="click",
        text=f"click on [{number}]",
        problem=CommandFailure("ElementGone", problem) if problem else None,
    )
    step = Step(
        observation=Observation(page=seen.page),
        response=response,
        action=None if failure else action,
        same_as_next_screenshot=same,
    )
    return Round(seen, step)
