"""Every view over the real output of the demo, in a real browser.

What is shown is compared with what the demo's commands printed, and with what is in their files.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from rollgym.viewer.openers import open_sources
from tests.builders import read_json_lines
from tests.e2e.command import Ended, rollgym
from tests.e2e.rolling import Record
from tests.e2e.viewer.demo_output import (
    AGENT,
    AGENT_OUTPUT,
    SCRIPT,
    WEB,
    Demo,
    aimed,
    play_demo,
    steps_of,
)
from tests.e2e.viewer.looking import SCREENSHOT, centre, counted, loaded, number, share, total
from tests.e2e.viewer.serving import Viewer, Visit, viewing, visiting

pytestmark = pytest.mark.campaign  # every view over the output of the demo

PUZZLE_RUN, AGENT_RUN, BETTER_RUN = "/s/demo", "/s/demo_multi_step_rollouts", "/s/better_model"
WEB_RUN = "/s/demo_web-train-0"
PIXEL = 0.002
"""How far from its place a mark may be, in fractions of the screenshot."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return play_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def viewer(demo: Demo) -> Iterator[Viewer]:
    with viewing([demo.results]) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, viewer: Viewer) -> Iterator[Visit]:
    with visiting(browser, viewer) as started:
        started.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield started


def printed(demo: Demo) -> dict[str, Ended]:
    """What the commands said, by the source that shows it."""
    return {
        PUZZLE_RUN: demo.puzzles,
        AGENT_RUN: demo.agent,
        BETTER_RUN: demo.better,
        WEB_RUN: demo.web,
    }


def coverage(ended: Ended) -> dict[str, int]:
    """Of the line that adds up, by its words."""
    return {name: int(count) for count, name in re.findall(r"(\d+) (\w+)", ended.coverage)}


def line_of(rows: list[Record], task: int, repeat: int = 0) -> int:
    """The number of a rollout's line, from 1."""
    keys = [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows]
    return keys.index((task, repeat)) + 1


def turn(page: Page, number: int) -> Locator:
    return page.locator(f"article[data-turn='{number}']")


def test_the_commands_are_those_of_the_demo() -> None:
    script = re.sub(r"\s*\\\n\s*", " ", SCRIPT.read_text())
    shown = [
        line.replace('"', "") for line in script.splitlines() if line.strip().startswith("show ")
    ]
    assert all(word in shown[0].split() for word in (*AGENT[:4], AGENT_OUTPUT))
    assert "/" + " ".join(WEB) in shown[1]


def test_the_folder_holds_these_runs(demo: Demo) -> None:
    ids = [source.id for source in open_sources([demo.results])]
    assert [f"/s/{identity}" for identity in ids] == sorted(printed(demo))


def test_runs_have_the_numbers_that_their_commands_printed(visit: Visit, demo: Demo) -> None:
    page = visit.go("/")
    rows = page.get_by_role("region", name="Runs").locator("tbody tr")
    expect(rows).to_have_count(4)
    for path, ended in printed(demo).items():
        row = rows.filter(has=page.locator(f"a[href='{path}/']"))
        rollouts, reward, success = row.locator("td.number").all_inner_texts()
        expected = coverage(ended)
        assert rollouts.split() == [str(expected["completed"]), "/", str(expected["expected"])]
        assert share(success) == pytest.approx(ended.headline["success_rate"], abs=0.005)
        if "avg_reward" in ended.headline:
            assert float(reward) == pytest.approx(ended.headline["avg_reward"], abs=0.001)
        words = row.get_by_role("img").get_attribute("aria-label") or ""
        assert words.startswith(f"Coverage: completed: {expected['completed']} ")


def test_configurations_are_constants_and_differences(visit: Visit, demo: Demo) -> None:
    page = visit.go(f"/configuration?source={AGENT_RUN[3:]}&source={BETTER_RUN[3:]}")
    differences = page.get_by_role("region", name="Different settings").locator("tbody tr")
    expect(differences).to_have_count(1)
    expect(differences.first).to_contain_text("scripted_model.skill")
    expect(differences.locator("td")).to_have_text(["0.7", "1.0"])
    page.get_by_text("Equal settings").click()
    same = page.locator(".constants dl > div")
    stored = json.loads((demo.results / "better_model.run/manifest.json").read_bytes())
    assert same.count() >= len(stored["identity"]["config"]) - 1
    expect(same.filter(has_text="max_output_tokens")).to_contain_text("8192")


