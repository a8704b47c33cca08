"""The evaluator with a judge on a real socket."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from rollgym.records import VerifierError
from rollgym.servers.context import working_for
from tests.integration.webgym.models.episodes import PNG, episode
from tests.integration.webgym.models.judge_server import Behaviour, JudgeServer
from webgym.browser.contract.answers import Picture
from webgym.models.evaluator import Evaluator
from webgym.trajectory.records import EpisodeVerdict, Trajectory

T = TypeVar("T")
UNFINISHED = {"verdict": "not_asked", "reason": "the reward was decided before"}


def config(judge: JudgeServer, **more: Any) -> dict[str, Any]:
    return {"model": "judge", "base_url": judge.base_url, "max_retries": 0, **more}


def with_judge(
    folder: Path,
    act: Callable[[Evaluator, JudgeServer], Awaitable[T]],
    judge: JudgeServer | None = None,
    **more: Any,
) -> T:
    """Let an evaluator act with this judge, or with one that passes everything."""

    async def run() -> T:
        async with (
            judge or JudgeServer() as server,
            Evaluator(config(server, **more), folder, timeout=60) as evaluator,
        ):
            return await act(evaluator, server)

    return asyncio.run(run())


def judged(trajectory: Trajectory, folder: Path, judge: JudgeServer, **more: Any) -> EpisodeVerdict:
    return with_judge(folder, lambda evaluator, _: evaluator.evaluate(trajectory), judge, **more)


def criteria(verdict: EpisodeVerdict) -> dict[str, str]:
    found: Any = verdict.evaluation["criteria"]
    return {name: finding["verdict"] for name, finding in found.items()}


def told(*verdicts: tuple[str, str]) -> JudgeServer:
    judge = JudgeServer()
    judge.verdicts.update(verdicts)
    return judge


def test_an_episode_that_passes_everything_earns_the_reward(tmp_path: Path) -> None:
    judge = JudgeServer()
    verdict = judged(episode(tmp_path), tmp_path, judge)
    assert (verdict.reward, verdict.is_blocked) == (1.0, False)
    assert verdict.evaluation["judge"] == "model:judge"
    assert set(criteria(verdict).values()) == {"pass"}
    assert verdict.keypoint_step_ids == (0, 1)
    assert judge.kinds == {"reference": 1, "relevance": 1, "support": 1, "facts": 2}
    facts: Any = verdict.evaluation["criteria"]
    assert [fact["fact"] for fact in facts["criterion_a"]["facts"]] == [
        "The kettle was opened.",
        "It is steel.",
        "It holds 2 litres.",
    ]


def test_the_verdict_fits_into_the_trajectory_and_says_what_was_submitted(tmp_path: Path) -> None:
    trajectory = episode(tmp_path, pictures=("a", "a", "b"))
    verdict = judged(trajectory, tmp_path, told(("relevance", "0")))
    rewards = [step.reward for step in trajectory.judged(verdict).steps]
    assert [(each.reward, each.submit) for each in rewards if each] == [
        (0.0, False),
        (0.0, False),
        (1.0, True),
    ]
    assert rewards[0] is not None
    assert rewards[0].submission_judgment == "the same screenshot as at step 1"


def test_with_the_first_criterion_that_fails_the_reward_is_decided(tmp_path: Path) -> None:
    for failing, expected, asked in [
        ("reference", ["pass", "fail", "not_asked", "not_asked"], {"reference", "blocking"}),
        (
            "support",
            ["pass", "pass", "fail", "not_asked"],
            {"reference", "relevance", "support", "blocking"},
        ),
        (
            "facts",
            ["pass", "pass", "pass", "fail"],
            {"reference", "relevance", "support", "facts", "blocking"},
        ),
    ]:
        judge = told((failing, "fail"))
        verdict = judged(episode(tmp_path), tmp_path, judge)
        assert (verdict.reward, verdict.is_blocked) == (0.0, False)
        assert list(criteria(verdict).values()) == expected
        assert set(judge.kinds) == asked
        assert judge.kinds["facts"] <= 1  # the second group is not asked about any more


def test_an_answer_in_the_words_of_the_reference_is_not_asked_about(tmp_path: Path) -> None:
    judge = JudgeServer()
    verdict = judged(episode(tmp_path, answer="  2.0 LITRES "), tmp_path, judge)
    assert verdict.reward == 1.0
    assert "reference" not in judge.kinds


def test_a_task_without_reference_and_rubric_has_to_be_done(tmp_path: Path) -> None:
    row = {"task_name": "Buy it.", "website": "https://shop.test/", "definite_answer": None}
    judge = JudgeServer()
    verdict = judged(episode(tmp_path, row=row), tmp_path, judge)
    assert verdict.reward == 1.0
    assert criteria(verdict) == {"answer": "pass", "criterion_b": "pass", "criterion_a": "pass"}
    assert "The task was done, all of it." in judge.questions[-1].text


def test_without_an_answer_only_blocking_is_asked_about(tmp_path: Path) -> None:
    for answer, blocked in [(None, False), ("  \n", True)]:
        judge = JudgeServer(Behaviour.BLOCKED if blocked else Behaviour.PASS)
        verdict = judged(episode(tmp_path, answer=answer), tmp_path, judge)
        assert (verdict.reward, verdict.is_blocked) == (0.0, blocked)
        assert judge.kinds == {"blocking": 1}
        assert verdict.keypoint_step_ids == ()
        found: Any = verdict.evaluation["criteria"]
        assert found["criterion_a"] == found["criterion_b"] == UNFINISHED


def test_the_judge_sees_the_pictures_that_matter_and_no_others(tmp_path: Path) -> None:
    judge = told(("relevance", "3"))
    pictures = ("a", "b", "b", "c", "d", "e")
    verdict = judged(episode(tmp_path, pictures=pictures), tmp_path, judge, max_screenshots=3)
    assert verdict.keypoint_step_ids == (3, 4, 5)
    assert judge.kinds["relevance"] == 4
    (support,) = [each for each in judge.questions if each.kind == "support"]
    assert len(support.images) == len(set(support.images)) == 3
    assert judge.most_at_once <= 4


def test_each_purpose_has_its_model_and_is_asked_by_schema(tmp_path: Path) -> None:
    judge = told(("facts", "fail"))
    models = {"keypoint_detection": {"model": "eye", "max_tokens": 50}}
    judged(episode(tmp_path), tmp_path, judge, **models, blocking_detection={"model": "guard"})
    asked = {question.kind: question.body for question in judge.questions}
    assert {kind: body["model"] for kind, body in asked.items()} == {
        "reference": "judge",
        "relevance": "eye",
        "support": "judge",
        "facts": "judge",
        "blocking": "guard",
    }
    assert asked["relevance"]["max_tokens"] == 50
    assert asked["support"]["response_format"]["json_schema"]["strict"] is True


def test_a_judge_that_fails_once_is_asked_once_more(tmp_path: Path) -> None:
    for fault in [
        Behaviour.NONSENSE,
        Behaviour.EMPTY_OBJECT,
        Behaviour.TRUNCATED,
        Behaviour.RATE_LIMIT,
        Behaviour.ERROR,
    ]:
        judge = JudgeServer()
        judge.script.append(fault)
        verdict = judged(episode(tmp_path, pictures=("a",)), tmp_path, judge)
        assert verdict.reward == 1.0
        assert judge.kinds["reference"] == 2


def test_a_judge_that_was_cut_off_gets_more_room_and_hears_why(tmp_path: Path) -> None:
    judge = JudgeServer()
    judge.script.append(Behaviour.TRUNCATED)
    judged(episode(tmp_path, pictures=("a",)), tmp_path, judge, max_tokens=300)
    first, second = judge.questions[:2]
    assert (first.body["max_tokens"], second.body["max_tokens"]) == (300, 600)
    assert "cut off" in second.body["messages"][-1]["content"]


def test_a_judge_that_keeps_failing_is_a_failure_that_may_be_tried_again_and_no_reward(
    tmp_path: Path,
) -> None:
    for fault, complaint in [
        (Behaviour.NONSENSE, "it begins 'I think that this is a SUCCESS"),
        (Behaviour.EMPTY_OBJECT, "missing required field `reason`"),
        (Behaviour.TRUNCATED, "it was cut off"),
        (Behaviour.RATE_LIMIT, "answered 429"),
        (Behaviour.ERROR, "answered 500: the judge is ill"),
        (Behaviour.HANG, "got no response"),
    ]:
        judge = JudgeServer(fault)
        timeout = 0.3 if fault is Behaviour.HANG else 60
        with pytest.raises(VerifierError) as caught:
            judged(episode(tmp_path), tmp_path, judge, timeout=timeout)
        assert "the judge judge gave no usable reply for evaluation" in str(caught.value)
        assert complaint in str(caught.value)
        assert caught.value.retryable is not False
        assert judge.kinds == {"reference": 2}


def test_a_rejected_key_is_not_tried_again_and_says_what_to_check(tmp_path: Path) -> None:
    judge = JudgeServer(Behaviour.UNAUTHORIZED)
    with pytest.raises(VerifierError, match="check openai_config.openai_api_key_env_var") as caught:
        judged(episode(tmp_path), tmp_path, judge)
    assert caught.value.retryable is False
    assert len(judge.questions) == 1


def test_an_endpoint_that_takes_no_schema_is_asked_in_words_from_then_on(tmp_path: Path) -> None:
    judge = JudgeServer(Behaviour.NO_SCHEMA)
    verdict = judged(episode(tmp_path, pictures=("a",)), tmp_path, judge)
    assert verdict.reward == 1.0
    with_schema = ["response_format" in question.body for question in judge.questions]
    assert with_schema == [True, False, False, False, False]


def test_one_relevance_that_cannot_be_had_spoils_the_evaluation(tmp_path: Path) -> None:
    judge = told(("relevance", "7"))
    with pytest.raises(VerifierError, match="keypoint_detection"):
        judged(episode(tmp_path, pictures=("a", "b", "c", "d")), tmp_path, judge)


def test_the_deadline_of_the_rollout_ends_an_evaluation(tmp_path: Path) -> None:
    async def act(evaluator: Evaluator, _: JudgeServer) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        with working_for("1/0", began + 0.4), pytest.raises(VerifierError):
            await evaluator.evaluate(episode(tmp_path))
        return loop.time() - began

    assert with_judge(tmp_path, act, JudgeServer(Behaviour.HANG)) < 30


def test_so_many_episodes_are_judged_at_a_time(tmp_path: Path) -> None:
    async def act(evaluator: Evaluator, judge: JudgeServer) -> int:
        evaluator.evaluation_workers = 2
        trajectory = episode(tmp_path, pictures=("a",))
        await asyncio.gather(*(evaluator.evaluate(trajectory) for _ in range(8)))
        return judge.most_at_once

    assert with_judge(tmp_path, act) <= 2


def test_an_evaluation_without_a_slot_names_the_setting(tmp_path: Path) -> None:
    async def act(evaluator: Evaluator, _: JudgeServer) -> tuple[str, str]:
        evaluator.evaluation_workers = 1
        trajectory = episode(tmp_path)

        async def failure(seconds: float) -> str:
            with working_for("1/0", asyncio.get_running_loop().time() + seconds):
                with pytest.raises(VerifierError) as caught:
                    await evaluator.evaluate(trajectory)
                return str(caught.value)

        return await asyncio.gather(failure(2.0), failure(0.3))

    first, second = with_judge(tmp_path, act, JudgeServer(Behaviour.HANG))
    assert "the judge judge gave no usable reply" in first
    assert "no evaluation slot was free" in second


def test_blocking_is_seen_in_an_episode_and_in_one_picture(tmp_path: Path) -> None:
    trajectory = episode(tmp_path, pictures=("a", "b", "c", "d"))

    async def act(evaluator: Evaluator, judge: JudgeServer) -> tuple[bool, bool]:
        in_episode = await evaluator.check_blocked(trajectory)
        assert [len(question.images) for question in judge.questions] == [3]
        in_picture = await evaluator.screenshot_is_blocked(Picture("image/png", PNG))
        assert judge.questions[-1].images == ("data:image/png;base64,iVBORw0KGgo=",)
        return in_episode, in_picture

    assert with_judge(tmp_path, act, JudgeServer(Behaviour.PASS)) == (False, False)
    assert with_judge(tmp_path, act, JudgeServer(Behaviour.BLOCKED)) == (True, True)


def test_an_episode_that_ended_at_a_wall_is_not_asked_about(tmp_path: Path) -> None:
    judge = JudgeServer()
    verdict = judged(episode(tmp_path, answer=None, ending="blocked"), tmp_path, judge)
    assert (verdict.reward, verdict.is_blocked) == (0.0, True)
    assert not judge.questions


def test_a_missing_or_changed_screenshot_is_an_error(tmp_path: Path) -> None:
    trajectory = episode(tmp_path, pictures=("a",))
    (picture,) = (tmp_path / "screenshots").rglob("*.png")
    picture.write_bytes(b"another")
    with pytest.raises(VerifierError, match="the screenshot of step 0 cannot be read"):
        judged(trajectory, tmp_path, JudgeServer())


def test_an_episode_without_screenshots_cannot_be_judged(tmp_path: Path) -> None:
    seen = episode(tmp_path, pictures=("a",))
    step = seen.steps[0]
    blind = Trajectory(
        task_id="kettle",
        task=seen.task,
        steps=(type(step)(observation=type(step.observation)(page=step.observation.page),
                          action=step.action),),
    )  # fmt: skip
    with pytest.raises(VerifierError, match="needs screenshots") as caught:
        judged(blind, tmp_path, JudgeServer())
    assert caught.value.retryable is False


def test_without_a_judge_a_task_that_needs_one_says_what_to_configure(tmp_path: Path) -> None:
    with Evaluator(None, tmp_path) as evaluator:
        with pytest.raises(VerifierError, match="set openai_config.model") as caught:
            evaluator.get_verifiable_reward(episode(tmp_path))
        assert caught.value.retryable is False
        with pytest.raises(VerifierError, match="openai_config"):
            evaluator.check_if_blocked(episode(tmp_path))
