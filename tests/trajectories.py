"""Trajectories for tests, with everything in them or with just what a test is about."""

from typing import Any

import msgspec

from rollgym.records import Usage
from rollgym.records.tokens import TokenTurn
from rollgym.records.version import VersionPart
from webgym.browser.contract.answers import Box, CommandFailure, Incident, PageInfo
from webgym.trajectory.records import (
    ActionRecord,
    Image,
    Observation,
    ResponseRecord,
    RewardRecord,
    Step,
    StoredFile,
    Trajectory,
)

ROW = {"task_name": "Find the café", "website": "http://shop.test/", "difficulty": 2}
SCREENSHOT = Image("ab" * 32 + ".png", "image/png", 1280, 768)


def step(
    key: str | None = "click",
    *,
    said: str | None = "I click.",
    reward: float | None = 0.0,
    blocked: bool = False,
) -> Step:
    """A step with the few things that metrics look at."""
    return Step(
        observation=Observation(page=PageInfo("http://shop.test/", "Shop")),
        action=None if key is None else ActionRecord(key=key),
        response=None if said is None else ResponseRecord(raw_response=said),
        reward=RewardRecord(reward=reward, is_blocked=blocked),
    )


def trajectory(*steps: Step, **fields: Any) -> Trajectory:
    usual = {"task_id": "shop-1", "task": msgspec.Raw(msgspec.json.encode(ROW))}
    return Trajectory(**(usual | fields), steps=steps)


def steps_to(count: int, last: str | None = "answer", reward: float = 1.0) -> list[Step]:
    """`count` steps, of which the last is `last` and earns."""
    return [*(step() for _ in range(count - 1)), step(last, reward=reward)]


def full_step() -> Step:
    """A step in which nothing has its default value."""
    return Step(
        observation=Observation(
            screenshot=SCREENSHOT,
            page=PageInfo("http://shop.test/é", "Shop", scroll_y=20.5, status=200),
            tree="button 'Buy'",
            incidents=(Incident("dialog", "alert: hello"),),
            downloads=(StoredFile("menu.csv", "http://shop.test/menu", "ef" * 32 + ".csv", 12),),
            settled=False,
        ),
        action=ActionRecord(
            key="click",
            arguments={"coordinate": [500, 250.5], "nested": {"deep": [None, True]}},
            text="click (500, 250.5)",
            pixel=(640, 192),
            to_pixel=(10, 20),
            box=Box(1.0, 2.0, 3.0, 4.0),
            problem=CommandFailure("covered", "something is in the way"),
        ),
        response=ResponseRecord(
            raw_prompt=({"role": "user", "content": [{"type": "text", "text": "Task:"}]},),
            raw_response="Intention: buy \N{OGHAM SPACE MARK}\x00",
            fields={"memory": {"seen": 1}, "intention": "buy"},
            tolerances=("fenced",),
            parse_failure="none really",
            model="policy",
            finish_reason="stop",
            usage=Usage(10, 20, 3, 4),
            tokens=TokenTurn(after=0, keep=5, prompt="2AQA=", reason="prompt"),
            prompt_token_ids=(1, 2**40, 3),
            token_ids=tuple(range(300)),
            logprobs=(-0.5, 0.0, -1e-30),
            seconds=1.25,
            queued=0.25,
            first_token=0.5,
            start=0.75,
            version="8",
            version_parts=(VersionPart("7", 3), VersionPart("8")),
        ),
        reward=RewardRecord(
            reward=0.5,
            step_reward=0.25,
            evaluation={"judge": "truth", "criteria": [{"name": "A", "passed": False}]},
            is_blocked=True,
            submit=True,
            submission_judgment="shows the basket",
        ),
        same_as_next_screenshot=True,
        timings={"model": 0.25},
    )


def full_trajectory(**changes: Any) -> Trajectory:
    """A trajectory in which nothing has its default value."""
    fields: dict[str, Any] = {
        "trajectory_index": 3,
        "repeat": 1,
        "attempt": 2,
        "split": "test",
        "interaction_mode": "set_of_marks",
        "max_steps": 20,
        "model": "policy",
        "session": "visitor",
        "start_url": "http://shop.test/",
        "ending": "answer",
        "keypoint_step_ids": (0,),
        "judge_usage": Usage(30, 5),
        "final_page": full_step().observation,
        "recordings": {"har": "01" * 32 + ".har", "video": "23" * 32 + ".webp"},
    }
    return trajectory(full_step(), step("answer", reward=1.0), **(fields | changes))
