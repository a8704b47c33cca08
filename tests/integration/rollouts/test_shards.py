"""Parts of a collection, and how they come together."""

import json
from typing import Any

import pytest

from tests.e2e.command import Ended
from tests.integration.rollouts.commands import AGENT, Json, Workshop, task

NAMED = f"+agent_name={AGENT}"
SUFFIXES = (".jsonl", "_failures.jsonl", "_materialized_inputs.jsonl")


def shard(workshop: Workshop, part: str, *overrides: str, **options: Any) -> Ended:
    return workshop.collect(NAMED, f"+shard={part}", *overrides, **options)


def same(rows: dict[tuple[int, int], Json]) -> dict[tuple[int, int], Json]:
    """Without what differs between any two runs."""
    return {
        key: {name: value for name, value in row.items() if name != "metadata"}
        for key, row in rows.items()
    }


@pytest.fixture
def rows(workshop: Workshop) -> list[Json]:
    rows = [task(f"task {number}", script=[{"answer": {"n": number}}]) for number in range(5)]
    rows[3]["script"] = [{"answer": {"_ng_failure_class": "x", "_ng_failure_terminal": True}}]
    workshop.write("in.jsonl", rows)
    return rows


@pytest.mark.usefixtures("rows")
def test_shards_merged_are_the_same_as_the_whole(workshop: Workshop) -> None:
    seeded = ("+num_repeats=2", "+num_repeats_add_seed=true", "+seed=4")
    assert workshop.collect(NAMED, *seeded, output_jsonl_fpath="whole.jsonl").status == 3
    one, other = shard(workshop, "0/2", *seeded), shard(workshop, "1/2", *seeded)
    assert "5 tasks, 10 rollouts, of which shard 0/2, into out_shard-0-of-2.jsonl" in one.stderr
    assert one.coverage.startswith("6 expected = 6 completed + 0 failed")
    assert other.coverage.startswith("4 expected = 2 completed + 2 failed")
    assert not workshop.path("out.jsonl").exists()

    parts = [workshop.rollouts(f"out_shard-{index}-of-2.jsonl") for index in range(2)]
    assert parts[0].keys().isdisjoint(parts[1])
    merged = workshop.run(
        "merge", "out_shard-0-of-2.jsonl", "out_shard-1-of-2.jsonl", "--into", "merged.jsonl"
    )
    assert merged.status == 0, merged.stderr
    assert merged.coverage == "10 expected = 8 completed + 2 failed + 0 omitted + 0 unresolved"
    whole = same(workshop.rollouts("whole.jsonl"))
    assert same(workshop.rollouts("merged.jsonl")) == whole == same({**parts[0], **parts[1]})
    assert workshop.rows("merged_materialized_inputs.jsonl") == workshop.rows(
        "whole_materialized_inputs.jsonl"
    )
    assert len(workshop.rows("merged_failures.jsonl")) == 2
    (metrics,) = json.loads(workshop.path("merged_aggregate_metrics.json").read_text())
    assert metrics["agent_metrics"]["mean/n"] == 1.75
    assert len(metrics["group_level_metrics"]) == 4


@pytest.mark.usefixtures("rows")
def test_the_whole_can_be_collected_after_its_shards(workshop: Workshop) -> None:
    shard(workshop, "0/2")
    ended = workshop.collect(NAMED)
    assert ended.coverage == "5 expected = 4 completed + 1 failed + 0 omitted + 0 unresolved"
    assert sorted(workshop.rollouts()) == [(0, 0), (1, 0), (2, 0), (4, 0)]
    assert "nothing had to run" in shard(workshop, "1/2").text
    assert sorted(workshop.rollouts("out_shard-1-of-2.jsonl")) == [(1, 0)]


@pytest.mark.usefixtures("rows")
def test_a_merge_takes_runs_by_directory_or_file_and_the_order_does_not_matter(
    workshop: Workshop,
) -> None:
    shard(workshop, "0/2")
    for target, *sources in (
        ("a.jsonl", "out.run"),
        ("b.jsonl", "out.jsonl", "out.run"),
        ("c.jsonl", "out_shard-1-of-2.jsonl"),
    ):
        ended = workshop.run("merge", *sources, "--into", target)
        assert ended.status == 0, ended.stderr
        assert "0 duplicates left out" in ended.stdout
    files = [
        [workshop.path(f"{name}{suffix}").read_bytes() for suffix in SUFFIXES] for name in "abc"
    ]
    assert files[0] == files[1] == files[2]
    assert workshop.run("merge", "out.run", "--into", "folder").status == 0
    assert workshop.path("folder/journal.jsonl").exists()


