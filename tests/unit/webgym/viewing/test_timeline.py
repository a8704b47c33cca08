"""When an episode did what."""

import pytest

from rollgym.viewer.view import SpanView
from webgym.viewing.drawing import build_timeline

STEPS = [{"screenshot": 0.5, "model": 2.0, "execute": 1.0}, {"screenshot": 0.5, "model": 1.0}]
PHASES = {
    "browser": 1.0, "navigate": 3.0, "screenshot": 1.0, "model": 3.0, "execute": 1.0, "reward": 4.0
}  # fmt: skip


def test_phases_are_one_behind_another_in_the_order_in_which_they_were() -> None:
    timeline = build_timeline(STEPS, PHASES, 13.0)
    assert timeline is not None
    assert timeline.spans == (
        SpanView("browser", 0.0, 1.0, "waiting for a browser"),
        SpanView("navigate", 1.0, 3.0, "start page", 0),
        SpanView("screenshot", 4.0, 0.5, step=0),
        SpanView("model", 4.5, 2.0, step=0),
        SpanView("execute", 6.5, 1.0, step=0),
        SpanView("screenshot", 7.5, 0.5, step=1),
        SpanView("model", 8.0, 1.0, step=1),
        SpanView("reward", 9.0, 4.0, "whole rollout"),
    )
    assert timeline.exact
    assert timeline.seconds == 13.0


def test_the_totals_are_those_of_the_phases() -> None:
    timeline = build_timeline(STEPS, PHASES, 13.0)
    assert timeline is not None
    assert timeline.totals == PHASES
    assert timeline.complete


def test_what_a_broken_step_did_is_behind_the_steps() -> None:
    timeline = build_timeline([STEPS[0], {}], PHASES | {"reward": 0.0}, 9.0)
    assert timeline is not None
    behind = [span for span in timeline.spans if span.label == "unfinished"]
    assert behind == [
        SpanView("screenshot", 7.5, 0.5, "unfinished", 1),
        SpanView("model", 8.0, 1.0, "unfinished", 1),
    ]


def test_looking_for_walls_within_a_step_is_no_judging_at_the_end() -> None:
    timeline = build_timeline([{"reward": 1.0, "model": 2.0}], {"reward": 3.0, "model": 2.0}, 5.0)
    assert timeline is not None
    assert [(span.phase, span.start, span.seconds) for span in timeline.spans] == [
        ("reward", 0.0, 1.0),
        ("model", 1.0, 2.0),
        ("reward", 3.0, 2.0),
    ]


def test_without_phases_the_timeline_is_that_of_the_steps() -> None:
    timeline = build_timeline(STEPS, {}, None)
    assert timeline is not None
    assert timeline.seconds == pytest.approx(5.0)
    assert timeline.spans[0] == SpanView("screenshot", 0.0, 0.5, step=0)


def test_an_attempt_of_which_no_phase_was_kept_has_no_timeline() -> None:
    assert build_timeline([], {}, 30.0) is None
