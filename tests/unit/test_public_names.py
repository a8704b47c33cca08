"""`import rollgym` and `import webgym` give every name that the documentation uses."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import rollgym
import webgym

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


PACKAGES = pytest.mark.parametrize("package", [rollgym, webgym], ids=lambda each: each.__name__)


@PACKAGES
def test_every_public_name_resolves_and_is_listed_once(package: ModuleType) -> None:
    assert sorted(set(package.__all__)) == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)
    assert not hasattr(package, "no_such_name")


@PACKAGES
def test_examples_import_only_public_names(package: ModuleType) -> None:
    found = list(imports(package.__name__))
    assert len(found) > 15
    assert [each for each in found if each[1] != package.__name__] == []
    assert {name for _, _, name in found} <= set(package.__all__)


@PACKAGES
def test_importing_a_package_loads_nothing_else(package: ModuleType) -> None:
    name = package.__name__
    code = f"import sys, {name}; sys.exit(any(n.startswith('{name}.') for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_process_imports_only_the_libraries_that_it_needs() -> None:
    """The process of one server reads no files; a collection in one process sends no requests."""
    code = (
        "import sys, rollgym.servers.launch.child, responses_api_agents.simple_agent.app\n"
        "found = {'hydra', 'omegaconf', 'yaml'} & sys.modules.keys()\n"
        "import rollgym.cli.collect\n"
        "sys.exit(' '.join(found | {'aiohttp', 'rich'} & sys.modules.keys()) or 0)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (run.stderr.decode().strip(), run.returncode) == ("", 0)
