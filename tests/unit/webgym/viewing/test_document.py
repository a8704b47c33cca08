"""A web rollout that is looked at."""

import msgspec
import pytest

from rollgym.records import OmitReason, Omitted, Row
from rollgym.viewer.documents.sections import MOST_FIELDS
from rollgym.viewer.documents.timeline import MOST_SPANS
from rollgym.viewer.view import PictureView, RolloutDocument, RolloutView, SectionView, Text
from tests.builders import without_checksums
from tests.trajectories import SCREENSHOT, full_step, full_trajectory, step, trajectory
from tests.unit.webgym.viewing.recorded import (
    Shelf,
    completed,
    failed,
    failed_fragment,
    fragment,
    line,
)
from webgym.models.assessment import BlockingResult, CriterionResult, Evaluation, FactOutcome
from webgym.trajectory.records import EpisodeVerdict, ResponseRecord, Trajectory
from webgym.viewing.formats import TORCH, TRAJECTORIES

FILE = f"screenshots/ab/{SCREENSHOT.name}"


def of_journal(done: Trajectory) -> RolloutDocument:
    return TRAJECTORIES.document(completed(done), Shelf())


def of_file(done: Trajectory) -> RolloutDocument:
    return TORCH.document(fragment(done), Shelf())


def section(view: RolloutView, title: str) -> dict[str, str]:
    found: SectionView = next(each for each in view.sections if each.title == title)
    return {field.name: field.value.text for field in found.fields}


def test_the_prompt_is_the_task() -> None:
    for opened in (of_journal, of_file):
        document = opened(full_trajectory())
        (asked,) = document.view().prompt
        assert asked.role == "user"
        assert [part.text for part in asked.parts if isinstance(part, Text)] == ["Find the café"]
        assert msgspec.json.decode(document.raw(asked.path)) == "Find the café"


def test_the_page_after_the_last_action_and_the_video_are_the_last_turns() -> None:
    done = full_trajectory()
    for opened in (of_journal, of_file):
        document = opened(done)
        view = document.view()
        assert section(view, "Final page")["url"] == "http://shop.test/é"
        har, recorded = next(it for it in view.sections if it.title == "Recordings").fields
        assert har.value.text == har.file == f"screenshots/01/{'01' * 32}.har"
        assert (recorded.name, recorded.file) == ("video", "")  # it is a turn
        *_, final, video = document.turns(0, 100)
        assert view.turns == 2 * len(done.steps) + 2 == video.index + 1
        assert PictureView(file=FILE, width=1280, height=768) in final.parts
        assert PictureView(file=f"screenshots/23/{'23' * 32}.webp") in video.parts
        assert document.turns(final.index, 5) == [final, video]
        assert document.turns(video.index, 5) == [video]
        assert document.turns(final.index - 1, 2)[-1] == final


def test_a_step_has_all_that_was_stored_of_it() -> None:
    for opened in (of_journal, of_file):
        (shown,) = opened(full_trajectory()).steps(0, 1)
        assert (shown.index, shown.title, shown.url) == (0, "Shop", "http://shop.test/é")
        assert shown.screenshot == PictureView(file=FILE, width=1280, height=768)
        assert (shown.action, shown.action_key) == ("click (500, 250.5)", "click")
        assert shown.problem == "covered: something is in the way"
        assert shown.notes == (
            "dialog: alert: hello",
            f"file: menu.csv (12 bytes) is screenshots/ef/{'ef' * 32}.csv",
            "the page was still loading when it was observed",
            "tolerated when the reply was parsed: fenced",
            "step reward: 0.25",
        )
        assert shown.fields["intention"].text == "buy"
        assert shown.response is not None
        assert shown.response.text == "Intention: buy \N{OGHAM SPACE MARK}\x00"
        assert shown.tree is not None
        assert shown.tree.text == "button 'Buy'"
        assert shown.parse_failure == "none really"
        assert (shown.reward, shown.judged, shown.judgment) == (0.5, True, "shows the basket")
        assert shown.same_as_next is True
        assert (shown.input_tokens, shown.output_tokens) == (10, 20)
        assert shown.timings == {"model": 0.25}
        assert [mark.shape for mark in shown.marks] == ["box", "point", "arrow"]


def test_every_path_of_a_step_leads_to_the_whole_text() -> None:
    for opened in (of_journal, of_file):
        document = opened(full_trajectory())
        (shown,) = document.steps(0, 1)
        assert shown.response is not None
        assert shown.tree is not None
        (asked,) = shown.prompt
        prompted = [part for part in asked.parts if isinstance(part, Text)]
        for text in (shown.response, shown.tree, shown.fields["intention"], *prompted):
            assert msgspec.json.decode(document.raw(text.path)) == text.text
        assert shown.arguments is not None
        arguments = msgspec.json.decode(document.raw(shown.arguments.path))
        assert arguments == msgspec.json.decode(shown.arguments.text)
        assert b'"raw_prompt"' in document.raw(f"{shown.path}/response")


