"""One rollout as one HTML file that contains everything it shows and runs nothing.

The file has no script, and its policy lets a browser load nothing but the pictures inside it. Every
string of the rollout is text; Markdown is shown as it was written. The file is made in pieces, turn
by turn, so that a rollout of any size takes little memory. Texts are cut where the viewer cuts
them, and turns, steps and pictures are bounded: the file says where something was left out.

The marks of a step are drawn over its screenshot in fractions of it, so they fit at any size.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from math import inf
from pathlib import Path
from typing import TypeVar

from rollgym.viewer.offline.markup import (
    Child,
    Fraction,
    HtmlElement,
    PictureBudget,
    PictureOf,
    document,
    element,
    facts,
    field_section,
    folded,
    group,
    note,
    section,
    shape,
    stylesheet,
    text_block,
)
from rollgym.viewer.view import (
    STEPS_LIMIT,
    TURNS_LIMIT,
    CallView,
    FailureView,
    MarkView,
    PictureView,
    RolloutDocument,
    RolloutView,
    SignView,
    StepView,
    Text,
    TimelineView,
    TurnView,
)

_ROLES = frozenset(("system", "developer", "user", "assistant", "tool"))


def turn_block(turn: TurnView, pictures: PictureBudget) -> HtmlElement:
    """One turn: its role, its folded reasoning, its texts and pictures, and its calls."""
    heading = f"{turn.role}: {turn.tool}" if turn.tool else turn.role
    if turn.version:
        heading += f" (policy version {turn.version})"
    heading += " (error)" if turn.is_error else ""
    return group(
        "article",
        (
            element("h3", heading, " ", element("span", str(turn.index), class_="index")),
            folded("Reasoning", text_block(turn.reasoning)) if turn.reasoning else None,
            *(_part(part, turn, pictures) for part in turn.parts),
            *map(_call, turn.calls),
        ),
        class_=f"turn {turn.role}" if turn.role in _ROLES else "turn",
    )


def _part(part: Text | PictureView, turn: TurnView, pictures: PictureBudget) -> HtmlElement:
    if isinstance(part, PictureView):
        return pictures.picture(part, "picture in the conversation")
    return text_block(part, "text code" if turn.role == "tool" else "text")


def _call(call: CallView) -> HtmlElement:
    return element(
        "div",
        element("p", "calls ", element("code", call.name)),
        note("The arguments are not JSON.") if call.malformed else None,
        text_block(call.arguments, "text code"),
        class_="call",
    )


_FAR_RIGHT, _NEAR_TOP = 0.6, 0.12
_HEADS = {
    "right": ((0, 0), (-10, -6), (-10, 6)),
    "left": ((0, 0), (10, -6), (10, 6)),
    "down": ((0, 0), (-6, -10), (6, -10)),
    "up": ((0, 0), (-6, 10), (6, 10)),
}


def step_block(step: StepView, pictures: PictureBudget) -> HtmlElement:
    """One step: the page, the action on it, the model's response, and the numbers."""
    judged = "judged" if step.judged else None
    return group("article", _step(step, pictures), class_="step", data_judged=judged)


def _step(step: StepView, pictures: PictureBudget) -> Iterator[HtmlElement | None]:
    yield element("h3", f"Step {step.index + 1}: {step.action or 'no action'}")
    yield (
        element("p", step.title, " ", element("code", step.url)) if step.title or step.url else None
    )
    if step.screenshot is not None:
        yield element(
            "figure",
            pictures.picture(step.screenshot, f"page at step {step.index + 1}"),
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
        yield folded("Prompt", *(turn_block(turn, pictures) for turn in step.prompt))
    yield folded("Page as text", text_block(step.tree, "text code")) if step.tree else None
    yield facts(_numbers(step))


def _numbers(step: StepView) -> Iterator[tuple[str, str]]:
    if step.reward is not None:
        yield "reward", f"{step.reward:.4g}"
    yield from ((phase, f"{seconds:.3g} s") for phase, seconds in step.timings.items())
    for name, count in (("tokens in", step.input_tokens), ("tokens out", step.output_tokens)):
        if count is not None:
            yield name, f"{count:,}"


def drawing(marks: tuple[MarkView, ...]) -> HtmlElement:
    """The marks of one screenshot, as a drawing over the whole of it."""
    return shape("svg", *(drawn for mark in marks for drawn in _mark(mark)), class_="marks")


def _mark(mark: MarkView) -> Iterator[HtmlElement]:
    x, y = Fraction(mark.x), Fraction(mark.y)
    end_x, end_y = Fraction(mark.x + mark.width), Fraction(mark.y + mark.height)
    match mark.shape:
        case "point":
            yield shape("circle", cx=x, cy=y, r=11, class_="mark")
            yield shape("circle", cx=x, cy=y, r=2, class_="dot")
        case "box":
            width, height = Fraction(max(mark.width, 0.0)), Fraction(max(mark.height, 0.0))
            yield shape("rect", x=x, y=y, width=width, height=height, class_="mark")
        case "arrow":
            yield shape("line", x1=x, y1=y, x2=end_x, y2=end_y, class_="mark")
            head = shape("polygon", points=_HEADS[_direction(mark)], class_="dot")
            yield shape("svg", head, x=end_x, y=end_y, class_="head")
    if mark.label:
        yield _label(mark)


def _label(mark: MarkView) -> HtmlElement:
    """On the side of its mark that has space."""
    across, along = (-14, "label before") if mark.x > _FAR_RIGHT else (14, "label")
    down = 24 if mark.y < _NEAR_TOP else -14
    x, y = Fraction(mark.x), Fraction(mark.y)
    return shape("text", mark.label, x=x, y=y, dx=across, dy=down, class_=along)


def _direction(mark: MarkView) -> str:
    if abs(mark.width) > abs(mark.height):
        return "right" if mark.width > 0 else "left"
    return "down" if mark.height >= 0 else "up"


POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
MOST_TURNS = 5_000
MOST_STEPS = 1_000
_MOST_SPANS = 500

T = TypeVar("T")


def offline_page(rollout: RolloutDocument, *, name: str, picture: PictureOf) -> Iterator[bytes]:
    """The file, in pieces. `name` says where the rollout is from.

    `picture` reads a picture of the rollout; it returns None if it cannot. A rollout that cannot be
    read raises before the first piece.
    """
    view = rollout.view()
    body = group("body", _body(rollout, view, name, picture))
    root = element("html", _head(f"{view.title} ({name})"), body, lang="en")
    return document(root)


def _head(title: str) -> HtmlElement:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        stylesheet(_style()),
    )


