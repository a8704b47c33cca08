"""Steps of a rollout on a page: the screenshot, and what was done to it drawn on top.

Marks are in fractions of the screenshot, and so are the lengths of the drawing: it fits whatever
size the picture is shown in.
"""

from collections.abc import Iterator

from rollgym.viewer.offline.blocks import Album, facts, folded, note, text_block
from rollgym.viewer.offline.markup import Element, Share, element, group, shape
from rollgym.viewer.offline.turns import turn_block
from rollgym.viewer.view import Mark, Step

_FAR_RIGHT, _NEAR_TOP = 0.6, 0.12
_HEADS = {
    "right": ((0, 0), (-10, -6), (-10, 6)),
    "left": ((0, 0), (10, -6), (10, 6)),
    "down": ((0, 0), (-6, -10), (6, -10)),
    "up": ((0, 0), (-6, 10), (6, 10)),
}


def step_block(step: Step, album: Album) -> Element:
    """One step: the page, the action on it, what the model answered, and what came of it."""
    judged = "judged" if step.judged else None
    return group("article", _step(step, album), class_="step", data_judged=judged)


def _step(step: Step, album: Album) -> Iterator[Element | None]:
    yield element("h3", f"Step {step.index + 1}: {step.action or 'no action'}")
    yield (
        element("p", step.title, " ", element("code", step.url)) if step.title or step.url else None
    )
    if step.screenshot is not None:
        yield element(
            "figure",
            album.picture(step.screenshot, f"the page at step {step.index + 1}"),
            drawing(step.marks) if step.marks else None,
        )
    for text in (step.unplaced, step.problem, step.parse_failure, *step.notes):
        yield note(text) if text else None
    if step.judged:
        yield element("p", f"The judge saw this screenshot. {step.judgment}", class_="judged")
    yield text_block(step.arguments, "text code") if step.arguments else None
    yield from (folded(name, text_block(text)) for name, text in step.fields.items())
    yield folded("Response", text_block(step.response)) if step.response else None
    if step.prompt:
        yield folded("Prompt", *(turn_block(turn, album) for turn in step.prompt))
    yield folded("Page as text", text_block(step.tree, "text code")) if step.tree else None
    yield facts(_numbers(step))


def _numbers(step: Step) -> Iterator[tuple[str, str]]:
    if step.reward is not None:
        yield "reward", f"{step.reward:.4g}"
    yield from ((phase, f"{seconds:.3g} s") for phase, seconds in step.timings.items())
    for name, count in (("tokens in", step.input_tokens), ("tokens out", step.output_tokens)):
        if count is not None:
            yield name, f"{count:,}"


def drawing(marks: tuple[Mark, ...]) -> Element:
    """The marks of one screenshot, over the whole of it."""
    return shape("svg", *(drawn for mark in marks for drawn in _mark(mark)), class_="marks")


def _mark(mark: Mark) -> Iterator[Element]:
    x, y = Share(mark.x), Share(mark.y)
    end_x, end_y = Share(mark.x + mark.width), Share(mark.y + mark.height)
    match mark.shape:
        case "point":
            yield shape("circle", cx=x, cy=y, r=11, class_="mark")
            yield shape("circle", cx=x, cy=y, r=2, class_="dot")
        case "box":
            width, height = Share(max(mark.width, 0.0)), Share(max(mark.height, 0.0))
            yield shape("rect", x=x, y=y, width=width, height=height, class_="mark")
        case "arrow":
            yield shape("line", x1=x, y1=y, x2=end_x, y2=end_y, class_="mark")
            head = shape("polygon", points=_HEADS[_direction(mark)], class_="dot")
            yield shape("svg", head, x=end_x, y=end_y, class_="head")
    if mark.label:
        yield _label(mark)


def _label(mark: Mark) -> Element:
    """On the side of its mark where there is room."""
    across, along = (-14, "label before") if mark.x > _FAR_RIGHT else (14, "label")
    down = 24 if mark.y < _NEAR_TOP else -14
    x, y = Share(mark.x), Share(mark.y)
    return shape("text", mark.label, x=x, y=y, dx=across, dy=down, class_=along)


def _direction(mark: Mark) -> str:
    if abs(mark.width) > abs(mark.height):
        return "right" if mark.width > 0 else "left"
    return "down" if mark.height >= 0 else "up"
