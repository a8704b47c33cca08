"""Names the campaigns when a run includes them: the long or broad tests that only test-all runs."""

import ast
from pathlib import Path

import pytest

_MARK = "campaign"
_FOLDERS = ("tests", "resources_servers", "responses_api_agents", "responses_api_models")


def pytest_report_header(config: pytest.Config) -> list[str]:
    expression = config.option.markexpr
    if f"not {_MARK}" in expression or hasattr(config, "workerinput"):
        return []
    found = [line for folder in _FOLDERS for line in _campaigns(config.rootpath, folder)]
    return [f"campaigns ({len(found)}), which the default run leaves out:", *found]


def _campaigns(root: Path, folder: str) -> list[str]:
    """A line for each test that is marked, or that has marked cases, and each file of them."""
    found = []
    for path in sorted((root / folder).rglob("test_*.py")):
        source = path.read_text()
        if f"mark.{_MARK}" not in source:
            continue
        name = path.relative_to(root)
        for node in ast.parse(source).body:
            if f"mark.{_MARK}" in ast.unparse(node):
                test = getattr(node, "name", None)  # without: a mark of the whole file
                found.append(f"  {name}::{test}" if test else f"  {name}")
    return found
