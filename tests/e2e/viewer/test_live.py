"""Runs that are still being made: views follow without a reload, and nothing jumps."""

import re
import time
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, expect

from rollgym.viewer import open_source
from rollgym.viewer.open_source import LiveCheck
from tests.e2e.viewer import population
from tests.e2e.viewer.population import line, populate
from tests.e2e.viewer.serving import PHONE, overflows, viewing, visiting
from webgym.monitor.snapshot import LiveTask, MonitorSnapshot, TaskState
from webgym.rollout.iteration import IterationPaths


def append(path: Path, *lines: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(lines))


def snapshot(
    ended: int,
    title: str = "train iteration 0",
    *,
    age: float = 0.0,
    finished: bool = False,
    named: bool = False,
) -> bytes:
    """A run of twelve, of which so many have succeeded, as it was `age` seconds ago.

    Where it is `named`, it says which rollouts its cells are of.
    """
    counts = {TaskState.SUCCESS: ended, TaskState.RUNNING: 2, TaskState.NOT_STARTED: 10 - ended}
    running = LiveTask(
        cell=ended, task=41, repeat=3, state=TaskState.RUNNING, phase="screenshot", step=7,
        seconds=95.0, phase_seconds=2.5, overdue=True, label="buy a kettle",
    )  # fmt: skip
    return msgspec.json.encode(
        MonitorSnapshot(
            title=title,
            time=time.time() - age,
            elapsed=300.0,
            finished=finished,
            expected=12,
            counts=counts,
            failures={"timeout": 4},
            retried=4,
            rollouts_per_minute=1.5,
            remaining_seconds=400.0,
            cells="+" * ended + ">>" + "." * (10 - ended),
            rollouts=tuple((task, 0) for task in range(ended + 2)) if named else (),
            live=(running,),
        )
    )


def write_ranks(folder: Path, *snapshots: bytes | None) -> Path:
    """The folder of a run with a monitor for each rank that has a snapshot."""
    whole = IterationPaths(folder / "shopping", "train", 0)
    for number, data in enumerate(snapshots):
        rank = whole.of_rank(number, len(snapshots))
        rank.run.mkdir(parents=True)
        (rank.run / "manifest.json").write_text("{}")
        if data is not None:
            rank.monitor.write_bytes(data)
    return whole.save_path


