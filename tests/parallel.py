"""Which tests may run side by side: those of different files.

The tests of a file share servers and browsers, so they stay in one process. So do all files that
start browsers: a few dozen Chromium processes at a time are enough for any machine. Files whose
commands use well-known ports, as a reader of the documentation would, are one group together.
"""

import re

import pytest

_WELL_KNOWN_PORTS = re.compile(r"tests/e2e/test_(docs|tutorial)\.py")
_BROWSERS = re.compile(
    r"tests/chaos/test_(browser|web)_\w+\.py"
    r"|tests/e2e/(page_script/\w+|test_(browser|web)_\w+|test_guard_chromium)\.py"
    r"|tests/e2e/test_(isolated_browsers|miniwob|policies|rollout_script|sites|benchmarks)\.py"
    r"|tests/integration/webgym/browser/(chromium|pool|server|page)/.*"
)
_GROUPS = {"well-known ports": _WELL_KNOWN_PORTS, "browsers": _BROWSERS}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file = item.nodeid.partition("::")[0]
        group = next((name for name, files in _GROUPS.items() if files.fullmatch(file)), file)
        item.add_marker(pytest.mark.xdist_group(group))
