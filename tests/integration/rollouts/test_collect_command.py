"""`ng_collect_rollouts` against agents that do what the rows tell them to."""

import json
import re
from typing import Any

import pytest

from rollgym.cli.rollout_settings import CollectSettings
from tests.integration.rollouts.commands import AGENT, OTHER_AGENT, Json, Workshop, task

NAMED = f"+agent_name={AGENT}"
REPEATED = "+materialize_repeats=true"


def keys(workshop: Workshop, name: str = "out.jsonl") -> list[tuple[int, int]]:
    """Of the rows in their order."""
    return [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in workshop.rows(name)]


def refused(workshop: Workshop, *overrides: str, status: int = 6, **options: Any) -> str:
    """What is said about a command that is refused, which leaves no trace."""
    before = sorted(workshop.folder.rglob("*"))
    ended = workshop.collect(*overrides, **options)
    assert (ended.status, ended.stdout) == (status, ""), ended.stderr
    assert [p for p in sorted(workshop.folder.rglob("*")) if "__pycache__" not in p.parts] == [
        p for p in before if "__pycache__" not in p.parts
    ]
    return ended.stderr


# What is collected.


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], [(0, 0), (1, 0), (2, 0)]),
        (
            ["+limit=null", "+num_repeats=null", "+num_samples_in_parallel=null"],
            [(0, 0), (1, 0), (2, 0)],
        ),
        (
            ["+limit=2", "+num_repeats=2", "+num_samples_in_parallel=5"],
            [(0, 0), (0, 1), (1, 0), (1, 1)],
        ),
        (["+limit=99", "+num_repeats=1"], [(0, 0), (1, 0), (2, 0)]),
    ],
)
def test_limit_and_repeats_say_how_much(
    workshop: Workshop, options: list[str], expected: list[tuple[int, int]]
) -> None:
    workshop.write("in.jsonl", [task("a"), task("b"), task("c")])
    ended = workshop.collect(NAMED, *options)
    assert ended.status == 0
    assert sorted(keys(workshop)) == expected
    assert ended.coverage.startswith(f"{len(expected)} expected = {len(expected)} completed + 0")