@pytest.mark.parametrize("path", [PUZZLE_RUN, AGENT_RUN, BETTER_RUN, WEB_RUN])
def test_the_overview_says_what_the_command_printed(visit: Visit, demo: Demo, path: str) -> None:
    ended = printed(demo)[path]
    page = visit.go(f"{path}/")
    numbers = page.get_by_role("region", name="Key figures")
    tiles = numbers.locator(".tile-value")
    expect(tiles).to_have_count(3)
    rollouts, mean, success = tiles.all_inner_texts()
    expected = coverage(ended)
    assert number(rollouts) == expected["completed"] + expected["failed"] + expected["omitted"]
    expect(numbers).to_contain_text(f"of {expected['expected']} expected")
    for name in ("completed", "failed", "omitted", "unresolved"):
        part = numbers.get_by_role("list", name="Coverage").get_by_role("listitem")
        expect(part.filter(has_text=name)).to_have_text(f"{name}{expected[name]}")
    headline = ended.headline
    assert share(success) == pytest.approx(headline["success_rate"], abs=0.005)
    assert float(mean) == pytest.approx(headline.get("avg_reward", float(mean)), abs=0.001)
    for name in (each for each in headline if each.startswith("pass@")):
        bar = page.get_by_role("img", name=re.compile(rf"^{name}: "))
        assert share(bar.get_attribute("aria-label")) == pytest.approx(headline[name], abs=0.005)


def test_the_numbers_say_that_blocked_rollouts_have_a_reward_and_were_not_judged(
    visit: Visit, demo: Demo
) -> None:
    counts = json.loads(demo.iteration.paths.monitor.read_bytes())["counts"]
    judged = counts["success"] + counts["failure"]
    assert counts["blocked"]
    numbers = visit.go(f"{WEB_RUN}/").get_by_role("region", name="Key figures")
    expect(numbers).to_contain_text(f"of {judged + counts['blocked']}: from 0 to 1")
    words = f"{counts['success']} of {judged} judged, {counts['blocked']} not judged"
    expect(numbers).to_contain_text(words)


def test_pass_at_k_is_that_of_the_aggregate_metrics(viewer: Viewer, demo: Demo) -> None:
    overview = viewer.json(f"/api{AGENT_RUN}/overview")
    assert overview["mean_reward"] == pytest.approx(demo.agent_metrics["mean/reward"])
    assert overview["success_rate"] == pytest.approx(demo.agent_metrics["mean/success"])
    shown = {f"pass@{each['k']}/accuracy": 100 * each["value"] for each in overview["pass_at"]}
    assert shown == pytest.approx(
        {name: value for name, value in demo.agent_metrics.items() if name in shown}
    )
    assert len(shown) == 2


@pytest.mark.parametrize(
    ("path", "titles"),
    [
        (PUZZLE_RUN, ("Reward", "Steps")),
        (AGENT_RUN, ("Reward", "Tool calls", "Tokens")),
        (WEB_RUN, ("Reward", "Success over time")),
    ],
    ids=["puzzles", "agent", "web"],
)
def test_every_bar_leads_to_exactly_the_rollouts_that_it_counts(
    visit: Visit, path: str, titles: tuple[str, ...]
) -> None:
    page = visit.go(f"{path}/")
    bars = page.get_by_role("group", name=re.compile(f"^({'|'.join(titles)})$")).get_by_role("link")
    expect(bars.first).to_be_visible()
    names = [bar.get_attribute("aria-label") or "" for bar in bars.all()]
    assert len(names) > len(titles)
    for at, name in enumerate(names):
        if not counted(name):
            continue
        bars.nth(at).click()
        page.wait_for_url(f"**{path}/rollouts?*")
        assert total(page) == counted(name), name
        page.go_back()
        expect(bars.nth(at)).to_be_visible()


def test_failures_are_ranked_by_kind_and_grouped_by_cause(visit: Visit, demo: Demo) -> None:
    (told,) = (line for line in demo.puzzles.lines if line.startswith("failed attempts: "))
    kinds = {kind: int(count) for count, kind in re.findall(r"(\d+) x (\w+)", told)}
    page = visit.go(f"{PUZZLE_RUN}/")
    panel = page.get_by_role("region", name="Failures by kind").get_by_role("listitem")
    expect(panel).to_have_count(len(kinds))
    for kind, count in kinds.items():
        one = panel.filter(has_text=kind.replace("_", " "))
        expect(one.locator(".ranking-value")).to_have_text(str(count))
        one.get_by_role("link").click()
        assert total(page) == count
        page.go_back()
    causes = page.get_by_role("region", name="Failures by cause").locator("tbody tr")
    expect(causes).to_have_count(3)
    for at in range(3):
        count = number(causes.nth(at).locator("td").first.text_content())
        causes.nth(at).get_by_role("link").first.click()
        assert total(page) == count
        page.go_back()


