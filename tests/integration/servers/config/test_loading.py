"""From config files, env.yaml and the command line to the servers of a run."""

from pathlib import Path

import pytest

import rollgym
from rollgym.servers.config.instances import ServerInstance
from rollgym.servers.config.loading import Configuration
from rollgym.servers.config.plugins import plugin_roots
from rollgym.servers.server import ServerKind
from rollgym.store import hide_secrets
from tests.integration.servers.config.workspace import ENVIRONMENT, MODEL, Workspace


def test_the_servers_of_all_files_are_found_with_their_code_and_place(workspace: Workspace) -> None:
    config = workspace.load_usual()
    assert [instance.name for instance in config.instances] == [
        "policy_model",
        "weather",
        "weather_agent",
    ]
    agent = config.instance("weather_agent")
    assert agent.kind is ServerKind.AGENT
    assert agent.entrypoint == workspace.folder / "responses_api_agents/test_agent/app.py"
    assert agent.root == workspace.folder
    assert str(agent.source) == "weather.yaml:6"
    assert str(agent.place(["resources_server", "name"])) == "weather.yaml:12"
    assert (agent.host, agent.port, agent.processes, agent.isolated) == (
        "127.0.0.1",
        None,
        1,
        False,
    )


def test_env_yaml_fills_in_what_settings_ask_for(workspace: Workspace) -> None:
    settings = workspace.load_usual().instance("policy_model").settings
    assert settings["base_url"] == "http://127.0.0.1:9/v1"
    assert hide_secrets(settings)["api_key"] == "***"


def test_a_later_file_then_env_yaml_then_the_command_line_wins(workspace: Workspace) -> None:
    change = "policy_model: {responses_api_models: {test_model: {%s: %s}}}"
    workspace.write("more.yaml", change % ("a", "file") + "\n")
    workspace.write(
        "env.yaml", "policy_base_url: env\npolicy_api_key: k\n" + change % ("b", "env") + "\n"
    )
    model = workspace.load(
        "+config_paths=[model.yaml,more.yaml]",
        "+policy_base_url=override",
        "+policy_model.responses_api_models.test_model.c=override",
    ).instance("policy_model")
    assert model.settings == {
        "entrypoint": "app.py",
        "base_url": "override",
        "api_key": "k",
        "a": "file",
        "b": "env",
        "c": "override",
    }
    assert str(model.source) == "model.yaml:2"
    assert str(model.place(["a"])) == "more.yaml:1"
    assert str(model.place(["b"])) == "env.yaml:3"
    assert str(model.place(["c"])) == "command line"


def test_how_a_server_is_run_is_read_from_its_settings(workspace: Workspace) -> None:
    prefix = "+weather.resources_servers.test_weather"
    weather = workspace.load_usual(
        f"{prefix}.processes=3", f"{prefix}.port=0", f"{prefix}.restarts=1"
    ).instance("weather")
    assert (weather.processes, weather.port, weather.restarts) == (3, None, 1)
    assert weather.has_own_process
    assert "restarts" not in weather.settings


def test_other_keys_are_options_and_the_unused_ones_can_be_told(workspace: Workspace) -> None:
    options = workspace.load_usual("+limit=null", "+policy_base_url=x", "+seed=3").options
    assert options.values["limit"] is None
    assert options.given - options.used == {"config_paths", "limit", "seed"}
    assert options.used == {"policy_base_url", "policy_api_key"}


def test_what_env_yaml_cannot_resolve_is_no_problem_unless_it_is_used(
    workspace: Workspace,
) -> None:
    workspace.write(
        "env.yaml", "policy_base_url: x\npolicy_api_key: y\nother: ${oc.env:ROLLGYM_NOT_SET}\n"
    )
    assert "other" not in workspace.load_usual().options.values
    message = workspace.usual_refusal("+policy_base_url=${other}")
    assert "the environment variable ROLLGYM_NOT_SET, which is not set" in message


def test_a_removed_key_is_gone_and_one_that_is_not_there_is_told(workspace: Workspace) -> None:
    path = "policy_model.responses_api_models.test_model.api_key"
    model = workspace.load_usual(f"~{path}").instance("policy_model")
    assert "api_key" not in model.settings
    assert "there is no 'nothing' to remove" in workspace.usual_refusal("~nothing")


def test_the_head_address_comes_from_any_layer(workspace: Workspace) -> None:
    assert Configuration([], workspace.folder).options().head.url == "http://127.0.0.1:11000"
    workspace.write("env.yaml", "head_server: {port: 12345}\n")
    assert Configuration([], workspace.folder).options().head.port == 12345
    head = (
        Configuration(["+head_server.port=12346", "+head_server.host=::1"], workspace.folder)
        .options()
        .head
    )
    assert head.url == "http://[::1]:12346"


