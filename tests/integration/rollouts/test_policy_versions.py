"""Policy versions from a model's endpoint to the row, the journal, the metrics and an export."""

from uuid import uuid4

import pytest

from tests.faulty_model import Exchange, FaultyModel, Step, in_background, reply, well_answered
from tests.integration.rollouts.commands import Workshop, task

ENVIRONMENT = """
from rollgym.servers import ResourcesServer, TaskRow, Verdict


class Room(ResourcesServer[TaskRow, None]):
    async def verify(self, task, response, session):
        return Verdict(1.0)
"""
CONFIG = """
room:
  resources_servers: {{{room}: {{entrypoint: app.py}}}}
policy_model:
  responses_api_models:
    {model}
agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {{type: resources_servers, name: room}}
      model_server: {{type: responses_api_models, name: policy_model}}
"""
VLLM = "vllm_model: {{entrypoint: app.py, base_url: {url}, model: faulty{more}}}"
OPENAI = "openai_model: {{entrypoint: app.py, openai_base_url: {url}, openai_model: faulty{more}}}"
PARTS = [["7", 1], ["8", 1]]


def saying(*versions: dict[str, object]) -> Step:
    """Answer the call of each task with its headers and its fields of the answer."""

    async def play(exchange: Exchange) -> bool:
        body = dict(well_answered(exchange.request))
        asked = exchange.request.json if exchange.request.body else {}
        items = asked.get("messages") or asked.get("input") or []
        text = items[0].get("content", "") if items else ""
        said = versions[int(text)] if text.isdigit() else {}
        headers = {name: str(text) for name, text in said.items() if name.startswith("x-")}
        fields = {name: value for name, value in said.items() if name not in headers}
        return await reply(200, body | fields, headers=headers)(exchange)

    return play


def collect(workshop: Workshop, model: str, answers: Step, rollouts: int, more: str = "") -> None:
    room = f"room_{uuid4().hex}"
    folder = workshop.folder / "resources_servers" / room
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(ENVIRONMENT)
    workshop.write("in.jsonl", [task(str(number)) for number in range(rollouts)])
    with in_background(FaultyModel(otherwise=answers)) as endpoint:
        named = model.format(url=endpoint.base_url, more=more)
        workshop.path("servers.yaml").write_text(CONFIG.format(room=room, model=named))
        options = ("+agent_name=agent", "+num_samples_in_parallel=1")
        ended = workshop.collect(*options, config="servers.yaml")
    assert ended.status == 0, ended.stderr


def test_the_version_that_an_endpoint_says_is_wherever_a_rollout_is(workshop: Workshop) -> None:
    answers = saying(
        {"x-policy-version": "7"},
        {},
        {"policy_versions": PARTS},
        {"x-policy-version": "8"},
        {"system_fingerprint": "fp", "model": "m"},  # neither is a version
    )
    collect(workshop, VLLM, answers, rollouts=5)
    rows = workshop.rollouts()
    turns = [rows[number, 0].get("rollgym_turns") for number in range(5)]
    assert [turn and (turn[0]["version"], turn[0].get("parts")) for turn in turns] == [
        ("7", None),
        None,
        ("8", PARTS),
        ("8", None),
        None,
    ]
    (first,) = rows[0, 0]["rollgym_turns"]
    assert (first["item"], first["seconds"] > 0) == (0, True)
    counts = [row["metadata"].get("policy_versions") for row in rows.values()]
    assert counts == [{"7": 1}, None, {"7": 1, "8": 1}, {"8": 1}, None]
    records = workshop.rows("out.run/journal.jsonl")
    assert [record["outcome"].get("turns") for record in records] == turns
    for command in ("status", "profile"):
        shown = workshop.run(command, "out.jsonl").stdout
        assert "turns by policy version (2 versions): 7: 2, 8: 2\n" in shown
        assert "rollouts by versions behind 8: 0: 1, 1: 2; with several versions: 1; " in shown
        assert "unknown: 2\n" in shown
    read_alone = workshop.write("alone.jsonl", list(rows.values()))
    assert "versions behind 8: 0: 1, 1: 2;" in workshop.run("profile", str(read_alone)).stdout
    export = ("export", "out.jsonl", "--format", "sft", "--output", "sft.jsonl")
    exported = workshop.run(*export, "--max-staleness", "0").stdout
    assert "from 1 of 5 tasks with 5 rollouts (4 without a fresh rollout)" in exported
    refused = workshop.run(*export, "--policy-version", "8")
    assert (refused.status, "goes with --max-staleness" in refused.stderr) == (2, True)


@pytest.mark.parametrize("model", [VLLM, OPENAI])
def test_the_header_and_what_stands_for_a_version_are_settings(
    workshop: Workshop, model: str
) -> None:
    answers = saying(
        {"x-weights": "w1"},
        {"x-policy-version": "7", "system_fingerprint": "fp", "policy_version": "w2"},
        {"x-policy-version": "7", "system_fingerprint": "fp"},
        {"system_fingerprint": "a,b"},
    )
    more = ", policy_version_header: x-weights, policy_version_fallback: system_fingerprint"
    collect(workshop, model, answers, rollouts=4, more=more)
    rows = workshop.rollouts()
    turns = [rows[number, 0].get("rollgym_turns") for number in range(4)]
    assert [turn and turn[0]["version"] for turn in turns] == ["w1", "w2", "fp", None]