def test_repeats_are_dispatched_task_by_task_in_order(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a"), task("b"), task("a"), task("c")])
    workshop.collect(NAMED, "+num_repeats=2", "+num_samples_in_parallel=1")
    assert keys(workshop) == [
        *((0, repeat) for repeat in range(4)),
        *((index, repeat) for index in (1, 2) for repeat in range(2)),
    ]


def test_repeats_by_agent_and_the_agent_of_a_row(workshop: Workshop) -> None:
    rows = [task("a"), task("b", agent_ref={"type": "responses_api_agents", "name": OTHER_AGENT})]
    workshop.write("in.jsonl", rows)
    ended = workshop.collect(NAMED, f"+num_repeats={{_default: 1, {OTHER_AGENT}: 3}}")
    assert ended.status == 0
    rollouts = workshop.rollouts()
    assert sorted(rollouts) == [(0, 0), (1, 0), (1, 1), (1, 2)]
    assert {row["output"][0]["content"] for key, row in rollouts.items() if key[0]} == {OTHER_AGENT}
    assert rollouts[0, 0]["output"][0]["content"] == AGENT
    metrics = json.loads(workshop.path("out_aggregate_metrics.json").read_text())
    assert {each["agent_ref"]["name"]: each["key_metrics"] for each in metrics} == {
        AGENT: {"parrots": 1},
        OTHER_AGENT: {"parrots": 3},
    }


def test_overrides_of_parameters_reach_the_agent_and_the_files(workshop: Workshop) -> None:
    line = (
        '{"responses_create_params":{"input":"a","text":{"verbosity":"low"},"top_p":0.50},"x":1.0}'
    )
    workshop.path("in.jsonl").write_text(line)
    ended = workshop.collect(
        NAMED,
        "+responses_create_params.max_output_tokens=8192",
        "+responses_create_params.temperature=0.7",
        "+responses_create_params.text.format=plain",
        "+responses_create_params.stop=[a,b]",
    )
    assert ended.status == 0
    for name in ("out.jsonl", "out_materialized_inputs.jsonl"):
        text = workshop.path(name).read_text()
        assert (
            '"responses_create_params":{"input":"a","text":{"verbosity":"low","format":"plain"},'
            '"top_p":0.50,"max_output_tokens":8192,"temperature":0.7,"stop":["a","b"]}'
        ) in text
        assert '"x":1.0' in text


def test_each_repeat_can_have_a_seed_of_its_own(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a"), task("b")])
    workshop.collect(NAMED, "+num_repeats=3", "+num_repeats_add_seed=true", "+seed=10", REPEATED)
    for name in ("out.jsonl", "out_materialized_inputs.jsonl"):
        rows = workshop.rollouts(name)
        params = {key: row["responses_create_params"] for key, row in rows.items()}
        assert all(each.keys() == {"input", "metadata"} for each in params.values())
        bodies = {key: json.loads(each["metadata"]["extra_body"]) for key, each in params.items()}
        assert bodies == {
            (index, repeat): {"seed": 10 + repeat} for index in range(2) for repeat in range(3)
        }


def test_a_run_of_an_earlier_version_continues_with_its_seeds_where_they_were(
    workshop: Workshop,
) -> None:
    workshop.write("in.jsonl", [task("a")])
    options = (NAMED, "+num_repeats_add_seed=true", "+seed=10")
    workshop.collect(*options)
    manifest = workshop.path("out.run/manifest.json")
    manifest.write_text(manifest.read_text().replace('"metadata.extra_body"', "true"))
    workshop.path("out.jsonl").unlink()
    ended = workshop.collect(*options)
    assert ended.status == 0, ended.stderr
    (row,) = workshop.rows("out.jsonl")
    assert row["responses_create_params"] == {"input": "a", "seed": 10}


def test_rollouts_can_be_used_as_inputs_and_lose_their_old_results(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a", metadata={"source": "book"})])
    workshop.collect(NAMED, "+num_repeats=2")
    ended = workshop.collect(input_jsonl_fpath="out.jsonl", output_jsonl_fpath="again.jsonl")
    assert ended.status == 0, ended.stderr
    assert sorted(keys(workshop, "again.jsonl")) == sorted(keys(workshop)) == [(0, 0), (0, 1)]
    (first, _), (again, _) = workshop.rows("out.jsonl"), workshop.rows("again.jsonl")
    assert first.keys() == again.keys()
    assert first["metadata"].keys() == again["metadata"].keys()
    assert again["metadata"]["source"] == "book"


@pytest.mark.parametrize("seeded", [False, True])
def test_inputs_as_they_were_sent_can_be_used_as_inputs(workshop: Workshop, seeded: bool) -> None:
    options = [NAMED, f"+num_repeats_add_seed={seeded}".lower()]
    workshop.write("in.jsonl", [task("a"), task("b"), task("a")])
    workshop.collect(*options, "+num_repeats=2", REPEATED)
    ended = workshop.collect(
        *options,
        input_jsonl_fpath="out_materialized_inputs.jsonl",
        output_jsonl_fpath="again.jsonl",
    )
    assert ended.status == 0, ended.stderr
    assert sorted(keys(workshop, "again.jsonl")) == sorted(keys(workshop))
    first, again = (workshop.rollouts(name) for name in ("out.jsonl", "again.jsonl"))
    for key, row in first.items():
        assert row["responses_create_params"] == again[key]["responses_create_params"]


def test_output_folders_are_made_and_odd_names_are_names(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("é")])
    path = "new/é folder/v2.0 'x'.jsonl"
    ended = workshop.collect(NAMED, f'+output_jsonl_fpath="{path}"', output_jsonl_fpath="x.jsonl")
    assert ended.status == 0, ended.stderr
    assert [row["responses_create_params"]["input"] for row in workshop.rows(path)] == ["é"]
    (line,) = [line for line in ended.lines if line.startswith("look at them:")]
    assert "'\"'\"'" in line  # to be pasted into a shell


def test_an_output_that_is_a_link_stays_one(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a")])
    workshop.path("out.jsonl").symlink_to("elsewhere.jsonl")
    assert workshop.collect(NAMED).status == 0
    assert workshop.path("out.jsonl").is_symlink()
    assert keys(workshop, "elsewhere.jsonl") == [(0, 0)]


@pytest.mark.parametrize("folder", ["/proc/nothing", "in.jsonl"])
def test_a_folder_that_cannot_be_written_is_an_error_in_words(
    workshop: Workshop, folder: str
) -> None:
    workshop.write("in.jsonl", [task("a")])
    ended = workshop.collect(NAMED, output_jsonl_fpath=f"{folder}/out.jsonl")
    assert (ended.status, ended.stdout) == (7, "")
    assert "out.run: " in ended.stderr
    assert "Traceback" not in ended.stderr


# The row, and what a verifier may do to it.


def test_fields_that_the_verifier_does_not_echo_are_kept(workshop: Workshop) -> None:
    answer = {"reward": 0.25, "matched": [1], "note": "changed"}
    script = [{"echo": False, "answer": answer}]
    workshop.write("in.jsonl", [task("a", expected={"x": 1.0}, note="mine", script=script)])
    workshop.collect(NAMED)
    (row,) = workshop.rows("out.jsonl")
    assert row.pop("metadata")["verification_score"] == 0.25
    assert row.pop("output") == [{"role": "assistant", "content": AGENT}]
    assert row.pop("response")["output"][0]["content"] == AGENT
    assert row == {
        **task("a", expected={"x": 1.0}, note="changed", script=script),
        "agent_ref": {"type": "responses_api_agents", "name": AGENT},
        "reward": 0.25,
        "success": False,
        "matched": [1],
        "_ng_task_index": 0,
        "_ng_rollout_index": 0,
    }


def test_a_row_that_comes_with_a_response_and_a_reward_gets_its_own(workshop: Workshop) -> None:
    rows = [
        task(
            "a",
            reward=1.0,
            success=True,
            response={"output": []},
            script=[{"answer": {"reward": 0.0}}],
        ),
        task("b", reward=1.0, success=True, script=[{"answer": {"reward": None}}]),
        task("c", reward=1.0, script=[{"raw": '{"reward": 0.5}'}]),
    ]
    workshop.write("in.jsonl", rows)
    ended = workshop.collect(NAMED, "+max_attempts=1")
    assert ended.status == 3
    rollouts = workshop.rollouts()
    assert {key: (row["reward"], row["success"]) for key, row in rollouts.items()} == {
        (0, 0): (0.0, False),
        (2, 0): (0.5, False),
    }
    assert rollouts[0, 0]["response"]["output"][0]["content"] == AGENT
    assert "response" not in rollouts[2, 0]


def test_the_threshold_of_success_is_what_the_command_says(workshop: Workshop) -> None:
    rows = [
        task(name, script=[{"answer": {"reward": reward}}])
        for name, reward in (("a", 0.4), ("b", 0.6))
    ]
    workshop.write("in.jsonl", rows)
    ended = workshop.collect(NAMED, "+success_threshold=0.5")
    assert [row["success"] for _, row in sorted(workshop.rollouts().items())] == [False, True]
    assert ended.headline["success_rate"] == 0.5
    profile = workshop.run("profile", "out.jsonl")
    assert [line.split()[5] for line in profile.lines[1:3]] == ["0", "1"]


def test_marks_of_a_verifier_decide_what_a_row_counts_as(workshop: Workshop) -> None:
    marks: dict[str, Json] = {
        "good": {},
        "failed": {"_ng_failure_class": "sandbox_down", "_ng_failure_terminal": True},
        "skipped": {"_ng_no_persist": True},
        "mended": {},
    }
    rows = [task(name, name=name, script=[{"answer": mark}]) for name, mark in marks.items()]
    rows[3]["script"].insert(0, {"answer": {"_ng_failure_class": "tool"}})
    workshop.write("in.jsonl", rows)
    ended = workshop.collect(NAMED, "+max_attempts=2")
    assert ended.status == 3
    assert ended.coverage == "4 expected = 2 completed + 1 failed + 1 omitted + 0 unresolved"
    assert [row["name"] for row in workshop.rollouts().values()] == ["good", "mended"]
    failures = {row["_ng_task_index"]: row for row in workshop.rows("out_failures.jsonl")}
    assert failures.keys() == {1, 3}
    assert failures[1]["_ng_failure_class"] == "sandbox_down"
    assert failures[1]["_ng_failure_terminal"] is True
    assert (failures[1]["final"], failures[3]["final"]) == (True, False)
    assert (failures[3]["_ng_failure_class"], failures[3]["_ng_failure_terminal"]) == (
        "tool",
        False,
    )
    assert "reward" not in failures[1]


# Failures, retries, time.


def test_attempts_are_bounded_and_each_failed_one_is_told(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a", script=[{"unavailable": "gone"}])])
    ended = workshop.collect(NAMED, "+max_attempts=2")
    assert ended.status == 3
    assert workshop.rows("out.jsonl") == []
    failures = workshop.rows("out_failures.jsonl")
    assert [(row["attempt"], row["final"]) for row in failures] == [(1, False), (2, True)]
    assert {row["_ng_failure_class"] for row in failures} == {"model_unavailable"}
    assert {row["failure"]["detail"] for row in failures} == {"gone"}
    assert "1 x model_unavailable" in ended.text
    assert "+retry_failed=true" in ended.lines[-1]
    assert json.loads(workshop.path("out_aggregate_metrics.json").read_text()) == []


def test_a_rollout_gets_no_more_time_than_the_command_gives_it(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a", script=[{"sleep": 60}])])
    ended = workshop.collect(NAMED, "+rollout_timeout=0.2")
    assert ended.status == 3
    (failure,) = workshop.rows("out_failures.jsonl")
    assert failure["failure"]["kind"] == "timeout"


def test_an_attempt_has_a_time_of_its_own_and_a_long_rollout_is_not_cut_at_half_an_hour(
    workshop: Workshop,
) -> None:
    workshop.write("in.jsonl", [task("a", script=[{"sleep": 60}, {}])])
    assert workshop.collect(NAMED, "+attempt_timeout=0.2").status == 0
    (failure,) = workshop.rows("out_failures.jsonl")
    assert (failure["failure"]["kind"], failure["final"]) == ("timeout", False)
    cases: list[tuple[dict[str, float], tuple[float, float]]] = [
        ({}, (1800, 7200)),
        ({"rollout_timeout": 5400}, (5400, 5400)),
        ({"rollout_timeout": 60}, (60, 60)),
        ({"attempt_timeout": 9000}, (9000, 9000)),
        ({"attempt_timeout": 600, "rollout_timeout": 5400}, (600, 5400)),
    ]
    for given, times in cases:
        paths = {"input_jsonl_fpath": "in.jsonl", "output_jsonl_fpath": "out.jsonl"}
        policy = CollectSettings.model_validate(paths | given).policy
        assert (policy.attempt_timeout, policy.rollout_timeout) == times, given


def test_a_collection_stops_when_every_rollout_fails_alike(workshop: Workshop) -> None:
    rows = [task(str(number), script=[{"unavailable": "gone"}]) for number in range(9)]
    workshop.write("in.jsonl", rows)
    once = (NAMED, "+max_attempts=1", "+num_samples_in_parallel=1")
    stopped = workshop.collect(*once, "+max_same_failures=3")
    assert stopped.status == 8
    assert stopped.coverage == "9 expected = 0 completed + 3 failed + 0 omitted + 6 unresolved"
    assert "check that the model's server runs" in stopped.text
    assert "+retry_failed=true" in stopped.lines[-1]
    assert workshop.collect(*once, "+max_same_failures=0").status == 3


def test_tokens_are_priced_counted_and_bounded(workshop: Workshop) -> None:
    """Also those of an agent that does not report its calls."""
    usage = {"input_tokens": 1000, "output_tokens": 500, "total_tokens": 1500}
    response = {"output": [], "model": "gpt-x-mini", "usage": usage}
    script = [{"answer": {"response": response}}]
    workshop.write("in.jsonl", [task(str(number), script=script) for number in range(9)])
    workshop.path("prices.yaml").write_text("gpt-x*: {input: 1.5, output: 6}")
    given = (NAMED, "+num_samples_in_parallel=1", "+prices=prices.yaml")
    stopped = workshop.collect(*given, "+max_cost=0.01")
    assert stopped.status == 8
    assert stopped.coverage == "9 expected = 3 completed + 0 failed + 0 omitted + 6 unresolved"
    assert "raise the limit" in stopped.text
    assert json.loads(stopped.stdout)["cost_usd"] == 0.0135
    assert "policy gpt-x-mini: 3,000 in, 1,500 out; $0.0135" in stopped.text
    assert {row["metadata"]["cost_usd"] for row in workshop.rows("out.jsonl")} == {0.0045}
    assert workshop.collect(*given, "+max_tokens=13500").status == 0
    wrong = refused(workshop, NAMED, "+max_cost=1", status=2, output_jsonl_fpath="b.jsonl")
    assert "max_cost needs prices" in wrong
    wrong = refused(workshop, NAMED, "+prices={a: {in: 1}}", status=2, output_jsonl_fpath="b.jsonl")
    assert "the price of 'a' is not valid" in wrong


def test_a_server_that_dies_too_often_stops_the_collection(workshop: Workshop) -> None:
    (implementation,) = (path.name for path in workshop.path("responses_api_agents").iterdir())
    settings = {"entrypoint": "app.py", "isolated": True, "restarts": 0}
    servers = {AGENT: {"responses_api_agents": {implementation: settings}}}
    workshop.path("isolated.yaml").write_text(json.dumps(servers))
    others = [task(str(number)) for number in range(20)]
    workshop.write("in.jsonl", [task("a"), task("b", script=[{"dies": True}]), *others])
    ended = workshop.collect(
        *(NAMED, "+num_samples_in_parallel=1", "+server_patience=0"), config="isolated.yaml"
    )
    assert ended.status == 8, ended.stderr
    assert f"{AGENT} is not restarted again after 0 restarts" in ended.text
    assert list(workshop.rollouts()) == [(0, 0)]


def test_what_failed_is_run_again_only_when_asked(workshop: Workshop) -> None:
    script = [{"unavailable": "gone"}]
    workshop.write("in.jsonl", [task("a", script=script), task("b")])
    once = (NAMED, "+max_attempts=1")
    assert workshop.collect(*once).status == 3
    again = workshop.collect(*once)
    assert again.status == 3
    assert "nothing had to run" in again.text
    assert workshop.collect(*once, "+retry_failed=true").status == 3
    failures = workshop.rows("out_failures.jsonl")
    assert [row["attempt"] for row in failures] == [1, 2]
    assert sorted(keys(workshop)) == [(1, 0)]


def test_stragglers_are_omitted_where_the_command_says_so(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a"), task("b", script=[{"sleep": 60}, {}])])
    early = (NAMED, "+completion_threshold=0.5", "+completion_grace_period=0")
    ended = workshop.collect(*early)
    assert ended.status == 4
    assert ended.coverage == "2 expected = 1 completed + 0 failed + 1 omitted + 0 unresolved"
    assert workshop.rows("out_failures.jsonl") == []
    assert sorted(keys(workshop)) == [(0, 0)]
    assert "+retry_omitted=true" in ended.lines[-1]


def test_requests_that_fail_are_logged_beside_the_journal_and_not_on_the_screen(
    workshop: Workshop,
) -> None:
    workshop.write("in.jsonl", [task("a", script=[{"unavailable": "gone"}])])
    ended = workshop.collect(NAMED, "+max_attempts=1")
    assert '"message":"gone"' not in ended.stderr
    (line,) = workshop.rows("out.run/servers.log")
    assert (line["level"], line["server"], line["rollout"]) == ("warning", AGENT, "0/0")
    assert "failed requests:   out.run/servers.log" in ended.lines


# Once more.


def test_the_same_command_again_has_nothing_to_do(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a"), task("b")])
    assert workshop.collect(NAMED).status == 0
    files = {p: p.read_bytes() for p in workshop.folder.glob("out*.json*")}
    assert len(files) == 4
    again = workshop.collect(NAMED)
    assert again.status == 0
    assert "all rollouts were collected before: nothing had to run" in again.text
    assert {path: path.read_bytes() for path in files} == files


def test_a_run_grows_with_the_limit_and_the_repeats(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task(name) for name in "abc"])
    assert workshop.collect(NAMED, "+limit=2").status == 0
    first = workshop.rollouts()
    grown = workshop.collect(NAMED, "+num_repeats=2")
    assert grown.status == 0, grown.stderr
    assert "the run grows from 2 rollouts of 2 tasks to 6 of 3" in grown.stderr
    assert "continuing: 2 of 6 done" in grown.stderr
    assert grown.coverage == "6 expected = 6 completed + 0 failed + 0 omitted + 0 unresolved"
    assert "all repeats done for 3 of 3 tasks" in grown.text
    rollouts = workshop.rollouts()
    assert sorted(rollouts) == [(index, repeat) for index in range(3) for repeat in range(2)]
    assert {key: rollouts[key] for key in first} == first
    assert len(workshop.rows("out_materialized_inputs.jsonl")) == 3
    status = workshop.run("status", "out.jsonl")
    assert (status.coverage, "3 of 3 tasks" in status.stdout) == (grown.coverage, True)
    profile = workshop.run("profile", "out.jsonl", "--json")
    assert [json.loads(line)["repeats"] for line in profile.stdout.splitlines()] == [2, 2, 2]
    assert "more rows and more repeats, but not fewer" in refused(workshop, NAMED, "+limit=2")


def test_another_run_is_rejected_with_what_is_different(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a")])
    workshop.collect(NAMED)
    params = "responses_create_params.temperature"
    for change, named in (
        (f"+{params}=0.5", f"{params}: absent in the run, 0.5 now"),
        ("+seed=3", "seed: 0 in the run, 3 now"),
        ("+success_threshold=0.5", "success_threshold: 1.0 in the run, 0.5 now"),
        (
            "+num_repeats_add_seed=true",
            'num_repeats_add_seed: false in the run, "metadata.extra_body" now',
        ),
    ):
        refusal = refused(workshop, NAMED, change)
        assert named in refusal
        assert "+resume=false" in refusal


def test_another_setting_of_a_server_is_another_run_but_how_it_is_run_is_not(
    workshop: Workshop,
) -> None:
    workshop.write("in.jsonl", [task("a")])
    workshop.collect(NAMED)
    (plugin,) = workshop.path("responses_api_agents").iterdir()
    setting = f"+{AGENT}.responses_api_agents.{plugin.name}"
    refusal = refused(workshop, NAMED, f"{setting}.voice=loud")
    assert "voice: absent in the run, " in refusal
    assert workshop.collect(NAMED, f"{setting}.request_timeout=5").status == 0
    assert workshop.collect(NAMED, "+num_samples_in_parallel=3", "+max_attempts=5").status == 0


def test_a_new_run_puts_the_old_one_aside_with_its_files(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a")])
    workshop.collect(NAMED)
    old = workshop.path("out.jsonl").read_bytes()
    ended = workshop.collect(NAMED, "+resume=false", "+num_repeats=2")
    assert ended.status == 0
    assert sorted(keys(workshop)) == [(0, 0), (0, 1)]
    assert workshop.path("out.jsonl.previous-1").read_bytes() == old
    assert workshop.path("out.run.previous-1/journal.jsonl").exists()
    assert workshop.path("out_materialized_inputs.jsonl.previous-1").exists()
    assert len(workshop.rows("out_materialized_inputs.jsonl")) == 1
    assert workshop.collect(NAMED, "+resume=false").status == 0
    assert workshop.path("out.run.previous-2").exists()
    assert workshop.path("out.jsonl.previous-2").exists()


def test_a_file_that_belongs_to_no_run_is_not_written_to(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a")])
    workshop.path("out_failures.jsonl").write_text("precious\n")
    refusal = refused(workshop, NAMED)
    assert "out_failures.jsonl exists, but its run out.run does not" in refusal
    assert workshop.collect(NAMED, "+resume=false").status == 0
    assert workshop.path("out_failures.jsonl.previous-1").read_text() == "precious\n"


def test_a_directory_is_not_written_to(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a")])
    workshop.path("out.jsonl").mkdir()
    assert "out.jsonl exists and is not a file" in refused(workshop, NAMED)
    assert "is not a file" in refused(workshop, NAMED, "+resume=false")


def test_the_input_is_never_written_to(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a")])
    for name in ("in.jsonl", "./in.jsonl"):
        assert "would write" in refused(workshop, NAMED, output_jsonl_fpath=name)
    workshop.collect(NAMED)
    sent = "out_materialized_inputs.jsonl"
    assert "would write" in refused(workshop, NAMED, input_jsonl_fpath=sent)


# What is refused before anything is started.


def test_bad_rows_are_told_together_and_nothing_is_started(workshop: Workshop) -> None:
    rows = [
        task("a"),
        {},
        task("b", agent_ref={"name": "parot_agent"}),
        {"responses_create_params": 1},
    ]
    workshop.write("in.jsonl", rows)
    refusal = refused(workshop, NAMED, output_jsonl_fpath="new/out.jsonl")
    assert refusal.splitlines() == [
        "rollgym: 3 bad row(s) in in.jsonl; nothing was started:",
        "  in.jsonl:2: responses_create_params is missing",
        f"  in.jsonl:3: there is no agent 'parot_agent'; did you mean {AGENT}?",
        "  in.jsonl:4: responses_create_params must be an object",
    ]


WRONG_OPTIONS = {
    "+limit=0": "+limit: Input should be greater than or equal to 1, not 0",
    "+limit=true": "+limit: a number is needed, not True",
    "+num_repeats={_default: 0}": "+num_repeats: ",
    "+num_repeats={parot_agent: 2}": "+num_repeats: there is no agent 'parot_agent'; did you mean",
    "+shard=2/2": "+shard: ",
    "+shard=slrum": "+shard: shard 'slrum': give it as i/n, such as 0/4\n",
    "+rollout_timeout=inf": "+rollout_timeout: Input should be a finite number",
    "+ray_address=auto": "+ray_address: must be null without launcher=ray, not 'auto'",
    "+max_atempts=2": "+max_atempts: there is no such option; did you mean +max_attempts?",
    "+resume=perhaps": "+resume: Input should be a valid boolean",
    "+responses_create_params=hot": "+responses_create_params: Input should be a valid dictionary",
    "+output_jsonl_fpath=out.json": "+output_jsonl_fpath: the name must end in .jsonl",
    "+agent_name=parot_agent": f"there is no agent 'parot_agent'; did you mean {AGENT}?",
    "+input_jsonl_fpath=null": "+input_jsonl_fpath is missing, as in: ",
    "+resume=true +resume_from_cache=false": "resume and resume_from_cache are the same option",
    "limit": "this is not an override",
    "--limt 3": "--limt: there is no such option; did you mean --limit?",
    "--limit": "--limit needs a value: number of rows to use",
    "--resume=true": "--resume takes no value",
    "--limit 0": "--limit: Input should be greater than or equal to 1, not 0",
    "--agent parot_agent": f"--agent: there is no agent 'parot_agent'; did you mean {AGENT}?",
    "--output=null": "--output: the name must end in .jsonl",
    "--api-key-env NO_SUCH_KEY": "--api-key-env: the environment has no variable NO_SUCH_KEY",
    "--model-type parot": "--model-type: there is no model server 'parot'; there are ",
}
WRONG_FILES = {
    "+agent_name=null": "the row has no agent_ref.name, and the command names no agent",
    "+input_jsonl_fpath=im.jsonl": "there is no file im.jsonl; did you mean in.jsonl?",
}


def test_a_wrong_option_is_rejected_with_what_is_wrong(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a")])
    for status, wrong in ((2, WRONG_OPTIONS), (6, WRONG_FILES)):
        for options, message in wrong.items():
            given = re.split(r" (?=[+-])|(?<=[a-z]) (?=[^+:])", options)
            refusal = refused(workshop, NAMED, *given, status=status)
            assert message in refusal
            assert "Traceback" not in refusal


def test_everything_that_is_missing_is_named_with_an_example(workshop: Workshop) -> None:
    ended = workshop.run("collect", "+config_paths=[parrots.yaml]")
    assert ended.status == 2
    for name in ("+input_jsonl_fpath", "+output_jsonl_fpath"):
        assert f"{name} is missing, as in: ng_collect_rollouts +agent_name=" in ended.stderr


def test_help_names_every_option(workshop: Workshop) -> None:
    ended = workshop.run("collect", "--help")
    assert ended.status == 0
    for option in (
        "limit",
        "num_repeats",
        "num_repeats_add_seed",
        "shard",
        "resume",
        "config_paths",
    ):
        assert f" +{option}=…" in ended.text


# Aggregate metrics.


def test_an_agent_that_has_no_numbers_gets_the_usual_ones(workshop: Workshop) -> None:
    rows = [
        task(f"{reward}", no_numbers=1, script=[{"echo": False, "answer": {"reward": reward}}])
        for reward in (0.0, 1.0)
    ]
    workshop.write("in.jsonl", rows)
    text = workshop.path("in.jsonl").read_text()
    workshop.path("in.jsonl").write_text(
        text.replace('"no_numbers"', '"bound": 1e400, "no_numbers"')
    )
    ended = workshop.collect(NAMED, "+num_repeats=2")
    assert ended.status == 0
    assert f"note: {AGENT} did not answer with aggregate metrics" in ended.stderr
    (metrics,) = json.loads(workshop.path("out_aggregate_metrics.json").read_text())
    assert metrics.keys() == {"agent_ref", "agent_metrics", "key_metrics", "group_level_metrics"}
    assert metrics["key_metrics"] == {"mean/reward": 0.5, "pass@2/accuracy": 50.0}
    groups = {group["_ng_task_index"]: group for group in metrics["group_level_metrics"]}
    assert {index: group["mean/reward"] for index, group in groups.items()} == {0: 0.0, 1: 1.0}
    assert [group["num_rollouts"] for group in groups.values()] == [2, 2]
