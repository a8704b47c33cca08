"""Which servers a collection works with, and what of them can change results."""

from contextlib import nullcontext
from typing import Any

from rollgym.rollouts.servers import CollectionServers, ServerDescription
from rollgym.servers.server import ServerConfig, ServerKind
from rollgym.store import settings_identity


def reference(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "name": name}


def described(
    name: str, kind: ServerKind, implementation: str, settings: Any, own: bool | None = None
) -> ServerDescription:
    identity = settings_identity(settings, ServerConfig, complete=False)
    return ServerDescription(name, kind, implementation, settings, identity, own)


def collection_servers(servers: list[ServerDescription]) -> CollectionServers:
    return CollectionServers(servers, nullcontext)  # type: ignore[arg-type]


def servers(**model: Any) -> CollectionServers:
    links = {
        "resources_server": reference("resources_servers", "environment"),
        "model_server": reference("responses_api_models", "model"),
    }
    return collection_servers(
        [
            described("agent", ServerKind.AGENT, "simple_agent", links),
            described("lonely", ServerKind.AGENT, "parrot", {}),
            described("environment", ServerKind.RESOURCES, "counter", {"start": 3}),
            described(
                "model",
                ServerKind.MODEL,
                "balanced",
                {"behind": [reference("responses_api_models", "model_2")], **model},
            ),
            described("model_2", ServerKind.MODEL, "scripted", {"skill": 0.5}),
            described("unused", ServerKind.MODEL, "scripted", {"skill": 0.1}),
        ]
    )


def test_only_agents_can_be_asked_for_rollouts() -> None:
    assert servers().agents == ["agent", "lonely"]


def test_the_identity_holds_the_agents_and_everything_they_refer_to() -> None:
    assert servers().identity(["agent"]).keys() == {"agent", "environment", "model", "model_2"}
    assert servers().identity(["lonely"]).keys() == {"lonely"}
    assert servers().identity(["unknown"]) == {}


def test_settings_that_only_decide_how_long_things_take_do_not_make_another_run() -> None:
    def relevant(**model: Any) -> dict[str, Any]:
        return settings_identity(servers(**model).identity(["agent"])).values

    usual = relevant(temperature=0.5)
    assert relevant(temperature=0.5, port=1, url="http://x", api_key="k", processes=9) == usual
    assert relevant(temperature=0.6) != usual
    assert relevant(temperature=0.5, isolated=True, value="x", description="y") == usual
    assert relevant(temperature=0.5, entrypoint="other.py") != usual
    assert relevant(temperature=0.5, scoring={"value": 2}) != usual


def test_the_environment_of_an_agent_is_known_by_its_reference() -> None:
    assert servers().resources_server("agent") == "environment"
    assert servers().resources_server("lonely") is None
    assert servers().resources_server("unknown") is None


def test_only_an_environment_that_surely_has_no_metrics_need_not_be_asked() -> None:
    cases: list[tuple[bool | None, list[str]]] = [(True, []), (False, ["agent"]), (None, [])]
    for own, usual in cases:
        links = {"resources_server": reference("resources_servers", "environment")}
        found = collection_servers(
            [
                described("agent", ServerKind.AGENT, "simple_agent", links),
                described("other", ServerKind.AGENT, "unknown", {}),
                described("environment", ServerKind.RESOURCES, "counter", {}, own),
            ]
        )
        assert found.without_own_metrics(found.agents) == usual