def test_config_files_are_also_found_in_what_ships_with_rollgym(
    workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = Workspace(tmp_path_factory.mktemp("elsewhere"))
    absolute = elsewhere.write("resources_servers/mine/configs/mine.yaml", ENVIRONMENT)
    elsewhere.write("resources_servers/test_weather/app.py", "")
    elsewhere.write("responses_api_agents/test_agent/app.py", "")
    config = workspace.load(f"+config_paths=[{absolute},model.yaml]")
    # The working directory comes first, then the folder around the config file.
    assert config.instance("weather").root == workspace.folder
    (workspace.folder / "resources_servers/test_weather/app.py").unlink()
    config = workspace.load(f"+config_paths=[{absolute},model.yaml]")
    assert config.instance("weather").root == elsewhere.folder


def test_an_installed_rollgym_has_its_plugins_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plugin_roots(tmp_path)[1] == Path(rollgym.__file__).parent.parent
    (tmp_path / "site/rollgym/bundled").mkdir(parents=True)
    monkeypatch.setattr("rollgym.servers.config.plugins._PACKAGE", tmp_path / "site/rollgym")
    assert plugin_roots(tmp_path / "here") == (
        (tmp_path / "here").resolve(),
        tmp_path / "site/rollgym/bundled",
    )


def test_config_paths_may_be_given_in_env_yaml_or_as_one_path(workspace: Workspace) -> None:
    assert len(workspace.load("+config_paths=model.yaml").instances) == 1
    workspace.write("env.yaml", "config_paths: [model.yaml]\npolicy_base_url: a\npolicy_api_key: b")
    assert len(workspace.load().instances) == 1


def test_instances_can_be_compared_and_told_from_each_other(workspace: Workspace) -> None:
    again = [workspace.load_usual().instance("weather") for _ in range(2)]
    assert again[0] == again[1]
    assert isinstance(again[0], ServerInstance)
    assert isinstance(again[0].folder, Path)


def test_an_empty_file_is_no_mistake(workspace: Workspace) -> None:
    workspace.write("empty.yaml", "# nothing yet\n")
    assert len(workspace.load("+config_paths=[empty.yaml,model.yaml]").instances) == 1


def test_a_file_named_twice_is_read_once(workspace: Workspace) -> None:
    workspace.write("copy.yaml", MODEL)
    assert len(workspace.load("+config_paths=[model.yaml,model.yaml,copy.yaml]").instances) == 1


def test_a_server_takes_over_the_settings_of_another(workspace: Workspace) -> None:
    workspace.write(
        "off.yaml",
        """
        thinking_off:
          _inherit_from: policy_model
          responses_api_models:
            test_model: {chat_template_kwargs: {enable_thinking: false}, _delete_key: api_key}
        again: {_copy: thinking_off, responses_api_models: {test_model: {port: 4}}}
        weather_agent:
          responses_api_agents:
            test_agent:
              model_server: {name: thinking_off}
              resources_server: "${copy:other_agent.of}"
        other_agent: {of: {type: resources_servers, name: weather}}
        """,
    )
    config = workspace.load("+config_paths=[model.yaml,weather.yaml,off.yaml]")
    assert {each.name for each in config.instances} == {
        "thinking_off",
        "again",
        "weather",
        "weather_agent",
    }
    taken = config.instance("thinking_off")
    assert taken.settings == {
        "entrypoint": "app.py",
        "base_url": "http://127.0.0.1:9/v1",
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert str(taken.place(["base_url"])) == "model.yaml:6"
    assert config.instance("again").settings == {**taken.settings, "port": 4}


def test_what_cannot_be_taken_over_is_a_problem_with_its_place(workspace: Workspace) -> None:
    workspace.write("a.yaml", "x: {_inherit_from: policy_modell}\ny: {_copy: z}\nz: {_copy: y}\n")
    said = workspace.refusal("+config_paths=[model.yaml,weather.yaml,a.yaml]")
    assert "a.yaml:1: x: it takes over policy_modell, but there is no policy_modell" in said
    assert "did you mean 'policy_model'?" in said
    assert "a.yaml:2: y: it takes over" in said
    assert "which contains it" in said
    workspace.write("a.yaml", "renamed: {_inherit_from: policy_model}\n")
    said = workspace.refusal("+config_paths=[model.yaml,weather.yaml,a.yaml]")
    assert "names 'policy_model', and no server has that name any more" in said
    assert "`_inherit_from` at a.yaml:1 took it over" in said
