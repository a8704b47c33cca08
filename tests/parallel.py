"""Which tests may run side by side: those of different files.

The tests of a file share servers and browsers, so they stay in one process. Files that start
browsers are two groups, for the browser server and the viewer, and for web rollouts: more than a
few dozen Chromium processes at a time are too many for a small machine. Files whose commands use
well-known ports, as a reader of the documentation would, are one group together.
"""

import re
from collections.abc import Generator

import pytest

LONGEST_VALUE = 100
_GROUPS = {
    "well-known ports": re.compile(r"tests/e2e/test_(docs|tutorial)\.py"),
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
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file = _file(item)
        group = next((name for name, files in _GROUPS.items() if files.fullmatch(file)), file)
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_turn)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names of tests are sent from process to process: one with a value of megabytes is no name."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_VALUE:
        return f"{val[:LONGEST_VALUE]!r} and on to {len(val)}"
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Where pytest and pytest-xdist do not go together, groups would be torn apart unnoticed."""
    config = session.config
    if hasattr(config, "workerinput") and config.getoption("loadgroup", False):
        apart = [item.nodeid for item in session.items if "@" not in item.nodeid]
        if apart:
            raise pytest.UsageError(f"pytest-xdist gave {apart[0]} no group: use another pytest")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test printed or logged must get to the other process, also half a character."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report


def _turn(item: pytest.Item) -> int:
    """The longest group comes first, but its kills last: not beside those of the other."""
    file = _file(item)
    if not _GROUPS["web rollouts"].fullmatch(file):
        return 1
    return 2 if file.startswith("tests/chaos") else 0


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
