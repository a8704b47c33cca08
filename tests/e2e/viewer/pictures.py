"""The pictures of the documentation: every view of the viewer, light and dark.

    python -m tests.e2e.viewer.pictures FOLDER

docs/images has those that a page shows.
They are made from real output: that of the demo, of more of its collections, and of web rollouts
whose judge fails. Where that is too small to look like something, the runs are generated: two
checkpoints of 80 tasks, and the monitor of a run of 480 rollouts. Paths are relative, so no picture
has one of this machine.
"""

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
from playwright.sync_api import Browser, Page, expect

from tests.e2e.command import finish
from tests.e2e.rolling import Rollout, judge, judged, number_task, stage, write_tasks
from tests.e2e.viewer.demo_output import (
    AGENT,
    COMMANDS,
    SKILL,
    Demo,
    aimed,
    play_demo,
    start,
    steps_of,
)
from tests.e2e.viewer.looking import entries, loaded
from tests.e2e.viewer.population import REPEATS, line, populate
from tests.e2e.viewer.serving import LAPTOP, PHONE, Theme, Viewer, chromium, viewing, visiting
from webgym.monitor.snapshot import LiveTask, MonitorSnapshot, TaskState
from webgym.rollout.iteration import IterationPaths
from webgym.sites.tasks.task import load_tasks

RESULTS = Path("results")
AGENT_SETTINGS = "+example_multi_step_simple_agent.responses_api_agents.simple_agent.max_steps"
THEMES: tuple[Theme, ...] = ("light", "dark")
LARGEST = 250_000
SETTLED_MS = 700
COLLECTIONS = {
    "weaker_model": (f"{SKILL}=0.3", "+responses_create_params.max_output_tokens=4096"),
    "short_episodes": ("+responses_create_params.max_output_tokens=4096", f"{AGENT_SETTINGS}=4"),
    "checkpoint-300": (
        *("+num_repeats=48", "+num_samples_in_parallel=12"),
        "+policy_model.responses_api_models.scripted_model.latency=0.05",
    ),
}
"""Of the tool agent, less those of the demo: what each has of its own."""
TASKS = 80
MOVING = 480
RUNNING = 24


class Shot(NamedTuple):
    """A view: its name, the sources that are open, where it is, and what is done there first."""

    name: str
    paths: Sequence[str]
    address: Callable[[Viewer], str]
    prepare: Callable[[Page], None] = lambda _: None