def test_tasks_have_the_numbers_of_the_profile(visit: Visit, demo: Demo) -> None:
    profile = rollgym(demo.results, "profile", "demo", "--json").lines
    tasks = {row["task"]: row for row in map(json.loads, profile) if "task" in row}
    page = visit.go(f"{PUZZLE_RUN}/tasks")
    expect(page.locator(".total")).to_have_text(f"{len(tasks)} tasks")
    rows = page.locator(".row:not(.head)")
    expect(rows.first.locator(".profile-cell")).to_have_count(4)
    for index in range(8):
        row, expected = rows.nth(index), tasks[index]
        expect(row.locator(".task-number")).to_have_text(str(index))
        mean = float(row.locator(".task-mean").inner_text())
        assert mean == pytest.approx(expected["mean"], abs=0.001)
        expect(row.locator(".task-success")).to_have_text(f"{expected['successes']}/4")
        words = [cell.get_attribute("aria-label") for cell in row.locator("a.profile-cell").all()]
        rewards = [float((each or "").rpartition(" ")[2]) for each in words]
        assert fmean(rewards) == pytest.approx(expected["mean"], abs=0.001)


def test_a_cell_leads_to_its_repeat(visit: Visit) -> None:
    page = visit.go(f"{PUZZLE_RUN}/tasks")
    page.locator(".row:not(.head)").nth(3).locator(".profile-cell").nth(2).click()
    facts = page.locator(".facts")
    expect(facts).to_contain_text("task3")
    expect(facts).to_contain_text("repeat2")


def test_text_is_found_in_the_list_and_filtered_further(visit: Visit, demo: Demo) -> None:
    page = visit.go(f"{AGENT_RUN}/rollouts")
    assert total(page) == 10
    page.keyboard.press("/")
    page.keyboard.type("copper heron")
    holding = [row for row in demo.agent_rows if "copper heron" in json.dumps(row).lower()]
    expect(page.locator(".total")).to_have_text(f"{len(holding)} rollouts")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Reward").first.click()
    page.get_by_role("spinbutton", name="Reward, from").fill("0.5")
    page.keyboard.press("Tab")
    page.wait_for_url("**?q=copper+heron&min_reward=0.5")
    assert total(page) == len([row for row in holding if row["reward"] >= 0.5])


def test_the_list_is_sorted_and_its_address_reproduces_it(
    visit: Visit, browser: Browser, demo: Demo
) -> None:
    page = visit.go(f"{AGENT_RUN}/rollouts")
    page.get_by_role("columnheader", name="Tokens").get_by_role("button").click()
    page.wait_for_url("**?sort=tokens&order=desc")
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="searches").check()
    page.keyboard.press("Escape")
    page.get_by_role("grid").focus()
    for key in ("j", "ArrowDown", "k", "j", "j"):
        page.keyboard.press(key)
    page.wait_for_url("**sel=*")
    usage = [row["metadata"]["usage"] for row in demo.agent_rows]
    tokens = [each["input_tokens"] + each["output_tokens"] for each in usage]
    order = sorted(range(10), key=lambda at: -tokens[at])
    query = parse_qs(urlsplit(visit.path).query)
    assert query["sel"] == [f"0-{order[2] + 1}"]
    assert "field.searches" in query["cols"][0]
    shown = page.locator(".row.is-selected").inner_text()
    with visiting(browser, visit.viewer) as other:
        again = other.go(visit.path)
        expect(again.locator(".row.is-selected")).to_be_visible()
        assert again.locator(".row.is-selected").inner_text() == shown
        names = again.get_by_role("columnheader").all_inner_texts()
        assert "searches" in names
        at = names.index("searches")
        cells = again.locator(".row:not(.head)").locator(f"[role=gridcell]:nth-child({at + 1})")
        assert cells.all_inner_texts() == [str(demo.agent_rows[each]["searches"]) for each in order]


