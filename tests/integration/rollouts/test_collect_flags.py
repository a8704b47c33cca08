"""Options of `rollgym collect` beyond those of the tutorial: flags, prompts and dry runs."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.cli.flags import quoted
from rollgym.servers.config.overrides import parse_overrides
from tests.faulty_model import FaultyModel, in_background, unused_port
from tests.integration.rollouts.commands import AGENT, Workshop, task

CONFIG = ("--config", "parrots.yaml")
FILES = ("--input", "in.jsonl", "--output", "out.jsonl")


def parts(workshop: Workshop) -> set[Path]:
    return {path for path in workshop.folder.rglob("*") if "__pycache__" not in path.parts}


@given(st.text(st.characters(blacklist_characters="$", codec="utf-8", min_codepoint=32)))
def test_the_value_of_a_flag_arrives_as_it_was_written(text: str) -> None:
    assert parse_overrides([f"+name={quoted(text)}"]) == {"name": text}


def test_flags_and_overrides_set_the_same_settings(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a"), task("b")])
    ended = workshop.run(
        *("collect", *CONFIG, *FILES, "-a", AGENT, "--limit=1", "--num-repeats", "2"),
        *("--concurrency", "1", "--temperature", "0.5", "--num-repeats-add-seed", "--seed", "-3"),
        *("+responses_create_params.top_p=0.9", "+max_attempts=1"),
    )
    assert ended.status == 0, ended.stderr
    sent = workshop.rollouts()
    assert sent.keys() == {(0, 0), (0, 1)}
    params = sent[0, 1]["responses_create_params"]
    assert (params["temperature"], params["top_p"]) == (0.5, 0.9)
    assert json.loads(params["metadata"]["extra_body"]) == {"seed": -2}
    assert ended.stderr.endswith("Done. `--no-resume` starts over.\n")


def test_a_temperature_must_be_a_number(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a")])
    ended = workshop.run("collect", *CONFIG, *FILES, "-a", AGENT, "--temperature", "hot")
    assert (ended.status, workshop.path("out.run").exists()) == (2, False)
    assert "temperature must be a number" in ended.stderr


def test_standard_output_has_the_json_block_alone(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a")])
    ended = workshop.collect(f"+agent_name={AGENT}")
    assert json.loads(ended.stdout)["avg_reward"] == 1.0
    assert "1 expected = 1 completed" in ended.stderr


def test_the_only_agent_is_used_and_named(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a")])
    servers = json.loads(workshop.path("parrots.yaml").read_text())
    workshop.path("one.yaml").write_text(json.dumps({AGENT: servers[AGENT]}))
    ended = workshop.collect(config="one.yaml")
    assert ended.status == 0, ended.stderr
    assert ended.stderr.startswith(f"Agent: {AGENT} (the only one)\n")
    (row,) = workshop.rows("out.jsonl")
    assert row["agent_ref"]["name"] == AGENT


def test_a_dry_run_checks_everything_and_changes_nothing(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a"), task("b")])
    dry = ("collect", *CONFIG, *FILES, "--agent", AGENT, "--dry-run")
    before = parts(workshop)
    ended = workshop.run(*dry)
    assert (ended.status, parts(workshop)) == (0, before)
    assert "nothing was started" in ended.stdout
    assert "2 rollouts of 2 tasks" in ended.stdout
    assert "out.run is new" in ended.stdout
    workshop.run(*dry[:-1], "--limit", "1")
    before = parts(workshop)
    assert "out.run continues: 1 of 2 rollouts have an outcome" in workshop.run(*dry).stdout
    refused = workshop.run(*dry, "--seed", "7")
    assert (refused.status, refused.stdout) == (6, "")
    assert "out.run holds a different run:\n  seed: 0 in the run, 7 now" in refused.stderr
    workshop.write("in.jsonl", [{}])
    assert workshop.run(*dry).status == 6
    assert parts(workshop) == before


def test_servers_can_be_checked_without_starting_them(workshop: Workshop) -> None:
    head = f"+head_server.port={unused_port()}"
    run = ("run", "+config_paths=[parrots.yaml]", "+dry_run=true", head)
    ended = workshop.run(*run)
    assert (ended.status, ended.stderr) == (0, "")
    assert f"nothing was started. Servers: {AGENT}, other_parrot_agent" in ended.stdout
    (plugin,) = workshop.path("responses_api_agents").iterdir()
    refused = workshop.run(*run, f"+{AGENT}.responses_api_agents.{plugin.name}.voise=loud")
    assert (refused.status, "did you mean 'voice'?" in refused.stderr) == (6, True)


def test_resuming_and_aggregation_by_the_names_of_nemo_gym(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a")])
    named = (f"+agent_name={AGENT}", "+disable_aggregation=true")
    assert workshop.collect(*named, "+resume_from_cache=true").status == 0
    assert not workshop.path("out_aggregate_metrics.json").exists()
    assert "nothing had to run" in workshop.collect(*named, "+resume_from_cache=true").text
    assert workshop.collect(*named, "+resume_from_cache=false").status == 0
    assert workshop.path("out.jsonl.previous-1").exists()


# Prompts.


def test_a_prompt_template_makes_the_input_of_every_row(workshop: Workshop) -> None:
    workshop.path("prompt.yaml").write_text(
        "system: Answer as {style[name]}.\nuser: |-\n  {question} {{braces}} {number:.1f}\n"
    )
    row = {"question": "Why {x}?", "style": {"name": "a bird"}, "number": 2}
    params = {"temperature": 0.5}
    workshop.write("in.jsonl", [row, {**row, "responses_create_params": params}])
    ended = workshop.collect(f"+agent_name={AGENT}", "+prompt_config=prompt.yaml")
    assert ended.status == 0, ended.stderr
    messages = [
        {"role": "system", "content": "Answer as a bird."},
        {"role": "user", "content": "Why {x}? {braces} 2.0"},
    ]
    sent = [row["responses_create_params"] for _, row in sorted(workshop.rollouts().items())]
    assert sent == [{"input": messages}, {**params, "input": messages}]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("user: '{question} {hint}'", "in.jsonl:1: the template uses {hint}, which the row does"),
        ("user: '{question.__class__}'", "in.jsonl:1: {question.__class__}: the name of a field"),
        ("system: hi", "prompt.yaml does not hold prompt templates"),
        ("user: '{question'", "prompt.yaml: `user` is not a template: "),
        ("user: 'a {} b'", "prompt.yaml: `user`: braces must hold the name of a field"),
        ("user: '{question:.1f}'", "in.jsonl:1: the template `user` does not fit the row: "),
        ("user: '{other}'", "in.jsonl:2: responses_create_params.input is given"),
    ],
)
def test_a_template_that_does_not_fit_is_refused_with_its_place(
    workshop: Workshop, template: str, message: str
) -> None:
    workshop.path("prompt.yaml").write_text(template)
    workshop.write("in.jsonl", [{"question": "Why?"}, task("a", other="x", question=1)])
    ended = workshop.collect(f"+agent_name={AGENT}", "+prompt_config=prompt.yaml")
    assert (ended.status, ended.stdout) == (6, "")
    assert message in ended.stderr


# The model by flags.


def test_a_model_by_flags_needs_no_config_file(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARROT_KEY", "no-secret")
    with in_background(FaultyModel([])) as model:
        ended = workshop.run(
            *("collect", "--agent", "simple_agent", "--output", "out.jsonl", "--limit", "2"),
            *("--input", "resources_servers/mcqa/data/example.jsonl"),
            *("--model-url", model.base_url, "--model", "parrot/it's", "--temperature", "0"),
            *("--api-key-env", "PARROT_KEY"),
        )
    assert ended.status == 0, ended.stderr
    request = model.requests[-1]
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer no-secret"
    assert (request.json["model"], request.json["temperature"]) == ("parrot/it's", 0)
    assert {row["agent_ref"]["name"] for row in workshop.rows("out.jsonl")} == {"mcqa_simple_agent"}
    assert "no-secret" not in ended.text
    assert not any(b"no-secret" in path.read_bytes() for path in parts(workshop) if path.is_file())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--agent", "mcqa_simple_agnt"], "did you mean 'mcqa_simple_agent'?"),
        ([], "name the agent with --agent (code_gen_simple_agent, "),
    ],
)
def test_an_agent_that_no_config_file_describes_is_refused(
    workshop: Workshop, flags: list[str], message: str
) -> None:
    workshop.write("in.jsonl", [task("a")])
    ended = workshop.run("collect", *FILES, *flags, "--model", "m")
    assert (ended.status, message in ended.stderr) == (2, True), ended.stderr


def test_another_command_does_not_name_options_that_it_lacks(workshop: Workshop) -> None:
    script = [{"unavailable": "gone"}]
    workshop.write("in.jsonl", [task("a", script=script), task("b")])
    ended = workshop.collect(f"+agent_name={AGENT}", "+max_attempts=1")
    assert ended.stderr.endswith("`+retry_failed=true` runs it again.\n")
    status = workshop.run("status", "out.jsonl")
    assert status.stdout.endswith("`retry_failed: true` runs it again.\n")


def test_a_program_is_the_agent_of_an_environment_and_never_sees_the_key_of_the_model(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARROT_KEY", "no-secret")
    program = """