def test_the_overview_follows_a_file_that_grows(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    counts = populate(path, tasks=4)
    with viewing([path]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go("/s/rollouts/")
        numbers = page.get_by_role("region", name="Key figures")
        expect(numbers).to_contain_text(f"Rollouts{counts.rollouts}")
        append(path, line(4, 0), line(4, 1))
        expect(numbers).to_contain_text(f"Rollouts{counts.rollouts + 2}", timeout=10_000)
        expect(page.locator("header.top")).to_contain_text("live")


def test_the_list_says_that_there_are_new_ones_and_stays_where_it_is(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "rollouts.jsonl"
    counts = populate(path, tasks=20)
    with viewing([path]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go("/s/rollouts/rollouts?sort=task&order=desc")
        page.keyboard.press("j")
        chosen = page.locator(".row.is-selected")
        expect(chosen).to_have_attribute("aria-rowindex", "2")
        words = chosen.inner_text()
        places = [page.locator(".search"), page.get_by_role("button", name="Columns")]
        before = [place.bounding_box() for place in places]
        append(path, line(90, 0), line(91, 0), line(92, 0))
        fresh = page.get_by_role("button", name="Show 3 new rollouts")
        expect(fresh).to_be_visible(timeout=10_000)
        assert [place.bounding_box() for place in places] == before
        expect(chosen).to_have_text(re.compile(re.escape(words.split("\n")[-1])))
        expect(page.locator(".total")).to_have_text(f"{counts.rollouts} rollouts")
        fresh.click()
        expect(page.locator(".total")).to_have_text(f"{counts.rollouts + 3} rollouts")
        expect(page.locator(".row:not(.head)").first).to_contain_text("Task 92")
        # The row that was selected still is, wherever it went.
        expect(chosen).to_have_attribute("aria-rowindex", "5")


def test_the_grid_comes_from_the_index_where_no_monitor_watches(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "rollouts.jsonl"
    counts = populate(path, tasks=10)
    with viewing([path]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go("/s/rollouts/live")
        states = page.get_by_role("list", name="States")
        expect(states).to_contain_text(f"success{counts.successes}")
        expect(states).to_contain_text(f"failed{counts.failed}")
        squares = page.get_by_role("img", name=re.compile(f"^{counts.rollouts} squares: "))
        expect(squares).to_be_visible()
        page.locator(".cell-grid").hover(position={"x": 5, "y": 5})
        expect(page.locator(".tip")).to_have_text("rollout 0: no success")
        expect(page.get_by_role("heading", name="Running now")).to_have_count(0)
        states.get_by_role("link", name=re.compile("^failed")).click()
        page.wait_for_url("**/s/rollouts/rollouts?status=failed")


@pytest.mark.campaign
def test_a_square_leads_to_its_rollout_by_pointer_and_by_keys(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "rollouts.jsonl"
    populate(path, tasks=10)
    with viewing([path]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go("/s/rollouts/live")
        square = page.locator(".cell-link")
        expect(square).to_have_attribute("aria-label", "rollout 0: no success")
        page.locator(".cell-grid").hover(position={"x": 21 * 7 + 9, "y": 9})
        expect(page.locator(".tip")).to_have_text(re.compile("^rollout 7: "))
        expect(square).to_have_attribute("aria-label", re.compile("^rollout 7: "))
        page.locator(".cell-grid").click(position={"x": 21 * 7 + 9, "y": 9})
        expect(page.locator(".facts")).to_contain_text("task1repeat1")
        page.go_back()
        square.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expect(square).to_have_attribute("aria-label", re.compile("^rollout 2: "))
        expect(page.locator(".tip")).to_have_text(re.compile("^rollout 2: "))
        page.keyboard.press("Enter")
        expect(page.locator(".facts")).to_contain_text("task0repeat2")


def test_each_rank_has_its_grid_and_the_numbers_are_those_of_all(
    browser: Browser, tmp_path: Path
) -> None:
    path = write_ranks(tmp_path, snapshot(3, "rank 0"), snapshot(5, "rank 1"))
    with viewing([path]) as viewer, visiting(browser, viewer) as visit:
        (source,) = viewer.sources()
        page = visit.go(f"/s/{source}/live")
        boards = page.locator(".boards > section")
        for number, ended in enumerate((3, 5)):
            board = boards.nth(number)
            expect(board.get_by_role("heading")).to_have_text(f"rank {number}")
            expect(board.get_by_role("img", name=re.compile(f"{ended} success, "))).to_be_visible()
        numbers = page.locator(".live-numbers")
        expect(numbers).to_contain_text("Ended8 of 24")
        expect(numbers).to_contain_text("Running4")
        expect(numbers).to_contain_text("Rate3 / min")
        expect(page.get_by_role("list", name="States")).to_contain_text("success8")
        expect(page.locator(".running tbody tr")).to_have_count(2)
        # These monitors do not say which rollout a square is.
        expect(page.locator(".cell-link")).to_have_count(2)
        assert page.locator(".cell-link:visible").count() == 0


@pytest.mark.campaign
def test_a_rank_that_fell_silent_is_marked_and_runs_nothing(
    browser: Browser, tmp_path: Path
) -> None:
    path = write_ranks(tmp_path, snapshot(3, "rank 0"), snapshot(5, "rank 1", age=3600.0))
    with viewing([path]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go(f"/s/{viewer.sources()[0]}/live")
        headings = page.locator(".boards h3")
        expect(headings).to_have_text(["rank 0", re.compile("^rank 1 no updates since ")])
        numbers = page.locator(".live-numbers")
        expect(numbers).to_contain_text("Ended8 of 24")
        expect(numbers).to_contain_text("Running2")
        expect(numbers).to_contain_text("Rate1.5 / min")
        expect(page.locator(".running tbody tr")).to_have_count(1)


@pytest.mark.campaign
def test_a_rank_falls_silent_while_one_looks(browser: Browser, tmp_path: Path) -> None:
    path = write_ranks(
        tmp_path, snapshot(3, "rank 0", finished=True), snapshot(5, "rank 1", age=-600)
    )
    with viewing([path]) as viewer, visiting(browser, viewer) as visit:
        visit.page.clock.install()
        page = visit.go(f"/s/{viewer.sources()[0]}/live")
        heading = page.locator(".boards h3").last
        expect(heading).to_have_text("rank 1")
        page.clock.fast_forward(700_000)
        expect(heading).to_have_text(re.compile("^rank 1 no updates since "))


@pytest.mark.campaign
def test_a_run_goes_on_where_one_rank_is_finished_and_the_next_has_no_monitor_yet(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LiveCheck, "is_live", lambda _: True)
    path = write_ranks(tmp_path, snapshot(3, "rank 0", finished=True), None)
    with viewing([path]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go(f"/s/{viewer.sources()[0]}/live")
        note = page.locator(".page-head [role=status]")
        expect(note).to_have_text("Updates automatically.")
        expect(page.locator(".live-numbers")).to_contain_text("Ended3 of 12")


@pytest.mark.campaign
def test_squares_of_a_monitor_lead_to_their_rollouts_as_more_of_them_end(
    browser: Browser, tmp_path: Path
) -> None:
    path = write_ranks(tmp_path, snapshot(1, named=True))
    monitor = IterationPaths(path, "train", 0).monitor
    with viewing([path]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go(f"/s/{viewer.sources()[0]}/live")
        square = page.locator(".cell-link")
        expect(square).to_have_attribute("href", re.compile(r"\?task=0&repeat=0$"))
        replacement = monitor.with_suffix(".new")
        replacement.write_bytes(snapshot(9, named=True))
        with page.expect_response("**/monitor"):
            replacement.replace(monitor)
        expect(page.get_by_role("img", name=re.compile("9 success"))).to_be_visible()
        page.locator(".cell-grid").hover(position={"x": 21 * 8 + 9, "y": 9})
        expect(square).to_have_attribute("href", re.compile(r"\?task=8&repeat=0$"))


def test_the_task_monitor_is_shown_and_followed(browser: Browser, tmp_path: Path) -> None:
    paths = IterationPaths(tmp_path / "shopping", "train", 0)
    paths.run.mkdir(parents=True)
    (paths.run / "manifest.json").write_text("{}")
    paths.monitor.write_bytes(snapshot(3))
    with viewing([paths.save_path]) as viewer, visiting(browser, viewer, PHONE) as visit:
        (source,) = viewer.sources()
        page = visit.go(f"/s/{source}/live")
        expect(page.get_by_role("heading", name="Live: train iteration 0")).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("3 success, 2 running"))).to_be_visible()
        running = page.get_by_role("region", name="Running rollouts")
        expect(running).to_contain_text("41")
        expect(running).to_contain_text("screenshot")
        expect(running).to_contain_text("overdue")
        expect(page.get_by_role("region", name="Failed attempts")).to_contain_text("timeout4")
        assert not overflows(page)
        replacement = paths.monitor.with_suffix(".new")
        replacement.write_bytes(snapshot(8))
        replacement.replace(paths.monitor)
        grid = page.get_by_role("img", name=re.compile("8 success, 2 running"))
        expect(grid).to_be_visible(timeout=10_000)


@pytest.mark.campaign
def test_a_task_that_has_the_focus_keeps_it_while_the_file_grows(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "rollouts.jsonl"
    populate(path, tasks=4)
    with viewing([path]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go("/s/rollouts/tasks")
        cell = page.locator(".row[data-index='1'] .profile-cell").nth(2)
        cell.focus()
        append(path, line(4, 0))
        expect(page.locator(".total")).to_have_text("5 tasks", timeout=10_000)
        expect(cell).to_be_focused()


def test_a_view_that_found_no_server_comes_when_the_server_is_back(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "rollouts.jsonl"
    populate(path, tasks=4)
    with viewing([path]) as viewer, visiting(browser, viewer) as visit:
        for name in ("events", "s/rollouts/overview"):
            visit.page.route(f"**/api/{name}", lambda route: route.abort("connectionrefused"))
        page = visit.go("/s/rollouts/")
        expect(page.get_by_role("alert")).to_contain_text("Cannot reach the viewer's server")
        expect(page.locator("header.top")).to_contain_text("not connected")
        page.unroute_all()
        expect(page.get_by_role("region", name="Key figures")).to_be_visible(timeout=10_000)
        visit.problems.clear()  # the browser itself says which requests failed


@pytest.mark.campaign
def test_a_run_that_no_monitor_watches_has_its_pace_from_what_was_written(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rollouts.jsonl"
    monkeypatch.setattr(population, "STARTED", time.time() - 150)
    monkeypatch.setattr(open_source, "GROWING_SECONDS", 600.0)
    populate(path, tasks=4)
    with viewing([path]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go("/s/rollouts/live")
        numbers = page.locator(".live-numbers")
        expect(numbers).to_contain_text(re.compile(r"Elapsed\d+\smin.*Rate[\d.]+ / minTime left"))
        elapsed = numbers.locator("div", has_text="Elapsed").locator("dd")
        # Time goes on while nothing is written.
        expect(elapsed).not_to_have_text(elapsed.text_content() or "")
        expect(page.get_by_role("region", name="Running now")).to_have_count(0)