def test_a_rollout_of_the_tool_agent_is_shown_turn_by_turn(visit: Visit, demo: Demo) -> None:
    rows = demo.agent_rows
    line = line_of(rows, task=3)
    row = rows[line - 1]
    page = visit.go(f"{AGENT_RUN}/rollouts/0-{line}?turn=1")
    expect(page.locator(".transcript-title")).to_have_text(f"Transcript {len(row['output'])} turns")
    malformed = 0
    for at, item in enumerate(row["output"]):
        shown = page.locator(f"article[data-turn='{at}'].is-selected")
        expect(shown).to_be_in_viewport()
        check_turn(shown, item)
        malformed += shown.get_by_text("arguments are not JSON").count()
        page.keyboard.press("j")
    assert malformed == 1
    assert any(item.get("reasoning") for item in row["output"])
    verifier = page.locator("details.section").filter(
        has=page.get_by_role("heading", name="Verifier")
    )
    for name in ("verification_score", "extracted_answers", "missing_values", "searches"):
        title = page.get_by_text(name.replace("_", " "), exact=True)
        field = verifier.locator("dl.fields > div").filter(has=title)
        expect(field).to_contain_text(json.dumps(row[name])[:40])


def check_turn(shown: Locator, item: Record) -> None:
    """That a turn shows what its item of the conversation holds."""
    if item["role"] == "tool":
        expect(shown.locator(".turn-role")).to_have_text("Tool result")
        telling = max(re.split(r'[{}":\n]+', item["content"]), key=len)
        expect(shown.locator(".turn-body")).to_contain_text(telling)
        return
    expect(shown.locator(".turn-role")).to_have_text("Assistant")
    names = [call["function"]["name"] for call in item.get("tool_calls", ())]
    expect(shown.locator(".call-name")).to_have_text(names)
    if item.get("reasoning"):
        body = shown.locator(".reasoning .fold-body")
        expect(body).to_be_hidden()
        shown.locator(".reasoning summary").click()
        expect(body).to_have_text(item["reasoning"])


def test_bars_of_the_timeline_are_where_the_spans_say(visit: Visit, demo: Demo) -> None:
    row = demo.agent_rows[0]
    spans = row["metadata"]["spans"]
    page = visit.go(f"{AGENT_RUN}/rollouts/0-1")
    bars = page.locator(".lane-bar")
    expect(bars).to_have_count(len(spans))
    whole = max(row["metadata"]["seconds"], *(each["start"] + each["seconds"] for each in spans))
    places = {
        (round(float(bar.get_attribute("x") or -1)), round(float(bar.get_attribute("width") or -1)))
        for bar in bars.all()
    }
    narrowest = 1.5
    assert places == {
        (
            round(1000 * each["start"] / whole),
            round(max(narrowest, 1000 * each["seconds"] / whole)),
        )
        for each in spans
    }
    lanes = page.locator(".lane-name").all_inner_texts()
    assert [name for name in lanes if name] == list(dict.fromkeys(each["phase"] for each in spans))