@cache
def _style() -> str:
    return Path(__file__).with_name("style.css").read_text(encoding="utf-8")


def _body(
    rollout: RolloutDocument, view: RolloutView, name: str, picture: PictureOf
) -> Iterator[Child]:
    pictures = PictureBudget(picture)
    yield element(
        "header",
        element("h1", view.title),
        element("p", name, class_="note"),
        facts(_summary_facts(view)),
    )
    yield group("main", _main(rollout, view, pictures))


def _main(rollout: RolloutDocument, view: RolloutView, pictures: PictureBudget) -> Iterator[Child]:
    if view.failure is not None:
        yield _failure(view.failure)
    if view.signs:
        yield _signs(view.signs)
    yield from (field_section(each) for each in view.sections if each.verdict)
    if view.timeline is not None:
        yield _timeline(view.timeline)
    if view.prompt:
        yield section("Prompt", (turn_block(turn, pictures) for turn in view.prompt))
    if view.steps:
        steps = _portions(rollout.steps, min(view.steps, MOST_STEPS), STEPS_LIMIT)
        blocks = (step_block(step, pictures) for step in steps)
        yield _long("Steps", blocks, view.steps, MOST_STEPS)
    elif view.turns:
        turns = _portions(rollout.turns, min(view.turns, MOST_TURNS), TURNS_LIMIT)
        yield _long(
            "Transcript", (turn_block(turn, pictures) for turn in turns), view.turns, MOST_TURNS
        )
    yield from (field_section(each) for each in view.sections if not each.verdict)


def _long(title: str, blocks: Iterator[HtmlElement], number: int, most: int) -> HtmlElement:
    """A section whose content is made while the page is written."""
    left_out = f"{number - most:,} more are in the original file."
    end = [note(left_out)] if number > most else []
    return group("section", chain([element("h2", title)], blocks, end))


def _portions(read: Callable[[int, int], list[T]], number: int, portion: int) -> Iterator[T]:
    for start in range(0, number, portion):
        yield from read(start, min(portion, number - start))


def _summary_facts(view: RolloutView) -> Iterator[tuple[str, str]]:
    summary = view.summary
    yield "status", str(summary.status)
    yield "reward", "" if summary.reward is None else f"{summary.reward:.4g}"
    verdict = {None: "", True: "success", False: "no success"}
    yield "verdict", verdict[summary.success]
    for name in ("task", "repeat", "attempt", "model", "agent", "ending"):
        value = summary.facts.agent if name == "agent" else getattr(summary, name)
        yield name, "" if value is None else str(value)
    yield "steps", f"{view.steps:,}" if view.steps else ""
    yield "turns", f"{view.turns:,}" if view.turns else ""
    yield "seconds", "" if summary.seconds is None else f"{summary.seconds:.3g}"
    for name, count in view.usage.items():
        yield name.replace("_", " "), f"{count:,}" if count else ""


def _signs(signs: tuple[SignView, ...]) -> HtmlElement:
    lines = []
    for each in signs:
        often = f" ({each.number:,} times)" if each.number > 1 else ""
        lines.append(element("p", element("code", each.sign), f" {each.meaning}{often}"))
    return group("section", (element("h2", "Deserves a look"), *lines))


def _failure(failure: FailureView) -> HtmlElement:
    causes = (element("p", f"caused by {kind}: {message}") for kind, message in failure.causes)
    words = (
        failure.meaning
        if failure.retryable is None
        else (f"{failure.meaning}; {'can be retried' if failure.retryable else 'not retryable'}")
    )
    traceback = failure.traceback
    content = (
        element("p", element("code", failure.kind), f" {words}"),
        text_block(failure.detail),
        *causes,
        element("p", "raised at ", element("code", failure.place)) if failure.place else None,
        folded("Traceback", text_block(traceback, "text code")) if traceback else None,
    )
    return group("section", (element("h2", "Failure"), *content), class_="failure")


def _timeline(timeline: TimelineView) -> HtmlElement:
    """A row for each phase: its spans, if they are known, and its total."""
    whole = timeline.seconds if 0 < timeline.seconds < inf else 1.0
    rows = []
    for phase, seconds in timeline.totals.items():
        spans = [
            (span.start, span.seconds)
            for span in timeline.spans[:_MOST_SPANS]
            if span.phase == phase
        ] or ([] if timeline.exact else [(0.0, seconds)])
        shares = ((min(start / whole, 1.0), min(length / whole, 1.0)) for start, length in spans)
        bars = (
            shape("rect", x=Fraction(start), y=0, width=Fraction(length), height=12)
            for start, length in shares
        )
        chart = shape("svg", *bars, class_="bars")
        described = element("dd", chart, f" {seconds:.3g} s")
        rows.append(element("div", element("dt", phase), described))
    return section("Time", [group("dl", rows, class_="fields")])
