"""A plug-in's class and settings, from its file."""

import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from rollgym.servers.config.instances import ServerInstance
from rollgym.servers.config.plugins import load_server_class, load_settings
from rollgym.servers.config.problems import ConfigError
from rollgym.servers.server import Server
from tests.integration.servers.config.workspace import Workspace

IMPORTS = """\
from rollgym.servers.server import Server, ServerConfig, ServerKind

class Base(Server):
    kind = ServerKind.RESOURCES

"""
SERVER = """\
from {package}.base import Base
from rollgym.servers.server import ServerConfig

class Config(ServerConfig):
    needles: int
    judge_api_key: int = 0

class Plugin(Base):
    config: Config
"""


@pytest.fixture(autouse=True)
def _restored_path() -> Iterator[None]:
    before, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = before
    for name in set(sys.modules) - modules:
        del sys.modules[name]


class Plugin:
    """One plug-in of a name that no other test uses."""

    def __init__(self, workspace: Workspace) -> None:
        self.name = f"plugin_{uuid4().hex}"
        self.package = f"resources_servers.{self.name}"
        self._workspace = workspace

    def write(self, source: str, module: str = "app") -> None:
        path = f"resources_servers/{self.name}/{module}.py"
        self._workspace.write(path, source.replace("{package}", self.package))

    def instance(self, **settings: object) -> ServerInstance:
        lines = "".join(f"      {name}: {value}\n" for name, value in settings.items())
        text = f"x:\n  resources_servers:\n    {self.name}:\n      entrypoint: app.py\n{lines}"
        self._workspace.write("plugin.yaml", text)
        return self._workspace.load("+config_paths=[plugin.yaml]").instance("x")

    def load(self, **settings: object) -> type[Server]:
        return load_server_class(self.instance(**settings))

    def refusal(self) -> str:
        with pytest.raises(ConfigError) as refused:
            self.load()
        return str(refused.value)

    def settings_refusal(self, **settings: object) -> str:
        instance = self.instance(**settings)
        with pytest.raises(ConfigError) as refused:
            load_settings(instance, load_server_class(instance))
        return str(refused.value)


@pytest.fixture
def plugin(workspace: Workspace) -> Plugin:
    made = Plugin(workspace)
    made.write(IMPORTS, "base")
    made.write(SERVER)
    return made


def test_the_class_is_found_under_the_name_of_its_folder(plugin: Plugin) -> None:
    found = plugin.load()
    assert found.__name__ == "Plugin"
    assert found.__module__ == f"{plugin.package}.app"
    assert plugin.load() is found


def test_settings_become_what_the_class_declares(plugin: Plugin) -> None:
    instance = plugin.instance(needles=3)
    config = load_settings(instance, load_server_class(instance))
    assert config.model_dump()["needles"] == 3


def test_every_wrong_setting_is_told_with_its_line_and_without_its_value(plugin: Plugin) -> None:
    message = plugin.settings_refusal(nedles=3, judge_api_key="sk-secret")
    lines = [line.strip() for line in message.splitlines()[1:]]
    assert any(line.startswith("plugin.yaml:1: x: the key `needles` is missing") for line in lines)
    assert any(line.startswith("plugin.yaml:5: x: unknown key `nedles`") for line in lines)
    assert any(line.startswith("plugin.yaml:6: x: key `judge_api_key`: Input") for line in lines)
    assert "(did you mean 'needles'?)" in message
    assert "secret" not in message


def test_a_package_that_is_not_installed(plugin: Plugin) -> None:
    plugin.write("import os\nimport no_such_package_at_all\n")
    message = plugin.refusal()
    assert "app.py:2: 'no_such_package_at_all' is not installed" in message
    assert message.startswith("plugin.yaml:1: x: ")


def test_a_missing_package_of_a_module_beside_it(plugin: Plugin) -> None:
    plugin.write("\n\nimport no_such_package_at_all\n", "base")
    assert "base.py:3: 'no_such_package_at_all'" in plugin.refusal()


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1\ny = = 2\n", "app.py:2: invalid syntax"),
        ("x = 1\nraise RuntimeError('no database')\n", "app.py:2: RuntimeError: no database"),
        ("raise SystemExit(3)\n", "app.py:1: SystemExit: 3"),
        ("from {package}.data import x\n", ".data' is missing; write the module"),
        ("import {package}.base\n", "defines 0 server classes (none)"),
        (SERVER + "class Another(Base): ...\n", "defines 2 server classes (Another, Plugin)"),
    ],
)
def test_a_file_that_cannot_be_used(plugin: Plugin, source: str, told: str) -> None:
    plugin.write(source)
    assert told in plugin.refusal()


def test_a_plugin_may_derive_from_one_that_ships_with_rollgym(plugin: Plugin) -> None:
    plugin.write("from resources_servers.example_single_tool_call import app\n" + SERVER)
    assert plugin.load().__name__ == "Plugin"


def test_a_class_of_another_kind(plugin: Plugin) -> None:
    plugin.write(IMPORTS.replace("RESOURCES", "AGENT"), "base")
    message = plugin.refusal()
    assert "belongs to responses_api_agents, not resources_servers" in message


def test_a_copy_in_ones_own_folder_goes_before_the_one_that_python_finds_first(
    plugin: Plugin, workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Workspace(tmp_path_factory.mktemp("other"))
    other.write(f"resources_servers/{plugin.name}/app.py", "")
    sys.path.insert(0, str(other.folder))
    module = sys.modules[plugin.load().__module__]
    assert Path(str(module.__file__)).is_relative_to(workspace.folder)


def test_a_plugin_that_was_imported_from_elsewhere_is_no_other(
    plugin: Plugin, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Plugin(Workspace(tmp_path_factory.mktemp("other")))
    other.name, other.package = plugin.name, plugin.package
    other.write(IMPORTS, "base")
    other.write(SERVER)
    other.load()
    assert "Python finds" in plugin.refusal()


def test_a_setting_without_effect_is_named_with_its_file_and_line(
    workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = Plugin(workspace)
    plugin.write(IMPORTS, "base")
    plugin.write("from {package}.base import Base\n\nclass Plugin(Base):\n    pass\n")
    workspace.write(
        "a.yaml",
        f"""
        a:
          resources_servers:
            {plugin.name}:
              entrypoint: app.py
              num_workers: 8
        """,
    )
    instance = workspace.load("+config_paths=[a.yaml]").instance("a")
    load_settings(instance, load_server_class(instance))
    (record,) = caplog.records
    assert record.getMessage() == (
        "a.yaml:6: a: `num_workers` has no effect here: one process answers all requests; "
        "`processes: 2` starts two of them"
    )