def test_raw_json_is_that_of_the_file_and_texts_are_copied_whole(visit: Visit, demo: Demo) -> None:
    row = demo.agent_rows[0]
    page = visit.go(f"{AGENT_RUN}/rollouts/0-1?turn=3")
    page.locator("article[data-turn='2'].is-selected").wait_for()
    with page.expect_response("**/raw?*") as answered:
        page.keyboard.press("r")
    assert answered.value.json() == row["output"][2]
    raw = turn(page, 2).locator(".turn-raw")
    for name, value in row["output"][2].items():
        expect(raw).to_contain_text(f"{json.dumps(name)}: {json.dumps(value)}")
    turn(page, 2).locator(".turn-head").get_by_role("button", name="Copy").click()
    expect(turn(page, 2).get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == row["output"][2]["content"]
    page.get_by_role("button", name="Raw JSON").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download this JSON").click()
    (line, *_) = (demo.results / "demo_multi_step_rollouts.jsonl").read_bytes().splitlines()
    assert json.loads(download.value.path().read_bytes()) == json.loads(line)


def test_a_rollout_that_was_retried_has_all_its_attempts_with_their_causes(
    visit: Visit, demo: Demo
) -> None:
    records = read_json_lines(demo.results / "demo/journal.jsonl")
    tries: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at, record in enumerate(records):
        tries[record["task"], record["repeat"]].append(at)
    lines = max(tries.values(), key=len)
    assert len(lines) > 1
    page = visit.go(f"{PUZZLE_RUN}/rollouts/0-{lines[-1] + 1}")
    attempts = page.locator(".attempts tbody tr")
    expect(attempts).to_have_count(len(lines))
    expect(page.locator(".failure-box")).to_have_count(0)
    for at, line in enumerate(lines[:-1]):
        failure = records[line]["outcome"]["failure"]
        expect(attempts.nth(at)).to_contain_text(f"retried {failure['kind']}")
        expect(attempts.nth(at)).to_contain_text(failure["detail"])
    attempts.first.get_by_role("link").click()
    box = page.locator(".failure-box")
    failure = records[lines[0]]["outcome"]["failure"]
    expect(box).to_contain_text(f"Failed: {failure['kind']}")
    expect(box).to_contain_text(failure["detail"])
    expect(box).to_contain_text("It was retried.")


@pytest.mark.parametrize("key", ["click", "type", "select"])
def test_an_action_is_drawn_at_the_pixel_that_was_stored(
    visit: Visit, demo: Demo, key: str
) -> None:
    records = demo.web_records
    for line, at in list(aimed(records, key))[:4]:
        step = steps_of(records[line])[at]
        seen, action = step["observation"]["page"], step["action"]
        page = visit.go(f"{WEB_RUN}/rollouts/0-{line + 1}?step={at + 1}")
        loaded(page.locator(SCREENSHOT))
        x, y = action["pixel"]
        place = (x / seen["width"], y / seen["height"])
        assert centre(page.locator(".mark-dot")) == pytest.approx(place, abs=PIXEL)
        box = action["box"]
        middle = (
            (box["x"] + box["width"] / 2) / seen["width"],
            (box["y"] + box["height"] / 2) / seen["height"],
        )
        assert centre(page.locator(".mark-box .mark-line")) == pytest.approx(middle, abs=PIXEL)
        if key == "type":
            expect(page.locator(".mark-label")).to_have_text(action["arguments"]["text"])


def test_steps_of_a_web_rollout_are_walked_and_linked_to(
    visit: Visit, browser: Browser, demo: Demo
) -> None:
    records = demo.web_records
    line = max(range(len(records)), key=lambda at: len(steps_of(records[at])))
    steps = steps_of(records[line])
    page = visit.go(f"{WEB_RUN}/rollouts/0-{line + 1}")
    heading, frames = page.locator(".step-bar h2"), page.locator(".film .frame")
    for frame in frames.all():
        loaded(frame.locator("img"))
    for at in range(1, 4):
        page.keyboard.press("ArrowRight")
        expect(heading).to_have_text(f"Step {at + 1} of {len(steps)}")
        seen = steps[at]["observation"]["page"]
        expect(page.locator(".shot-url")).to_have_text(seen["url"])
        expect(page.locator(".shot-title")).to_have_text(seen["title"])
        expect(page.locator(".step-did")).to_contain_text(steps[at]["action"]["text"])
    page.get_by_role("button", name="Side by side").click()
    pictures = [each.get_attribute("src") or "" for each in page.locator(SCREENSHOT).all()]
    names = [steps[at]["observation"]["screenshot"]["name"] for at in (3, 4)]
    assert [url.rpartition("/")[2] for url in pictures] == names
    facts = page.locator(".step-facts")
    facts.get_by_text("Raw response").click()
    expect(facts).to_contain_text(steps[3]["response"]["raw_response"].split("\n")[0])
    with visiting(browser, visit.viewer) as other:
        again = other.go(visit.path)
        expect(again.locator(".step-bar h2")).to_have_text(f"Step 4 of {len(steps)}")
        expect(again.locator(".step-did")).to_contain_text(steps[3]["action"]["text"])


def said(item: Record) -> object:
    """Of an item of a conversation what counts when two are compared: not its ids."""
    calls = [each["function"] for each in item.get("tool_calls", ())]
    return item["role"], item.get("content"), item.get("reasoning"), calls


def test_repeats_are_side_by_side_with_their_first_difference_marked(
    visit: Visit, demo: Demo
) -> None:
    repeats: dict[int, list[list[Record]]] = defaultdict(list)
    for row in sorted(demo.agent_rows, key=lambda row: row["_ng_rollout_index"]):
        repeats[row["_ng_task_index"]].append(row["output"])
    for task, (one, other) in repeats.items():
        page = visit.go(f"{AGENT_RUN}/tasks/{task}")
        expect(page.locator(".compare-head")).to_have_count(2)
        pairs = zip(one, other, strict=False)
        differs = [at for at, (left, right) in enumerate(pairs) if said(left) != said(right)]
        assert differs
        first = page.locator(".compare-line.is-first")
        expect(first).to_be_in_viewport()
        expect(first).to_contain_text(f"turn {differs[0] + 1}")


def test_two_runs_are_joined_by_their_tasks(visit: Visit, demo: Demo) -> None:
    before = means(demo.agent_rows)
    after = means(read_json_lines(demo.results / "better_model.jsonl"))
    changes = {task: round(after[task] - before[task], 3) for task in before}
    better = sum(change > 0 for change in changes.values())
    assert better
    page = visit.go(f"/compare?left={AGENT_RUN[3:]}&right={BETTER_RUN[3:]}&sort=task")
    groups = page.locator(".changes")
    expect(groups).to_contain_text(f"{better}Improved")
    expect(groups).to_contain_text(f"{sum(change == 0 for change in changes.values())}Same")
    rows = page.locator(".joined-rows .joined-row:not(.joined-heads)")
    expect(rows).to_have_count(5)
    for task in range(5):
        left, right = rows.nth(task).locator(".joined-side b").all_inner_texts()
        assert float(left) == pytest.approx(before[task], abs=0.001)
        assert float(right) == pytest.approx(after[task], abs=0.001)
    groups.get_by_role("button", name="Improved").click()
    expect(rows).to_have_count(better)


def means(rows: list[Record]) -> dict[int, float]:
    rewards: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        rewards[row["_ng_task_index"]].append(row["reward"])
    return {task: fmean(each) for task, each in rewards.items()}


def test_the_monitors_grid_is_that_of_the_finished_run(visit: Visit, demo: Demo) -> None:
    monitor = json.loads(demo.iteration.paths.monitor.read_bytes())
    counts = monitor["counts"]
    page = visit.go(f"{WEB_RUN}/live")
    # A run counts as live for some seconds after its last record.
    ended_note = page.get_by_role("status").filter(has_text="This run has ended.")
    expect(ended_note).to_be_visible(timeout=60_000)
    grid = page.locator(".cell-grid canvas")
    names = {"success": "success", "failure": "no success", "blocked": "blocked"}
    parts = [f"{counts[state]} {name}" for state, name in names.items() if counts.get(state)]
    expect(grid).to_have_attribute("aria-label", f"6 squares: {', '.join(parts)}")
    records = read_json_lines(demo.iteration.paths.run / "journal.jsonl")
    ended = sorted(filter(itemgetter("final"), records), key=itemgetter("task"))
    for at, record in enumerate(ended):
        page.locator(".cell-grid").hover(position={"x": 21 * at + 9, "y": 9})
        outcome = record["outcome"]
        blocked = outcome["measures"].get("blocked")
        words = "blocked" if blocked else "success" if outcome["success"] else "no success"
        expect(page.locator(".tip")).to_have_text(f"rollout {at}: {words}")
    states = page.get_by_role("list", name="States")
    states.get_by_role("link", name=re.compile("^success")).click()
    assert total(page) == counts["success"]


def test_a_filtered_set_is_taken_away_row_by_row(visit: Visit, demo: Demo) -> None:
    page = visit.go(f"{AGENT_RUN}/rollouts?success=true&min_tool_calls=3")
    lines = (demo.results / "demo_multi_step_rollouts.jsonl").read_bytes().splitlines()
    wanted = [
        row
        for row in map(json.loads, lines)
        if row["success"] and row["metadata"]["tool_calls_made"] >= 3
    ]
    assert total(page) == len(wanted)
    with page.expect_download() as download:
        page.get_by_role("link", name=f"Export {len(wanted)} rollouts").click()
    assert read_json_lines(download.value.path()) == wanted


def test_a_page_that_was_taken_away_opens_as_a_file_with_its_screenshots(
    visit: Visit, browser: Browser, demo: Demo, tmp_path: Path
) -> None:
    records = demo.web_records
    line, at = next(aimed(records, "type"))
    page = visit.go(f"{WEB_RUN}/rollouts/0-{line + 1}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download page").click()
    saved = tmp_path / "saved.html"
    download.value.save_as(saved)
    context = browser.new_context(offline=True, java_script_enabled=False)
    try:
        asked: list[str] = []
        offline = context.new_page()
        offline.on("request", lambda request: asked.append(request.url))
        offline.goto(saved.as_uri())
        pictures = offline.locator("img")
        assert pictures.count() >= len(steps_of(records[line]))
        for picture in pictures.all():
            loaded(picture)
        expect(offline.locator("body")).to_contain_text(
            steps_of(records[line])[at]["action"]["arguments"]["text"]
        )
        assert [url for url in asked if not url.startswith("data:image/")] == [saved.as_uri()]
    finally:
        context.close()