def make_pictures(folder: Path) -> None:
    """Every picture, into a folder."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, contextlib.chdir(made), chromium() as browser:
        demo = play_demo(Path())
        make_others()
        for shot in shots(demo):
            with viewing([RESULTS / name for name in shot.paths]) as viewer:
                take(browser, viewer, shot, folder)


def take(browser: Browser, viewer: Viewer, shot: Shot, folder: Path) -> None:
    for theme in THEMES:
        one(browser, viewer, shot, theme, LAPTOP, folder / f"viewer-{shot.name}-{theme}.png")
    if shot.name in {"web", "list"}:
        one(browser, viewer, shot, "light", PHONE, folder / f"viewer-{shot.name}-phone.png")


def one(
    browser: Browser, viewer: Viewer, shot: Shot, theme: Theme, size: tuple[int, int], path: Path
) -> None:
    with visiting(browser, viewer, size, theme) as visit:
        page = visit.go(shot.address(viewer))
        shot.prepare(page)
        page.wait_for_timeout(SETTLED_MS)
        page.screenshot(path=path)
    assert path.stat().st_size < LARGEST, f"{path.name} is too large"


def make_others() -> None:
    """What the demo does not have."""
    populate(RESULTS / "checkpoint-100.jsonl", tasks=TASKS)
    write_later_checkpoint(RESULTS / "checkpoint-200.jsonl")
    write_monitor(RESULTS / "shopping")
    for name, changes in COLLECTIONS.items():
        output = f"+output_jsonl_fpath={RESULTS}/{name}.jsonl"
        changed = {change.partition("=")[0] for change in changes}
        usual = [word for word in AGENT[1:] if word.partition("=")[0] not in changed]
        ended = finish(start(Path(), COMMANDS / AGENT[0], *usual, *changes, output))
        assert ended.status == 0, ended.stderr
    roll_out_with_an_ill_judge(RESULTS / "ill_judge")


def roll_out_with_an_ill_judge(folder: Path) -> None:
    """A web rollout that fails, twice."""
    servers = Path("servers").resolve()
    servers.mkdir()
    with stage(servers) as found, judge(servers, "nonsense") as judging:
        options = [option.replace("model=judge", "model=judge-1") for option in judging]
        tasks = write_tasks(servers, [judged(number_task(7, slowly=True))])
        ended = Rollout(found, folder, *tasks, *options, "env_config.max_retries=1").end()
    assert "1 failed" in ended.coverage, ended.stderr


def write_later_checkpoint(path: Path) -> None:
    """Better at most tasks than the one before it, and worse at some."""
    chance = Random(4)
    with path.open("wb") as file:
        for task in range(TASKS):
            skill = chance.uniform(0.35, 1.15)
            for repeat in range(REPEATS):
                reward = min(10, max(0, round(10 * chance.gauss(skill, 0.25)))) / 10
                file.write(line(task, repeat, reward))


def write_monitor(folder: Path) -> None:
    """A run of many rollouts, halfway."""
    paths = IterationPaths(folder, "train", 3)
    paths.run.mkdir(parents=True)
    (paths.run / "manifest.json").write_text("{}")
    states = list(moving_states())
    names = [task.task_name for task in load_tasks("train")]
    phases = ("model", "screenshot", "execute", "model", "navigate")
    running = [cell for cell, state in enumerate(states) if state is TaskState.RUNNING]
    live = tuple(
        LiveTask(
            cell=cell,
            task=cell // 4,
            repeat=cell % 4,
            state=TaskState.RUNNING,
            phase=phases[at % len(phases)],
            step=3 + 7 * at % 19,
            seconds=96.0 - 3.7 * at,
            phase_seconds=0.4 + at % 5,
            label=names[at % len(names)],
        )
        for at, cell in enumerate(running)
    )
    counts = {state: states.count(state) for state in TaskState}
    snapshot = MonitorSnapshot(
        title="train iteration 3", time=time.time() + 600, elapsed=1_810.0, expected=MOVING,
        counts=counts, failures={"timeout": 9, "browser": 4, "model_rate_limit": 21}, retried=30,
        in_flight_limit=RUNNING, steps=3_642, rollouts_per_minute=9.4, remaining_seconds=1_240.0,
        cells="".join(state.mark for state in states), live=live,
    )  # fmt: skip
    paths.monitor.write_bytes(msgspec.json.encode(snapshot))


def moving_states() -> Iterator[TaskState]:
    """Of the rollouts of a run, the first of which have ended."""
    chance = Random(3)
    ends = (TaskState.SUCCESS, TaskState.FAILURE, TaskState.BLOCKED, TaskState.FAILED)
    ended = round(MOVING * 0.58)
    yield from chance.choices(ends, (70, 22, 4, 4), k=ended)
    yield from [TaskState.RUNNING] * RUNNING
    yield from [TaskState.NOT_STARTED] * (MOVING - ended - RUNNING)


def shots(demo: Demo) -> Iterator[Shot]:
    web = demo.iteration.paths.save_path.name
    before, after = "checkpoint-100", "checkpoint-200"
    agents = ("weaker_model", "short_episodes", "demo_multi_step_rollouts", "better_model")
    wanted = "q=Lisbon&max_steps=4&sort=seconds&order=desc"
    yield Shot("runs", [f"{name}.jsonl" for name in agents], lambda _: "/")
    yield Shot("overview", ("checkpoint-300.jsonl",), lambda _: "/s/checkpoint-300/", charts_drawn)
    yield Shot("tasks", (f"{before}.jsonl",), lambda _: f"/s/{before}/tasks?sort=spread&order=desc")
    yield Shot("list", (f"{before}.jsonl",), lambda _: f"/s/{before}/rollouts?{wanted}")
    yield Shot("rollout", ("demo_multi_step_rollouts.jsonl",), telling_rollout)
    yield Shot("web", (web,), lambda viewer: typed(viewer, demo), pictures_loaded)
    yield Shot(
        "repeats",
        ("demo_multi_step_rollouts.jsonl",),
        lambda _: "/s/demo_multi_step_rollouts/tasks/3",
    )
    both = (f"{before}.jsonl", f"{after}.jsonl")
    yield Shot("joined", both, lambda _: f"/compare?left={before}&right={after}")
    yield Shot("live", ("shopping",), lambda _: "/s/shopping-train-3/live")
    yield Shot("failure", ("ill_judge",), failed, pictures_loaded)


def telling_rollout(viewer: Viewer) -> str:
    """Of the tool agent: one that searched a few times and found what it looked for."""
    source = "demo_multi_step_rollouts"
    found = entries(viewer, source, "success=true&sort=steps&order=desc")
    return f"/s/{source}/rollouts/{found[0]['id']}?turn=2"


def typed(viewer: Viewer, demo: Demo) -> str:
    """A step of a shop's task in which something was typed."""
    line, step = next(
        (line, step)
        for line, step in aimed(demo.web_records, "type")
        if "/shop/" in steps_of(demo.web_records[line])[step]["observation"]["page"]["url"]
    )
    (source,) = viewer.sources()
    return f"/s/{source}/rollouts/0-{line + 1}?step={step + 1}"


def failed(viewer: Viewer) -> str:
    (source,) = viewer.sources()
    (entry,) = entries(viewer, source, "status=failed")
    return f"/s/{source}/rollouts/{entry['id']}"


def charts_drawn(page: Page) -> None:
    expect(page.locator(".chart svg").nth(5)).to_be_visible()


def pictures_loaded(page: Page) -> None:
    for picture in page.locator(".film .frame img, .shot-picture img").all():
        loaded(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description="make the pictures of the viewer's documentation")
    parser.add_argument("folder", type=Path, help="where they are written, as docs/images")
    make_pictures(parser.parse_args().folder)


if __name__ == "__main__":
    main()
