"""What is wrong is told with its place and its remedy, all of it, before anything starts."""

import socket

from tests.cases import for_each
from tests.integration.servers.config.workspace import ENVIRONMENT, VARIABLES, Workspace


def test_no_config_file_at_all(workspace: Workspace) -> None:
    message = workspace.refusal()
    assert message == (
        'command line: no config file is named; pass "+config_paths=[a.yaml,b.yaml]"'
    )


def test_a_config_file_that_is_not_there(workspace: Workspace) -> None:
    workspace.write("resources_servers/test_weather/configs/weather.yaml", ENVIRONMENT)
    message = workspace.refusal(
        "+config_paths=[resources_servers/test_weather/configs/wether.yaml]"
    )
    assert "there is no file 'resources_servers/test_weather/configs/wether.yaml'" in message
    assert "did you mean 'resources_servers/test_weather/configs/weather.yaml'?" in message
    assert str(workspace.folder) in message


def test_a_file_without_servers(workspace: Workspace) -> None:
    workspace.write("nothing.yaml", "a: 1\n")
    message = workspace.refusal("+config_paths=[nothing.yaml]")
    assert message.startswith("nothing.yaml: describes no server; ")


@for_each(
    ("text", "place", "reason"),
    [
        ("a:\n  b: [1, 2\nc: d: e\n", "broken.yaml:3:", "not valid YAML"),
        ("a: 1\nb: 2\na: 3\n", "broken.yaml:3:1", "found duplicate key a"),
        ("- 1\n- 2\n", "broken.yaml", "is not a mapping"),
        ("a: 1\nb: '${'\n", "broken.yaml:2", "b: "),
        ("a: &x {b: *x}\n", "broken.yaml", "an alias contains itself"),
        ("a: " + "[" * 500 + "]" * 500, "broken.yaml", "it is nested too deeply"),
        ("a: !!python/object:os.system x\n", "broken.yaml:1:4", "could not determine"),
    ],
)
def test_a_file_that_is_no_yaml_is_named_with_line_and_column(
    workspace: Workspace, text: str, place: str, reason: str
) -> None:
    workspace.write("broken.yaml", text)
    message = workspace.refusal("+config_paths=[model.yaml,broken.yaml]")
    assert message.startswith(place), message
    assert reason in message


def test_a_file_that_is_no_text(workspace: Workspace) -> None:
    (workspace.folder / "broken.yaml").write_bytes(b"a: \xff\n")
    assert "broken.yaml: not UTF-8 at byte 3" in workspace.refusal("+config_paths=[broken.yaml]")


def test_two_files_that_disagree_on_a_server(workspace: Workspace) -> None:
    workspace.write(
        "other.yaml", "\npolicy_model:\n  responses_api_models:\n    other: {entrypoint: app.py}\n"
    )
    message = workspace.refusal("+config_paths=[model.yaml,other.yaml]")
    assert message == (
        "other.yaml:2: 'policy_model' is responses_api_models/other here and "
        "responses_api_models/test_model in model.yaml:2; rename one of the two, or name only one "
        "of the files"
    )


def test_a_command_line_that_disagrees_with_a_file(workspace: Workspace) -> None:
    message = workspace.usual_refusal("+policy_model.responses_api_models.vllm_model.x=1")
    assert "policy_model: `responses_api_models` has 2 keys (test_model, vllm_model)" in message
    assert "command line and model.yaml:4" in message


def test_an_unknown_kind_of_server(workspace: Workspace) -> None:
    workspace.write("typo.yaml", "\nx:\n  resource_servers:\n    y: {entrypoint: app.py}\n")
    message = workspace.refusal("+config_paths=[model.yaml,typo.yaml]")
    assert "typo.yaml:3: x: 'resource_servers' is not a kind of server" in message
    assert "(did you mean 'resources_servers'?)" in message


def test_a_server_of_two_kinds_or_none(workspace: Workspace) -> None:
    workspace.write(
        "two.yaml",
        """
        x: {resources_servers: {a: {entrypoint: app.py}}, responses_api_agents: {}}
        y: {resources_servers: null}
        z: {resources_servers: {test_weather: null}}
        """,
    )
    message = workspace.refusal("+config_paths=[two.yaml]")
    assert "two.yaml:2: x: `x` has 2 keys (resources_servers, responses_api_agents)" in message
    assert "two.yaml:3: y: `resources_servers` has no keys" in message
    assert "two.yaml:4: z: 'test_weather' has no settings" in message


def test_a_missing_entrypoint_key_and_file_and_folder(workspace: Workspace) -> None:
    workspace.write(
        "servers.yaml",
        """
        a:
          resources_servers:
            test_weather: {domain: x}
        b:
          resources_servers:
            test_weather:
              entrypoint: main.py
        c:
          resources_servers:
            test_wether: {entrypoint: app.py}
        d:
          resources_servers:
            test_weather: {entrypoint: ../../secret.py}
        """,
    )
    message = workspace.refusal("+config_paths=[servers.yaml]")
    assert "servers.yaml:4: a: it has no `entrypoint`; add `entrypoint: app.py`" in message
    assert "servers.yaml:8: b: there is no file " in message
    assert "servers.yaml:11: c: there is no folder resources_servers/test_wether" in message
    assert "(did you mean 'test_weather'?)" in message
    assert "servers.yaml:14: d: `entrypoint` is '../../secret.py'" in message


