"""Several runs side by side: their numbers, their configurations, and two to compare."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from rollgym.viewer import library
from tests.builders import make_run
from tests.e2e.viewer.population import Counts, populate
from tests.e2e.viewer.serving import PHONE, Viewer, Visit, chromium, overflows, viewing, visiting


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


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
    expect(page.get_by_text("Select one more")).to_be_visible()
    page.get_by_role("checkbox", name="Compare before.jsonl").check()
    compare.click()
    page.wait_for_url("**/compare?left=before&right=after")


def test_configurations_are_shown_as_differences_and_constants(visit: Visit) -> None:
    page = visit.go("/configuration?source=cold&source=warm")
    differences = page.get_by_role("region", name="What differs")
    expect(differences.get_by_role("row").filter(has_text="temperature")).to_contain_text("0.0")
    expect(differences).not_to_contain_text("scripted")
    page.get_by_text("What is the same").click()
    expect(page.locator(".constants")).to_contain_text("scripted")


def test_another_run_can_be_chosen_in_the_header(visit: Visit) -> None:
    page = visit.go("/s/before/tasks")
    page.get_by_role("combobox", name="Run").select_option("after")
    page.wait_for_url("**/s/after/tasks")


def test_runs_fit_on_a_phone(browser: Browser, viewer: Viewer) -> None:
    with visiting(browser, viewer, PHONE) as visit:
        page = visit.go("/")
        expect(page.get_by_role("region", name="What differs")).to_be_visible()
        assert not overflows(page)


def test_a_run_that_begins_while_another_is_looked_at_can_be_chosen(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "FINDING_SECONDS", 0.2)
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
        expect(page.get_by_role("region", name="What differs")).to_contain_text("four")


def test_an_empty_folder_says_so_and_shows_what_begins_in_it(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "FINDING_SECONDS", 0.2)
    with viewing([tmp_path]) as served, visiting(browser, served) as visit:
        page = visit.go("/")
        expect(page.get_by_role("main")).to_contain_text("There is nothing here yet")
        populate(tmp_path / "one.jsonl", tasks=2)
        page.wait_for_url("**/s/one/")
        expect(page.get_by_role("banner")).to_contain_text("one.jsonl")
