"""Which tests may run side by side: those of different files.

The tests of a file share servers and browsers, so they stay in one process. Files that start
browsers are in two groups, one for the browser server and the viewer and one for web rollouts: more
than a few dozen Chromium processes at a time are too many for a small machine. Files whose commands
use the default ports, as a reader of the documentation would, are one group.
"""

import re
from collections.abc import Generator

import pytest

LONGEST_VALUE = 100
_GROUPS = {
    "browser server and viewer": re.compile(
        r"tests/chaos/test_browser_\w+\.py"
        r"|tests/e2e/(page_script/\w+|viewer/\w+|test_browser_\w+|test_guard_chromium)\.py"
        r"|tests/integration/webgym/browser/(chromium|page|pool|server)/.*"
    ),
    "web rollouts": re.compile(
        r"tests/chaos/test_web_\w+\.py"
        r"|tests/e2e/test_(web_\w+|rollout_script|isolated_browsers|miniwob|policies|sites)\.py"
        r"|tests/e2e/test_benchmarks\.py"
    ),
    "well-known ports": re.compile(r"tests/e2e/test_(docs|tutorial)\.py"),
}


def pytest_configure(config: pytest.Config) -> None:
    """pytest-xdist would start with the groups that have the most tests, not with the longest."""
    config.option.loadscopereorder = False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file = _file(item)
        group = next((name for name, files in _GROUPS.items() if files.fullmatch(file)), file)
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_turn)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Processes send each other the names of tests, so a long value is cut in the name."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_VALUE:
        return f"{val[:LONGEST_VALUE]!r} and on to {len(val)}"
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Some versions of pytest and pytest-xdist together ignore the groups without a message."""
    config = session.config
    if hasattr(config, "workerinput") and config.getoption("loadgroup", False):
        apart = [item.nodeid for item in session.items if "@" not in item.nodeid]
        if apart:
            raise pytest.UsageError(f"pytest-xdist gave {apart[0]} no group: use another pytest")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make the output of tests valid UTF-8: processes send it to each other."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report


def _turn(item: pytest.Item) -> tuple[int, bool]:
    """Long groups come first, so that short files fill the gaps; in a group the kills come last."""
    file = _file(item)
    group = next((n for n, files in enumerate(_GROUPS.values()) if files.fullmatch(file)), None)
    if group is not None:
        return group, file.startswith("tests/chaos")
    folders = (
        "tests/chaos",
        "tests/e2e",
        "resources_servers",
        "responses_api",
        "tests/integration",
    )
    others = (n for n, folder in enumerate(folders) if file.startswith(folder))
    return len(_GROUPS) + next(others, len(folders)), False


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