def test_a_screenshot_in_a_prompt_is_its_file() -> None:
    for opened in (of_journal, of_file):
        picture = {"type": "image_url", "image_url": {"url": f"blob:{SCREENSHOT.name}"}}
        said = ResponseRecord(raw_prompt=({"role": "user", "content": [picture]},))
        one = msgspec.structs.replace(full_step(), response=said)
        (shown,) = opened(trajectory(one)).steps(0, 1)
        assert shown.prompt[0].parts == (PictureView(file=FILE),)


def test_a_name_that_is_no_screenshot_of_ours_is_not_looked_for() -> None:
    for name in ["../../secret.png", "a.svg", "", "http://elsewhere/x.png"]:
        picture = msgspec.structs.replace(SCREENSHOT, name=name)
        seen = msgspec.structs.replace(full_step().observation, screenshot=picture)
        (shown,) = of_journal(
            trajectory(msgspec.structs.replace(full_step(), observation=seen))
        ).steps(0, 1)
        assert shown.screenshot == PictureView(width=1280, height=768, note=name)


def test_without_a_folder_of_pictures_a_screenshot_says_where_it_would_be() -> None:
    document = TRAJECTORIES.document(completed(), Shelf(images=None))
    (shown,) = document.steps(0, 1)
    assert shown.screenshot == PictureView(width=1280, height=768, note=FILE)


def test_steps_are_given_from_where_one_asks() -> None:
    for opened in (of_journal, of_file):
        document = opened(trajectory(*(step(f"key{number}") for number in range(7))))
        assert document.view().steps == 7
        assert [each.action_key for each in document.steps(5, 10)] == ["key5", "key6"]
        assert [each.index for each in document.steps(5, 1)] == [5]
        assert document.steps(7, 5) == []


def test_a_step_is_two_turns() -> None:
    for opened in (of_journal, of_file):
        document = opened(
            trajectory(step(said="I click."), step("answer", said="<think>so</think>Yes"))
        )
        assert document.view().turns == 4
        turns = document.turns(0, 10)
        assert [turn.role for turn in turns] == ["user", "assistant", "user", "assistant"]
        assert [turn.index for turn in turns] == [0, 1, 2, 3]
        assert turns[0].parts[0] == Text("Step 1: Shop (http://shop.test/)", 32)
        assert turns[1].calls[0].name == "click"
        assert turns[3].reasoning is not None
        assert turns[3].reasoning.text == "so"
        assert document.turns(1, 2) == turns[1:3]
        assert document.turns(3, 9) == turns[3:]


def test_a_text_is_found_where_it_is_shown() -> None:
    for opened in (of_journal, of_file):
        document = opened(trajectory(step(said="Hello there"), step(said="no"), full_step()))
        assert document.find("hello THERE") == ([1], [0])
        assert document.find("basket") == ([], [2])
        assert document.find("shop.test/é") == ([4], [2])
        assert document.find("nowhere") == ([], [])
        assert document.find("") == ([], [])


def test_the_verdict_is_reported_criterion_by_criterion() -> None:
    for opened in (of_journal, of_file):
        found = Evaluation(
            judge="model:j",
            criteria={
                "answer": CriterionResult.of_facts(
                    [
                        FactOutcome("It is red.", "pass", ""),
                        FactOutcome("It is big.", "fail", "small"),
                    ]
                ),
                "effort": CriterionResult("not_asked", "decided without it"),
            },
            blocking=BlockingResult.of(False, "no wall"),
        )
        verdict = EpisodeVerdict(
            reward=0.0,
            evaluation=found.verdict().evaluation,
            keypoint_step_ids=(0, 2),
            judgments={0: "shows it", 1: "empty"},
        )
        judged = trajectory(step(), step(), step("answer")).judged(verdict)
        assert section(opened(judged).view(), "Judge") == {
            "judge": "model:j",
            "answer": "fail: small\npass: It is red.\nfail: It is big. (small)",
            "effort": "not_asked: decided without it",
            "blocking": "open: no wall",
            "screenshots judged": "step 1, step 3",
            "step 1": "shows it",
            "step 2": "empty",
        }


def test_a_verdict_of_another_form_is_shown_as_it_is() -> None:
    for opened in (of_journal, of_file):
        shown = section(opened(trajectory(full_step())).view(), "Judge")
        assert shown["judge"] == "truth"
        assert '"passed": false' in shown["criteria"]


