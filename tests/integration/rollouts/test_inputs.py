"""From a user's file to the tasks of a run."""

import gc
import json
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollgym.records import Task
from rollgym.rollouts.inputs import SHOWN_BAD_ROWS, InputSettings, PreparedInputs
from rollgym.store import InputsError

Json = dict[str, Any]


def row(text: str = "hi", **fields: Any) -> Json:
    return {"responses_create_params": {"input": text}, **fields}


class Given:
    """A file of rows, and what is made of it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "in.jsonl"

    def write(self, lines: Sequence[Json | str | bytes], end: bytes = b"\n") -> None:
        encoded = [
            line
            if isinstance(line, bytes)
            else line.encode()
            if isinstance(line, str)
            else json.dumps(line).encode()
            for line in lines
        ]
        self.path.write_bytes(b"".join(line + end for line in encoded))

    def prepare(self, **options: Any) -> PreparedInputs:
        usual: Json = {"path": self.path, "agent_name": "agent", "agents": ["agent", "other"]}
        return PreparedInputs(InputSettings(**(usual | options)))

    def tasks(self, *lines: Json | str | bytes, **options: Any) -> list[Task]:
        self.write(lines)
        return list(self.prepare(**options))

    def numbers(self, *lines: Json | str | bytes, **options: Any) -> list[tuple[int, int]]:
        """Index and repeats of each task."""
        return [(task.index, task.repeats) for task in self.tasks(*lines, **options)]

    def refusal(self, *lines: Json | str | bytes, **options: Any) -> str:
        self.write(lines)
        with pytest.raises(InputsError) as refused:
            self.prepare(**options)
        return str(refused.value).replace(str(self.path), "in.jsonl")


@pytest.fixture
def given_file(tmp_path: Path) -> Given:
    return Given(tmp_path)


# Which lines are which task.


def test_identical_lines_are_one_task_in_the_order_of_first_appearance(given_file: Given) -> None:
    a, b, c = row("a"), row("b"), row("c")
    assert given_file.numbers(a, b, a, c, a, num_repeats=2) == [(0, 6), (1, 2), (2, 2)]


def test_lines_that_differ_in_a_byte_are_different_tasks(given_file: Given) -> None:
    line = json.dumps(row())
    assert len(given_file.tasks(line, line.replace(" ", "  "), row(x=1))) == 3


def test_ends_of_lines_and_blank_lines_make_no_difference(given_file: Given) -> None:
    line = json.dumps(row()).encode()
    given_file.path.write_bytes(b"\n" + line + b"\r\n \t\n" + line + b"\n\r\n" + line)
    assert [(task.index, task.repeats) for task in given_file.prepare()] == [(0, 3)]


def test_a_byte_order_mark_is_passed_over(given_file: Given) -> None:
    line = json.dumps(row()).encode()
    given_file.path.write_bytes(b"\xef\xbb\xbf" + line + b"\n" + line + b"\n")
    tasks = list(given_file.prepare())
    assert [(task.index, task.repeats) for task in tasks] == [(0, 2)]
    assert tasks[0].row.raw.startswith(b"{")


def test_an_index_in_the_row_is_honoured_and_nobody_elses(given_file: Given) -> None:
    rows = [row("a"), row("b", _ng_task_index=1), row("c"), row("d", _ng_task_index=0), row("e")]
    indexes = [index for index, _ in given_file.numbers(*rows)]
    assert indexes == [2, 1, 3, 0, 4]


def test_rows_of_one_index_must_be_the_same(given_file: Given) -> None:
    same = row("a", _ng_task_index=7)
    assert given_file.numbers(same, same) == [(7, 2)]
    refusal = given_file.refusal(same, row("b", _ng_task_index=7))
    assert "in.jsonl:2: an earlier row has the same _ng_task_index 7 and other content" in refusal


def test_the_number_of_a_repeat_does_not_make_another_task(given_file: Given) -> None:
    rows = [row("a", _ng_task_index=0, _ng_rollout_index=repeat) for repeat in (0, 1)]
    (task,) = given_file.tasks(*rows)
    assert (task.index, task.repeats) == (0, 2)
    assert "_ng_rollout_index" not in task.row.fields


def seeded(seed: int) -> Json:
    params = {"input": "a", "seed": seed}
    return {"responses_create_params": params, "_ng_task_index": 0}


def test_seeds_of_repeats_do_not_make_other_tasks_where_seeds_are_given(given_file: Given) -> None:
    (task,) = given_file.tasks(seeded(1), seeded(2), seeded=True)
    assert task.repeats == 2
    assert b"seed" not in task.row.raw


def test_without_that_the_refusal_says_what_to_do(given_file: Given) -> None:
    refusal = given_file.refusal(seeded(1), seeded(2))
    assert "and another sampling seed; set num_repeats_add_seed" in refusal


class Model:
    """How rows are numbered, said as simply as possible."""

    def __init__(self, rows: Sequence[Json]) -> None:
        first: dict[str, Json] = {}
        self.repeats: dict[str, int] = {}
        for each in rows:
            content = json.dumps({k: v for k, v in each.items() if k != "_ng_rollout_index"})
            first.setdefault(content, each)
            self.repeats[content] = self.repeats.get(content, 0) + 1
        claimed = {each["_ng_task_index"] for each in first.values() if "_ng_task_index" in each}
        free = (number for number in range(len(rows) + len(claimed) + 1) if number not in claimed)
        self.numbers = [
            each["_ng_task_index"] if "_ng_task_index" in each else next(free)
            for each in first.values()
        ]


ROWS = st.builds(
    lambda text, index, repeat: row(
        # The text follows from the index, so that rows of one index are the same.
        text if index is None else f"of {index}",
        **({} if index is None else {"_ng_task_index": index}),
        **({} if repeat is None else {"_ng_rollout_index": repeat}),
    ),
    st.sampled_from("abc"),
    st.none() | st.integers(0, 5) | st.just(2**63 - 1),
    st.none() | st.integers(0, 2),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ROWS, min_size=1, max_size=12), limit=st.none() | st.integers(1, 14))
def test_numbering_is_as_the_simplest_model_has_it(
    given_file: Given, rows: list[Json], limit: int | None
) -> None:
    model = Model(rows[:limit])
    lines = [json.dumps(each, separators=(",", ":")) for each in rows]
    numbered = given_file.numbers(*lines, limit=limit)
    assert numbered == list(zip(model.numbers, model.repeats.values(), strict=True))


# Limit, repeats, agents.


def test_the_limit_takes_the_first_rows_and_reads_no_others(given_file: Given) -> None:
    for limit, count in ((1, 1), (3, 3), (9, 3), (None, 3)):
        assert len(given_file.tasks(row("a"), row("b"), row("c"), limit=limit)) == count
    assert len(given_file.tasks(row(), "", "{bad", limit=1)) == 1


def test_repeats_may_be_given_by_agent(given_file: Given) -> None:
    rows = [row("a"), row("b", agent_ref={"name": "other"})]
    assert given_file.numbers(*rows, num_repeats={"_default": 2, "other": 3}) == [(0, 2), (1, 3)]
    assert given_file.numbers(*rows, num_repeats={"other": 3}) == [(0, 1), (1, 3)]
    assert given_file.numbers(*rows, num_repeats={"agent": 4}) == [(0, 4), (1, 1)]


def test_the_agent_of_the_row_is_preferred(given_file: Given) -> None:
    no_agent: list[Any] = [None, {}, {"name": None}, {"name": ""}, ""]
    other: list[Any] = [{"type": "responses_api_agents", "name": "other"}, "other"]
    for reference in [*no_agent, *other]:
        agent = "other" if reference in other else "agent"
        given_file.write([row(agent_ref=reference)])
        inputs = given_file.prepare()
        assert inputs.agents == {agent}
        (task,) = inputs
        named = json.loads(task.row.raw)["agent_ref"]
        assert (named if isinstance(named, str) else named["name"]) == agent


def test_counts_are_known_before_anything_is_iterated(given_file: Given) -> None:
    given_file.write([row("a"), row("b"), row("a")])
    inputs = given_file.prepare(num_repeats=3)
    assert (inputs.tasks, inputs.rollouts) == (2, 9)
    assert list(inputs) == list(inputs)


# What is done to a row.


def test_a_row_that_needs_nothing_keeps_its_bytes(given_file: Given) -> None:
    line = (
        '{ "responses_create_params" : {"input":"é\\u00e9"} , "n":1.0,"n":2.50, '
        '"big":123456789012345678901234567890, "huge":1e400, "agent_ref":{"name":"other"},'
        ' "_ng_task_index" : 3 }'
    )
    (task,) = given_file.tasks(line)
    assert task.row.raw == line.encode()


def test_overrides_change_the_parameters_and_nothing_else(given_file: Given) -> None:
    line = '{"responses_create_params":{"input": [ ],"temperature":1.0,"text":{"a":1.50}},"x": 1.0}'
    params = {"temperature": 0.7, "text": {"format": "json"}}
    (task,) = given_file.tasks(line, params=params)
    fields = task.row.fields
    assert bytes(fields["responses_create_params"]) == (
        b'{"input":[ ],"temperature":0.7,"text":{"a":1.50,"format":"json"}}'
    )
    assert bytes(fields["x"]) == b"1.0"


def test_what_only_a_verifier_may_say_does_not_reach_it(given_file: Given) -> None:
    told: Json = {"response": {"output": []}, "reward": 1.0, "_ng_failure_class": "x"}
    told |= {"_ng_failure_terminal": True, "_ng_no_persist": True, "_rollgym_stored_rollouts": 1}
    (task,) = given_file.tasks(row(kept=1, **told))
    assert json.loads(task.row.raw).keys() == {*row(), "kept", "agent_ref", "_ng_task_index"}


# What is refused.


BAD_ROWS: list[tuple[Json | str | bytes, str]] = [
    ("{bad", "this is not a row: JSON is malformed"),
    ("[]", "this is not a row: not a JSON object"),
    (b'{"a":"\xff"}', "this is not a row: not UTF-8 text at byte 6"),
    ('{"a":' + "[" * 50_000 + "]" * 50_000 + "}", "this is not a row: it is nested too deeply"),
    ("{}", "responses_create_params is missing"),
    ({"responses_create_params": None}, "responses_create_params must be an object"),
    ({"responses_create_params": {}}, "responses_create_params.input is missing"),
    (
        {"responses_create_params": {"input": 3}},
        "responses_create_params.input must be a text or a list of items",
    ),
    (
        '{"responses_create_params":{"input":"x","top_p":1e999}}',
        "responses_create_params cannot be read: Number out of range",
    ),
    (row(agent_ref={"name": 3}), "agent_ref.name must be a text"),
    (row(agent_ref={"name": "agnet"}), "there is no agent 'agnet'; did you mean agent?"),
    (row(agent_ref={"name": "x"}), "there is no agent 'x'; the agents are: agent, other"),
    (row(_ng_task_index=-1), "_ng_task_index must be an integer from 0 to 2**63 - 1"),
    (row(_ng_task_index=2**63), "_ng_task_index must be an integer from 0 to 2**63 - 1"),
    (row(_ng_task_index=True), "field '_ng_task_index': Expected `int`, got `bool`"),
]


def test_a_bad_row_is_named_with_its_line_and_its_problem(given_file: Given) -> None:
    for line, problem in BAD_ROWS:
        refusal = given_file.refusal("", line)
        assert refusal.startswith("1 bad row(s) in in.jsonl; nothing was started:\n")
        assert f"  in.jsonl:2: {problem}" in refusal


def test_no_agent_at_all_is_a_problem_of_each_row(given_file: Given) -> None:
    refusal = given_file.refusal(row(), row(agent_ref={"name": "other"}), agent_name=None)
    assert refusal.startswith("1 bad row(s)")
    assert "in.jsonl:1: the row has no agent_ref.name, and the command names no agent" in refusal


def test_all_problems_of_a_row_are_told_together(given_file: Given) -> None:
    refusal = given_file.refusal({"agent_ref": {"name": "agnet"}, "_ng_task_index": -1})
    assert refusal.count("in.jsonl:1:") == 3


def test_the_first_bad_rows_are_listed_and_the_others_counted(given_file: Given) -> None:
    refusal = given_file.refusal(*[row()] * 3, *["{}"] * 50)
    lines = refusal.splitlines()
    assert lines[0] == "50 bad row(s) in in.jsonl; nothing was started:"
    assert lines[1].startswith("  in.jsonl:4:")
    assert lines[SHOWN_BAD_ROWS].startswith(f"  in.jsonl:{SHOWN_BAD_ROWS + 3}:")
    assert lines[SHOWN_BAD_ROWS + 1 :] == ["  and 30 more bad row(s)"]


def test_a_file_without_rows_is_rejected(given_file: Given) -> None:
    for content in (b"", b" \r\n\n", b"\xef\xbb\xbf\n"):
        given_file.path.write_bytes(content)
        with pytest.raises(InputsError, match="has no rows: there is nothing to collect"):
            given_file.prepare()


# The file itself.


def test_a_file_that_is_not_there_is_refused_with_what_could_be_meant(given_file: Given) -> None:
    given_file.write([row()])
    with pytest.raises(
        InputsError, match=r"there is no file .*/ni.jsonl; did you mean .*/in.jsonl"
    ):
        given_file.prepare(path=given_file.path.with_name("ni.jsonl"))
    with pytest.raises(InputsError, match=r"there is no file .*/other.jsonl$"):
        given_file.prepare(path=given_file.path.with_name("other.jsonl"))
    with pytest.raises(InputsError, match="there is no file"):
        given_file.prepare(path=given_file.path / "x.jsonl")


def test_what_can_be_read_only_once_is_refused_without_reading_it(given_file: Given) -> None:
    os.mkfifo(given_file.path)
    with pytest.raises(InputsError, match="is a pipe or a device, not a file"):
        given_file.prepare()
    with pytest.raises(InputsError, match="is a directory, not a file"):
        given_file.prepare(path=given_file.path.parent)


def test_a_link_to_a_file_is_read(given_file: Given) -> None:
    given_file.write([row()])
    link = given_file.path.with_name("link.jsonl")
    link.symlink_to(given_file.path)
    assert given_file.prepare(path=link).tasks == 1


@pytest.mark.parametrize("change", ["append", "replace", "remove"])
def test_a_file_that_changes_meanwhile_is_refused(given_file: Given, change: str) -> None:
    given_file.write([row()])
    inputs = given_file.prepare()
    if change == "append":
        with given_file.path.open("a") as file:
            file.write("{}\n")
    elif change == "replace":
        other = given_file.path.with_name("other")
        other.write_bytes(given_file.path.read_bytes())
        other.replace(given_file.path)
    else:
        given_file.path.unlink()
    with pytest.raises(Exception, match=r"was changed while it was read|No such file"):
        list(inputs)


# Memory.


def test_a_task_costs_a_few_dozen_bytes_of_memory_at_the_most(given_file: Given) -> None:
    def peak(count: int) -> int:
        given_file.write([f'{{"responses_create_params":{{"input":"{n}"}}}}' for n in range(count)])
        gc.collect()
        tracemalloc.start()
        try:
            inputs = given_file.prepare()
            for _ in inputs:
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = 500, 3_500
    assert (peak(many) - peak(few)) / (many - few) < 150