@pytest.mark.usefixtures("rows")
def test_a_merge_goes_nowhere_that_is_taken(workshop: Workshop) -> None:
    shard(workshop, "0/2")
    workshop.path("taken_failures.jsonl").write_text("")
    for target in ("taken.jsonl", "out.jsonl", "out.run"):
        ended = workshop.run("merge", "out.run", "--into", target)
        assert ended.status == 6
        assert "exists" in ended.stderr
    assert workshop.path("taken_failures.jsonl").read_text() == ""
    assert not workshop.path("taken.run").exists()


def test_what_is_no_run_cannot_be_merged(workshop: Workshop) -> None:
    workshop.write("rows.jsonl", [])
    ended = workshop.run("merge", "rows.jsonl", "--into", "merged.jsonl")
    assert ended.status == 6
    assert "rows.run holds no run" in ended.stderr


@pytest.mark.usefixtures("rows")
def test_a_merged_collection_can_be_continued(workshop: Workshop) -> None:
    shard(workshop, "0/2")
    workshop.run("merge", "out.run", "--into", "merged.jsonl")
    ended = workshop.collect(NAMED, output_jsonl_fpath="merged.jsonl")
    assert ended.coverage == "5 expected = 4 completed + 1 failed + 0 omitted + 0 unresolved"
    assert sorted(workshop.rollouts("merged.jsonl")) == [(0, 0), (1, 0), (2, 0), (4, 0)]


# Looking at the files.


@pytest.mark.usefixtures("rows")
def test_a_profile_is_the_same_of_the_run_and_of_its_files(workshop: Workshop) -> None:
    workshop.write("in.jsonl", [task("a"), task("b", script=[{"answer": {"reward": 0.5}}])])
    workshop.collect(NAMED, "+num_repeats=2", "+num_samples_in_parallel=1")
    whole = workshop.run("profile", "out.run")
    assert whole.status == 0
    assert [line.split() for line in whole.lines[1:3]] == [
        ["0", "2", "2", "0", "0", "2", "1", "0", "1", "1"],
        ["1", "2", "2", "0", "0", "0", "0.5", "0", "0.5", "0.5"],
    ]
    assert whole.headline == {
        "avg_reward": 0.75,
        "success_rate": 0.5,
        "avg_tool_calls": 0.0,
        "avg_response_length": None,
        "pass@1": 0.5,
        "pass@2": 0.5,
        "mean@2": 0.75,
    }
    assert workshop.run("profile", "out.jsonl").stdout == whole.stdout
    workshop.path("copy.jsonl").write_bytes(workshop.path("out.jsonl").read_bytes())
    bare = workshop.run("profile", "copy.jsonl")
    assert bare.lines[:3] == whole.lines[:3]
    assert bare.headline == {**whole.headline, "avg_tool_calls": None}
    machine = workshop.run("profile", "copy.jsonl", "--json")
    assert [json.loads(line)["task"] for line in machine.lines] == [0, 1]


@pytest.mark.usefixtures("rows")
def test_the_profile_of_a_shards_file_is_that_of_the_shard(workshop: Workshop) -> None:
    shard(workshop, "1/2")
    profile = workshop.run("profile", "out_shard-1-of-2.jsonl")
    assert [line.split()[0] for line in profile.lines[1:2]] == ["1"]
    assert len([line for line in profile.lines if line.endswith(" 1")]) == 1
    assert workshop.run("status", "out_shard-1-of-2.jsonl").status == 0


def test_a_file_of_other_rows_has_no_profile(workshop: Workshop) -> None:
    not_a_rollout = "rows.jsonl:2: this is not the row of a rollout: "
    for line, problem in (
        ("{bad", f"{not_a_rollout}JSON is malformed"),
        ("{}", f"{not_a_rollout}Object missing required field"),
        ('{"reward":"x","_ng_task_index":0,"_ng_rollout_index":0}', "Expected `float`, got `str`"),
        ('{"reward":1,"_ng_task_index":-1,"_ng_rollout_index":0}', "Expected `int` >= 0"),
    ):
        workshop.path("rows.jsonl").write_text(f"\n{line}\n")
        ended = workshop.run("profile", "rows.jsonl")
        assert ended.status == 6
        assert problem in ended.stderr


def test_a_missing_file_has_no_profile(workshop: Workshop) -> None:
    workshop.path("rollouts.jsonl").write_text("")
    for name, said in (
        ("rolouts.jsonl", "there is no file rolouts.jsonl; did you mean rollouts.jsonl?"),
        ("nothing.run", "nothing.run holds no run"),
    ):
        ended = workshop.run("profile", name)
        assert ended.status == 6
        assert said in ended.stderr