def test_the_task_and_the_run_are_reported() -> None:
    for opened in (of_journal, of_file):
        row = {
            "task_name": "Buy",
            "website": "w",
            "domain": "Shopping",
            "evaluator_reference": [{"description": "d", "facts": ["one", "two"]}],
            "definite_answer": None,
            "own": {"a": 1},
        }
        view = opened(full_trajectory(task=msgspec.Raw(msgspec.json.encode(row)))).view()
        assert section(view, "Task") == {
            "website": "w",
            "domain": "Shopping",
            "rubric": "one\ntwo",
            "own": '{"a": 1}',
        }
        run = section(view, "Run")
        assert (run["model"], run["ending"], run["max_steps"]) == ("policy", "answer", "20")
        assert (run["trajectory_index"], run["repeat"], run["attempt"]) == ("3", "1", "2")


def test_the_usage_is_that_of_all_steps() -> None:
    for opened in (of_journal, of_file):
        assert opened(full_trajectory()).view().usage == {
            "input_tokens": 10,
            "output_tokens": 20,
            "cached_tokens": 3,
            "reasoning_tokens": 4,
        }


def test_a_failure_is_reported_with_what_its_kind_means() -> None:
    for document in (
        TRAJECTORIES.document(failed(full_trajectory()), Shelf()),
        TORCH.document(failed_fragment(full_trajectory()), Shelf()),
    ):
        failure = document.view().failure
        assert failure is not None
        assert (failure.kind, failure.meaning) == ("browser", "the browser session was lost")
        assert msgspec.json.decode(document.raw(failure.detail.path)) == "the browser 17 died"


def test_a_rollout_that_left_nothing_can_be_looked_at() -> None:
    document = TRAJECTORIES.document(failed(), Shelf(row=Row.of({"task_name": "Buy"})))
    view = document.view()
    assert (view.title, view.steps, view.turns) == ("Buy", 0, 0)
    assert view.timeline is None
    assert msgspec.json.decode(document.row())["failure"]["kind"] == "browser"


def test_an_omitted_rollout_says_why() -> None:
    document = TRAJECTORIES.document(line(Omitted(OmitReason.STRAGGLER, "enough")), Shelf())
    assert section(document.view(), "Run")["omitted"] == "straggler: enough"
    assert msgspec.json.decode(document.row())["reward"] is None


def test_a_step_that_cannot_be_read_says_so_and_the_others_are_shown() -> None:
    record = completed(trajectory(step("first"), step("second")))
    document = TRAJECTORIES.document(
        without_checksums(record).replace(b'"title":"Shop"', b'"title":7', 1), Shelf()
    )
    broken, whole = document.steps(0, 5)
    assert broken.problem.startswith("cannot read this step: Expected `str`, got `int`")
    assert whole.action_key == "second"
    assert document.turns(0, 4)[1].parts == (
        Text(broken.problem, len(broken.problem), broken.path),
    )
    assert document.find("shop") == ([2], [1])
    assert document.view().steps == 2


def test_the_row_is_the_same_from_either_form() -> None:
    for opened in (of_journal, of_file):
        row = msgspec.json.decode(opened(full_trajectory()).row())
        assert (row["reward"], row["_ng_task_index"]) == (1.0, 3)
        assert row["output"][0]["content"][1]["image_url"]["url"] == FILE


def test_no_picture_is_in_the_record() -> None:
    for opened in (of_journal, of_file):
        with pytest.raises(KeyError):
            opened(full_trajectory()).image("/steps/0")


def test_a_pointer_to_nothing_is_rejected() -> None:
    for opened in (of_journal, of_file):
        for path in ["/nothing", "steps", "/steps/99999", "/steps/-1"]:
            with pytest.raises(KeyError):
                opened(full_trajectory()).raw(path)


def test_a_long_reply_is_cut_and_says_how_long_it_is() -> None:
    for opened in (of_journal, of_file):
        (shown,) = opened(trajectory(step(said="x" * 30_000))).steps(0, 1)
        assert shown.response is not None
        assert (len(shown.response.text), shown.response.size) == (20_000, 30_000)


def test_a_trajectory_of_many_steps_gives_a_few_at_once() -> None:
    for opened in (of_journal, of_file):
        document = opened(trajectory(*(step() for _ in range(1_000))))
        assert len(document.steps(900, 1_000)) == 50
        assert len(document.turns(0, 1_000)) == 100


def test_what_is_reported_of_a_trajectory_of_many_steps_is_bounded() -> None:
    view = of_journal(trajectory(*(full_step() for _ in range(2_100)))).view()
    assert view.timeline is not None
    assert len(view.timeline.spans) == MOST_SPANS
    assert view.timeline.totals["model"] == pytest.approx(525.0)
    assert len(section(view, "Judge")) <= MOST_FIELDS


def test_what_a_field_points_to_is_in_the_record() -> None:
    for opened in (of_journal, of_file):
        document = opened(trajectory())
        for part in document.view().sections:
            for field in part.fields:
                if field.value.path:
                    assert document.raw(field.value.path)
