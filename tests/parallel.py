"""Which tests may run side by side: those of different files.

The tests of a file share servers and browsers, so they stay in one process. Files whose commands
use well-known ports, as a reader of the documentation would, are one group together.
"""

import pytest

_WELL_KNOWN_PORTS = ("tests/e2e/test_docs.py", "tests/e2e/test_tutorial.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file = item.nodeid.partition("::")[0]
        group = "well-known ports" if file in _WELL_KNOWN_PORTS else file
        item.add_marker(pytest.mark.xdist_group(group))