import json, os, urllib.request
assert "no-secret" not in str(dict(os.environ))
said = [{"role": "user", "content": open(os.environ["ROLLGYM_PROMPT_FILE"]).read()}]
headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
body = json.dumps({"model": "x", "messages": said, "temperature": 1}).encode()
urllib.request.urlopen(urllib.request.Request(url, body, headers)).read()
"""
    workshop.path("agent.py").write_text(program)
    with in_background(FaultyModel()) as model:
        ended = workshop.run(
            *("collect", "--command", f"{sys.executable} -S {workshop.path('agent.py')}"),
            *("--input", "resources_servers/mcqa/data/example.jsonl", "--output", "out.jsonl"),
            *("--model-url", model.base_url, "--model", "parrot", "--limit", "1"),
            *("--temperature", "0", "--api-key-env", "PARROT_KEY"),
        )
    assert ended.status == 0, ended.stderr
    request = model.requests[-1]
    assert request.headers["authorization"] == "Bearer no-secret"
    assert (request.json["model"], request.json["temperature"]) == ("parrot", 0)
    (row,) = workshop.rows("out.jsonl")
    assert row["agent_ref"]["name"] == "command_agent"
    assert row["rollgym_calls"]["replaced"] == {"temperature": 1}
    assert row["output"] == [{"role": "assistant", "content": "Fine."}]


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--command", "true", "--agent-url", "http://127.0.0.1:1"), "one of the two"),
        (("--command", "true"), "name the environment that scores the agent"),
        (("--command", "true", "--resources-server", "mcq"), "did you mean 'mcqa'"),
        (("--resources-server", "mcqa"), "one of the two"),
        (("--command", "no-such-program", "--resources-server", "mcqa"), "no program"),
    ],
)
def test_a_program_that_cannot_be_the_agent_is_refused(
    workshop: Workshop, flags: tuple[str, ...], problem: str
) -> None:
    workshop.write("in.jsonl", [task("a")])
    model = ("--model-url", "http://127.0.0.1:1/v1", "--model", "m")
    ended = workshop.run("collect", *flags, *model, *FILES)
    assert ended.status != 0
    assert problem in ended.stderr
    assert not workshop.path("out.jsonl").exists() or not workshop.rows("out.jsonl")