def test_a_reference_to_a_server_that_is_not_there(workspace: Workspace) -> None:
    message = workspace.usual_refusal(
        "+weather_agent.responses_api_agents.test_agent.model_server.name=polcy_model"
    )
    assert (
        "weather_agent: `model_server` names 'polcy_model', and no server has that name" in message
    )
    assert "(did you mean 'policy_model'?)" in message
    assert "name one of its type (policy_model)" in message


def test_a_reference_is_named_by_its_line(workspace: Workspace) -> None:
    workspace.write("weather.yaml", ENVIRONMENT.replace("name: weather", "name: wheather"))
    assert workspace.usual_refusal().startswith(
        "weather.yaml:10: weather_agent: `resources_server`"
    )


def test_a_reference_to_a_server_of_another_kind(workspace: Workspace) -> None:
    workspace.write("weather.yaml", ENVIRONMENT.replace("name: policy_model", "name: weather"))
    message = workspace.usual_refusal()
    assert "names 'weather' of the type responses_api_models" in message
    assert "but its type is resources_servers" in message


def test_a_reference_of_an_unknown_type(workspace: Workspace) -> None:
    workspace.write(
        "weather.yaml", ENVIRONMENT.replace("type: responses_api_models", "type: response_models")
    )
    message = workspace.usual_refusal()
    assert "`model_server` has the type 'response_models'" in message
    assert "(did you mean 'responses_api_models'?)" in message


def test_a_tool_is_no_reference(workspace: Workspace) -> None:
    agent = "+weather_agent.responses_api_agents.test_agent"
    workspace.load_usual(f"{agent}.tools=[{{type: function, name: search}}]")


def test_a_variable_that_nothing_defines(workspace: Workspace) -> None:
    workspace.write("env.yaml", VARIABLES.replace("policy_base_url", "policy_url"))
    assert workspace.usual_refusal() == (
        "model.yaml:6: policy_model.responses_api_models.test_model.base_url: uses "
        "${policy_base_url}, which is not defined; add `policy_base_url: …` to env.yaml in "
        f"{workspace.folder} or pass +policy_base_url=…"
    )


def test_a_mandatory_value(workspace: Workspace) -> None:
    message = workspace.usual_refusal("+policy_base_url=???")
    assert "base_url: has no value (it is `???`)" in message


def test_a_setting_that_contains_itself(workspace: Workspace) -> None:
    message = workspace.usual_refusal(
        "+this={x: '${that}'}",
        "+that={y: '${this}'}",
        "+weather.resources_servers.test_weather.loop=${this}",
    )
    assert "weather.resources_servers.test_weather.loop…: nested deeper than" in message


@for_each(
    ("setting", "reason"),
    [("processes=0", ">= 1"), ("port=99999", "<= 65535"), ("isolated=perhaps", "bool")],
)
def test_a_wrong_way_to_be_run(workspace: Workspace, setting: str, reason: str) -> None:
    message = workspace.usual_refusal(f"+weather.resources_servers.test_weather.{setting}")
    assert f"command line: weather: `{setting.partition('=')[0]}`: " in message
    assert reason in message


def test_two_servers_on_one_port(workspace: Workspace) -> None:
    message = workspace.refusal(
        "+config_paths=[model.yaml,weather.yaml]",
        "+weather.resources_servers.test_weather.port=45000",
        "+weather.resources_servers.test_weather.processes=2",
        "+policy_model.responses_api_models.test_model.port=45001",
        "+head_server.port=45002",
        listening=True,
    )
    assert "port 45001 on 127.0.0.1 is also the port of policy_model (model.yaml:2)" in message


def test_a_port_that_is_taken_and_a_head_that_runs_already(workspace: Workspace) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        port, head = one.getsockname()[1], other.getsockname()[1]
        message = workspace.refusal(
            "+config_paths=[model.yaml]",
            f"+policy_model.responses_api_models.test_model.port={port}",
            f"+head_server.port={head}",
            listening=True,
        )
    assert f"model.yaml:2: policy_model: port {port} on 127.0.0.1 is in use" in message
    assert f"another ng_run is probably running at http://127.0.0.1:{head}" in message
    assert "pass +head_server.port=" in message


def test_a_host_that_this_machine_does_not_have(workspace: Workspace) -> None:
    message = workspace.refusal(
        "+config_paths=[model.yaml]", "+head_server.host=192.0.2.1", listening=True
    )
    assert "the head server: cannot listen on 192.0.2.1 port 11000" in message


def test_a_head_that_is_described_wrongly(workspace: Workspace) -> None:
    message = workspace.refusal("+config_paths=[model.yaml]", "+head_server.prt=1")
    assert "command line: head_server: " in message


def test_everything_is_told_at_once_and_no_key_is_shown(workspace: Workspace) -> None:
    workspace.write("broken.yaml", "a: [")
    workspace.write("env.yaml", "policy_api_key: sk-very-secret-key\n")
    message = workspace.refusal(
        "+config_paths=[model.yaml,weather.yaml,broken.yaml,missing.yaml]",
        "+weather_agent.responses_api_agents.test_agent.model_server.name=nobody",
        "+weather_agent.responses_api_agents.test_agent.entrypoint=null",
    )
    assert message.splitlines()[0] == "5 problems, and nothing was started:"
    assert len(message.splitlines()) == 6
    assert "secret" not in message


def test_an_override_that_is_nested_too_deeply(workspace: Workspace) -> None:
    message = workspace.usual_refusal("+x=" + "[" * 500 + "]" * 500)
    assert "this is not an override" in message
    assert len(message) < 1000
