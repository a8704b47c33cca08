"""Several runs side by side: their numbers, their configurations, and two to compare."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from rollgym.viewer import library
from tests.builders import make_run
from tests.e2e.viewer.population import Counts, line, populate
from tests.e2e.viewer.serving import PHONE, Viewer, Visit, overflows, viewing, visiting


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def counts(folder: Path) -> Counts:
    populate(folder / "after.jsonl", tasks=10, better=3)
    return populate(folder / "before.jsonl", tasks=10)


@pytest.fixture(scope="module")
def viewer(folder: Path, counts: Counts) -> Iterator[Viewer]:
    assert counts.rollouts
    for name, rate in (("cold", 0.0), ("warm", 1.0)):
        config = {"model": "scripted", "temperature": rate}
        with make_run(folder / name, 3, config=config):
            pass
    names = ("before.jsonl", "after.jsonl", "cold", "warm")
    with viewing([folder / name for name in names]) as served:
        yield served


@pytest.fixture
def visit(browser: Browser, viewer: Viewer) -> Iterator[Visit]:
    with visiting(browser, viewer) as begun:
        yield begun


def test_every_run_is_there_with_its_numbers(visit: Visit, counts: Counts) -> None:
    page = visit.go("/")
    rows = page.get_by_role("region", name="Runs").locator("tbody tr")
    expect(rows).to_have_count(4)
    before = rows.filter(has_text="before.jsonl")
    expect(before).to_contain_text(str(counts.rollouts))
    coverage = before.get_by_role("img").get_attribute("aria-label") or ""
    assert coverage.startswith(f"Coverage: completed: {counts.completed} ")
    assert f"failed: {counts.failed} " in coverage
    before.get_by_role("link").click()
    page.wait_for_url("**/s/before/")


def test_two_that_are_selected_are_compared(visit: Visit) -> None:
    page = visit.go("/")
    compare = page.get_by_role("button", name="Compare")
    expect(compare).to_be_disabled()
    page.get_by_role("checkbox", name="Compare after.jsonl").check()
    expect(page.get_by_text("Select one more run")).to_be_visible()
    page.get_by_role("checkbox", name="Compare before.jsonl").check()
    compare.click()
    page.wait_for_url("**/compare?left=before&right=after")


def test_configurations_are_shown_as_differences_and_constants(visit: Visit) -> None:
    page = visit.go("/configuration?source=cold&source=warm")
    differences = page.get_by_role("region", name="Different settings")
    expect(differences.get_by_role("row").filter(has_text="temperature")).to_contain_text("0.0")
    expect(differences).not_to_contain_text("scripted")
    page.get_by_text("Equal settings").click()
    expect(page.locator(".constants")).to_contain_text("scripted")


@pytest.mark.campaign
def test_runs_without_a_configuration_are_named_and_not_compared(
    visit: Visit, browser: Browser, folder: Path
) -> None:
    configuration = visit.go("/").get_by_role("region", name="Configuration", exact=True)
    expect(configuration).to_contain_text("No stored configuration: before.jsonl, after.jsonl.")
    expect(configuration).not_to_contain_text("not set")
    heads = configuration.get_by_role("columnheader")
    expect(heads).to_have_text(["Setting", "cold", "warm"])
    alone = [folder / name for name in ("before.jsonl", "after.jsonl")]
    with viewing(alone) as served, visiting(browser, served) as other:
        words = other.go("/").get_by_role("region", name="Configuration", exact=True)
        expect(words).to_have_text("These runs have no stored configuration.")


@pytest.mark.campaign
def test_a_third_run_cannot_be_selected_and_the_page_says_why(visit: Visit) -> None:
    page = visit.go("/")
    for name in ("after.jsonl", "before.jsonl"):
        page.get_by_role("checkbox", name=f"Compare {name}").check()
    expect(page.get_by_role("checkbox", name="Compare cold")).to_be_disabled()
    expect(
        page.get_by_text("Two runs are selected; deselect one to choose another")
    ).to_be_visible()
    page.get_by_role("checkbox", name="Compare after.jsonl").uncheck()
    expect(page.get_by_role("checkbox", name="Compare cold")).to_be_enabled()


@pytest.mark.campaign
def test_a_run_that_never_finished_is_not_called_ended(visit: Visit) -> None:
    rows = visit.go("/").get_by_role("region", name="Runs").locator("tbody tr")
    cold = rows.filter(has_text="cold").locator("td").last
    expect(cold).to_have_text("stopped, 3 unresolved", timeout=15_000)
    note = visit.go("/s/cold/live").get_by_text("This run has stopped: 3 rollouts are unresolved.")
    expect(note).to_be_visible()


def test_unreadable_lines_are_counted_apart(browser: Browser, tmp_path: Path) -> None:
    populate(tmp_path / "whole.jsonl", tasks=2)
    (tmp_path / "broken.jsonl").write_bytes(line(0, 0) + b"{broken\n" + line(0, 1))
    paths = [tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"]
    with viewing(paths) as served, visiting(browser, served) as visit:
        rows = visit.go("/").get_by_role("region", name="Runs").locator("tbody tr")
        broken = rows.filter(has_text="broken.jsonl")
        expect(broken.locator("td.number").first).to_have_text("21 unreadable line")
        coverage = broken.get_by_role("img").get_attribute("aria-label") or ""
        assert "unreadable: 1 " in coverage


def test_a_file_that_cannot_be_read_says_why_on_every_page(
    browser: Browser, tmp_path: Path
) -> None:
    populate(tmp_path / "whole.jsonl", tasks=2)
    (tmp_path / "pretty.jsonl").write_text('[\n  {\n    "reward": 1\n  }\n]\n')
    paths = [tmp_path / "whole.jsonl", tmp_path / "pretty.jsonl"]
    with viewing(paths) as served, visiting(browser, served) as visit:
        rows = visit.go("/").get_by_role("region", name="Runs").locator("tbody tr")
        expect(rows.filter(has_text="pretty.jsonl")).to_contain_text("is one JSON document")
        for view in ("", "tasks", "rollouts"):
            page = visit.go(f"/s/pretty/{view}")
            expect(page.get_by_role("alert")).to_contain_text("is one JSON document")


def test_a_run_that_is_not_there_leads_back_to_those_that_are(visit: Visit) -> None:
    for path in ["/s/nope/", "/s/nope/rollouts", "/s/nope/rollouts/0-1"]:
        page = visit.go(path)
        expect(page.get_by_role("heading", name="Run not found")).to_be_visible()
        expect(page.get_by_role("banner").get_by_role("combobox")).to_have_count(0)
        expect(page.get_by_role("navigation", name="Views")).to_have_count(0)
        page.get_by_role("link", name="Show all runs").click()
        expect(page.get_by_role("heading", name="Runs")).to_be_visible()


def test_an_address_that_leads_nowhere_says_so_and_leads_back(visit: Visit) -> None:
    page = visit.go("/nope")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    page.get_by_role("link", name="Show all runs").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    visit.problems.clear()  # the browser tells that the page itself had status 404


@pytest.mark.campaign
def test_a_rollout_that_is_not_there_leads_back_to_the_list(visit: Visit) -> None:
    page = visit.go("/s/before/rollouts/0-999999")
    page.get_by_role("alert").get_by_role("link", name="Show all rollouts").click()
    page.wait_for_url("**/s/before/rollouts")
    visit.problems.clear()  # the browser tells of the answer that was none


@pytest.mark.campaign
def test_another_run_can_be_chosen_in_the_header(visit: Visit) -> None:
    page = visit.go("/s/before/tasks")
    page.get_by_role("combobox", name="Run").select_option("after")
    page.wait_for_url("**/s/after/tasks")


@pytest.mark.campaign
def test_runs_fit_on_a_phone(browser: Browser, viewer: Viewer) -> None:
    with visiting(browser, viewer, PHONE) as visit:
        page = visit.go("/")
        expect(page.get_by_role("region", name="Different settings")).to_be_visible()
        assert not overflows(page)


@pytest.mark.campaign
def test_a_run_that_begins_while_another_is_looked_at_can_be_chosen(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "DISCOVERY_SECONDS", 0.2)
    populate(tmp_path / "one.jsonl", tasks=2)
    with viewing([tmp_path]) as served, visiting(browser, served) as visit:
        page = visit.go("/s/one/")
        expect(page.get_by_role("banner")).to_contain_text("one.jsonl")
        expect(page.get_by_role("banner").get_by_role("combobox")).to_have_count(0)
        populate(tmp_path / "two.jsonl", tasks=2)
        page.get_by_role("banner").get_by_role("combobox").select_option(label="two.jsonl")
        page.wait_for_url("**/s/two/")
        page.get_by_role("link", name="all runs").click()
        config = {"temperature": 1.0}
        for name in ("three", "four"):
            make_run(tmp_path / name, 3, config=config | {"model": name}).close()
        expect(page.get_by_role("region", name="Different settings")).to_contain_text("four")


def test_an_empty_folder_says_so_and_shows_what_begins_in_it(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "DISCOVERY_SECONDS", 0.2)
    with viewing([tmp_path]) as served, visiting(browser, served) as visit:
        page = visit.go("/")
        expect(page.get_by_role("main")).to_contain_text("No runs yet")
        populate(tmp_path / "one.jsonl", tasks=2)
        page.wait_for_url("**/s/one/")
        expect(page.get_by_role("banner")).to_contain_text("one.jsonl")


@pytest.mark.campaign
def test_the_configuration_of_all_runs_is_asked_for_without_naming_each(visit: Visit) -> None:
    for path in ("/", "/configuration"):
        with visit.page.expect_request("**/api/configuration*") as asked:
            visit.go(path)
        assert asked.value.url.endswith("/api/configuration")
        expect(visit.page.get_by_role("region", name="Different settings")).to_be_visible()
