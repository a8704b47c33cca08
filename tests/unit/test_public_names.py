"""`import rollgym` gives every name that users need, and the documentation uses no others."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import rollgym

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def imports(package: str) -> Iterator[tuple[str, str, str]]:
    """The page, the module and the name of every import in the Python examples."""
    for page in PAGES:
        for block in CODE_BLOCK.findall(page.read_text()):
            for node in ast.walk(ast.parse(block)):
                module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                if isinstance(node, ast.ImportFrom) and module.partition(".")[0] == package:
                    yield from ((page.name, module, each.name) for each in node.names)


def test_every_public_name_resolves_and_is_listed_once() -> None:
    assert sorted(set(rollgym.__all__)) == sorted(rollgym.__all__) == sorted(rollgym._MODULE_OF)
    for name in rollgym.__all__:
        assert getattr(rollgym, name) is not None
        assert name in dir(rollgym)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(rollgym, "resources_server")


def test_examples_import_only_public_names_of_rollgym() -> None:
    found = list(imports("rollgym"))
    assert len(found) > 20
    assert [each for each in found if each[1] != "rollgym"] == []
    assert {name for _, _, name in found} <= set(rollgym.__all__)


def test_importing_rollgym_loads_nothing_else() -> None:
    code = "import sys, rollgym; sys.exit(any(n.startswith('rollgym.') for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
