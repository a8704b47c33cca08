"""Campaigns are the long or broad tests that only test-all runs; such a run names them.

Properties are tried on fewer examples in all other runs, unless a test says how many it needs.
"""

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

_MARK = "campaign"
_FOLDERS = ("tests", "resources_servers", "responses_api_agents", "responses_api_models")
_FEWER_EXAMPLES = 40


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("default run", max_examples=_FEWER_EXAMPLES)
    if not _includes_campaigns(config):
        settings.load_profile("default run")


def _includes_campaigns(config: pytest.Config) -> bool:
    expression = config.option.markexpr
    return not expression or bool(eval(expression, {}, defaultdict(bool, {_MARK: True})))


def pytest_report_header(config: pytest.Config) -> list[str]:
    if not _includes_campaigns(config) or hasattr(config, "workerinput"):
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
