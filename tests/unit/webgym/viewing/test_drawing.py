"""Marks on screenshots, and the timeline of an episode."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.viewer.view import MarkView, SpanView
from webgym.actions.space import ACTIONS, Point, Viewport
from webgym.browser.contract.answers import Box
from webgym.trajectory.records import ActionRecord, Image
from webgym.viewing.drawing import StepDrawing, build_timeline, draw_marks
from webgym.viewing.records import PageRecord, StepRecord, ViewedObservation

PAGE = PageRecord(width=1000, height=500)
SHOT = Image("ab" * 32 + ".png", "image/png", 1000, 500)


def drawn(
    key: str,
    arguments: dict[str, Any] | None = None,
    *,
    page: PageRecord = PAGE,
    shot: Image | None = SHOT,
    mode: str = "set_of_marks",
    **aim: Any,
) -> StepDrawing:
    step = StepRecord(
        observation=ViewedObservation(screenshot=shot, page=page),
        action=ActionRecord(key=key, arguments=arguments or {}, **aim),
    )
    return draw_marks(step, mode)


def test_a_click_is_a_point_in_its_box() -> None:
    marks = drawn("click", pixel=(500, 100), box=Box(400.0, 50.0, 200.0, 100.0)).marks
    assert marks == (MarkView("box", 0.4, 0.1, 0.2, 0.2), MarkView("point", 0.5, 0.2))


def test_a_screenshot_with_more_pixels_than_the_viewport_has_the_same_marks() -> None:
    sharp = Image(SHOT.name, "image/png", 3000, 1500)
    assert drawn("click", pixel=(500, 100), shot=sharp) == drawn("click", pixel=(500, 100))


def test_what_is_typed_is_written_beside_the_point() -> None:
    marks = drawn("type", {"text": "two\nlines " + "x" * 200}, pixel=(0, 0)).marks
    assert marks[0].label.startswith("two lines xxx")
    assert len(marks[0].label) == 80


def test_the_chosen_option_is_written_beside_the_point() -> None:
    assert drawn("select", {"option": "Blue"}, pixel=(0, 0)).marks[0].label == "Blue"


def test_a_box_is_cut_where_the_viewport_ends() -> None:
    box = drawn("click", pixel=(990, 490), box=Box(900.0, 480.0, 300.0, 80.0)).marks[0]
    assert (box.x, box.y) == (0.9, 0.96)
    assert (box.width, box.height) == pytest.approx((0.1, 0.04))


def test_scrolling_is_an_arrow_in_its_direction() -> None:
    for direction, way in [
        ("up", (0.0, -0.2)),
        ("down", (0.0, 0.2)),
        ("left", (-0.2, 0.0)),
        ("right", (0.2, 0.0)),
    ]:
        (arrow,) = drawn("scroll", {"direction": direction}).marks
        assert (arrow.shape, arrow.x, arrow.y) == ("arrow", 0.5, 0.5)
        assert (arrow.width, arrow.height) == way


def test_scrolling_over_something_is_a_point_and_an_arrow_from_there() -> None:
    marks = drawn("hover_and_scroll", {"direction": "down"}, pixel=(250, 250)).marks
    assert [(mark.shape, mark.x, mark.y) for mark in marks] == [
        ("point", 0.25, 0.5),
        ("arrow", 0.25, 0.5),
    ]


def test_a_drag_is_an_arrow_from_its_start_to_its_end() -> None:
    marks = drawn("drag", pixel=(250, 250), to_pixel=(750, 0)).marks
    assert marks == (
        MarkView("point", 0.25, 0.5),
        MarkView("arrow", 0.25, 0.5, 0.5, -0.5, label="drag"),
    )
    stored = {"coordinate": [250, 500], "to_coordinate": [750, 0]}
    assert drawn("drag", stored, mode="coordinates").marks == marks
    assert drawn("slide", {"value": 35}, pixel=(0, 0)).marks[0].label == "35"


def test_an_action_that_is_aimed_at_nothing_has_no_marks() -> None:
    for key in ["goback", "navigate", "wait", "answer", "keypress", "unparsed"]:
        assert drawn(key) == StepDrawing()


def test_without_a_screenshot_there_is_nothing_to_draw_on() -> None:
    assert drawn("click", pixel=(1, 1), shot=None) == StepDrawing()


def test_without_the_size_of_the_viewport_nothing_is_placed() -> None:
    for page in [PageRecord(), PageRecord(width=0, height=0)]:
        drawing = drawn("click", pixel=(1, 1), page=page)
        assert drawing == StepDrawing((), "The size of the viewport was not stored.")


def test_what_is_out_of_view_is_not_placed() -> None:
    for pixel in [(1000, 0), (0, 500), (-1, 0), (0, 9000)]:
        drawing = drawn("click", pixel=pixel, box=Box(0.0, 0.0, 10.0, 10.0))
        assert drawing.marks == ()
        assert (
            f"({pixel[0]}, {pixel[1]}) is outside of the viewport of 1000 by 500"
            in drawing.unplaced
        )


def test_an_element_that_was_not_stored_is_not_placed() -> None:
    drawing = drawn("select", {"element_id": 19})
    assert drawing == StepDrawing((), "The target of the action was not stored.")


def test_coordinates_without_a_pixel_are_thousandths_of_the_viewport() -> None:
    (point,) = drawn("click", {"coordinate": [500, 250.0]}, mode="coordinates").marks
    assert (point.x, point.y) == (0.5, 0.25)


def test_coordinates_that_are_none_are_not_guessed() -> None:
    for coordinate in [[500], [500, 1001], [-1, 5], ["5", 5], "5,5", None, {"x": 1}]:
        drawing = drawn("click", {"coordinate": coordinate}, mode="coordinates")
        assert drawing == StepDrawing((), "The target of the action was not stored.")


def test_coordinates_of_the_other_mode_are_not_guessed() -> None:
    assert drawn("click", {"coordinate": [500, 250]}, mode="set_of_marks").marks == ()


@given(
    x=st.floats(0, 1000),
    y=st.floats(0, 1000),
    width=st.integers(1, 5000),
    height=st.integers(1, 5000),
)
def test_every_point_that_an_agent_can_aim_at_is_on_the_screenshot(
    x: float, y: float, width: int, height: int
) -> None:
    page = PageRecord(width=width, height=height)
    stored = drawn("click", pixel=Point(x, y).pixel(Viewport(width, height)), page=page)
    assert 0 <= stored.marks[0].x < 1
    assert 0 <= stored.marks[0].y < 1
    assert drawn("click", {"coordinate": [x, y]}, mode="coordinates", page=page) == stored


def test_every_action_with_a_target_is_drawn() -> None:
    aimed = [key for key, kind in ACTIONS.items() if "target" in kind.__struct_fields__]
    for key in aimed:
        assert drawn(key, pixel=(10, 10)).marks[0].shape == "point"


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
