"""One rollout as one HTML file that holds everything it shows and runs nothing.

The file has no script, and its policy lets a browser load nothing but the pictures inside it. Every
string of the rollout is text there; markdown, too, is shown as it was written. It is made in
pieces, turn by turn, so that a rollout of any size takes little memory. Texts are cut where the
viewer cuts them, and there are bounds on turns, steps and pictures: the file says where it left
something out.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from math import inf
from pathlib import Path
from typing import TypeVar

from rollgym.viewer.offline.blocks import (
    Album,
    PictureOf,
    facts,
    field_section,
    folded,
    note,
    section,
    text_block,
)
from rollgym.viewer.offline.markup import (
    Child,
    Element,
    Share,
    document,
    element,
    group,
    shape,
    stylesheet,
)
from rollgym.viewer.offline.steps import step_block
from rollgym.viewer.offline.turns import turn_block
from rollgym.viewer.view import (
    STEPS_LIMIT,
    TURNS_LIMIT,
    Document,
    FailureView,
    RolloutView,
    Timeline,
)

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
MOST_TURNS = 5_000
MOST_STEPS = 1_000
_MOST_SPANS = 500

T = TypeVar("T")


def offline_page(rollout: Document, *, name: str, picture: PictureOf) -> Iterator[bytes]:
    """The file, in pieces. `name` tells where the rollout is from.

    `picture` reads a picture of the rollout, None where it cannot be had. What of the rollout
    cannot be read at all raises before the first piece.
    """
    view = rollout.view()
    body = group("body", _body(rollout, view, name, picture))
    root = element("html", _head(f"{view.title} ({name})"), body, lang="en")
    return document(root)


def _head(title: str) -> Element:
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


def _body(rollout: Document, view: RolloutView, name: str, picture: PictureOf) -> Iterator[Child]:
    album = Album(picture)
    yield element(
        "header", element("h1", view.title), element("p", name, class_="note"), _facts(view)
    )
    yield group("main", _main(rollout, view, album))


def _main(rollout: Document, view: RolloutView, album: Album) -> Iterator[Child]:
    if view.failure is not None:
        yield _failure(view.failure)
    yield from (field_section(each) for each in view.sections if each.verdict)
    if view.timeline is not None:
        yield _timeline(view.timeline)
    if view.prompt:
        yield section("Prompt", (turn_block(turn, album) for turn in view.prompt))
    if view.steps:
        steps = _portions(rollout.steps, min(view.steps, MOST_STEPS), STEPS_LIMIT)
        blocks = (step_block(step, album) for step in steps)
        yield _long("Steps", blocks, view.steps, MOST_STEPS)
    elif view.turns:
        turns = _portions(rollout.turns, min(view.turns, MOST_TURNS), TURNS_LIMIT)
        yield _long(
            "Transcript", (turn_block(turn, album) for turn in turns), view.turns, MOST_TURNS
        )
    yield from (field_section(each) for each in view.sections if not each.verdict)


def _long(title: str, blocks: Iterator[Element], number: int, most: int) -> Element:
    """A section whose content is made while it is written."""
    left_out = f"{number - most:,} more are in the file that this rollout was taken from."
    end = [note(left_out)] if number > most else []
    return group("section", chain([element("h2", title)], blocks, end))


def _portions(read: Callable[[int, int], list[T]], number: int, portion: int) -> Iterator[T]:
    for start in range(0, number, portion):
        yield from read(start, min(portion, number - start))


def _facts(view: RolloutView) -> Element:
    return facts((name, text) for name, text in _told(view) if text)


def _told(view: RolloutView) -> Iterator[tuple[str, str]]:
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


def _failure(failure: FailureView) -> Element:
    causes = (element("p", f"because of {kind}: {message}") for kind, message in failure.causes)
    words = (
        failure.meaning
        if failure.retryable is None
        else (f"{failure.meaning}; {'may pass when tried again' if failure.retryable else 'final'}")
    )
    traceback = failure.traceback
    content = (
        element("p", element("code", failure.kind), f" {words}"),
        text_block(failure.detail),
        *causes,
        folded("Traceback", text_block(traceback, "text code")) if traceback else None,
    )
    return group("section", (element("h2", "Failure"), *content), class_="failure")


def _timeline(timeline: Timeline) -> Element:
    """A row for each phase: when it was, where that is known, and how long it took in all."""
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
            shape("rect", x=Share(start), y=0, width=Share(length), height=12)
            for start, length in shares
        )
        chart = shape("svg", *bars, class_="bars")
        told = element("dd", chart, f" {seconds:.3g} s")
        rows.append(element("div", element("dt", phase), told))
    return section("Time", [group("dl", rows, class_="fields")])
