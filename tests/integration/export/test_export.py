import errno
import json
from base64 import b64decode
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from rollgym import read_branches
from rollgym.export.export import ExportReport, export
from rollgym.export.filter import Staleness, parse_filter
from rollgym.export.formats import FORMATS, FormatOptions
from rollgym.export.source import BadRowsError, ExportError
from rollgym.records.tokens import ROW_FIELD, TokenLog, TokenSample
from rollgym.records.version import TURNS_FIELD
from rollgym.store import Disk, DiskFullError, StorageError, StorageVanishedError
from tests.integration.export.rollouts import group, read, row, write

ROWS = [*group(0, 1.0, 0.0, 0.5), *group(1, 1.0, 1.0), *group(2, 0.0, 0.0), *group(7, 0.3, 0.1)]
PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NEMO_ITEM: dict[str, Any] = {
    "type": "message",
    "role": "assistant",
    "content": [],
    "prompt_token_ids": [1, 2, 3],
    "generation_token_ids": [2],
    "generation_log_probs": [-0.5],
}
TOOLS = [{"type": "function", "function": {"name": "search", "parameters": {}}}]


def exported(
    tmp_path: Path, rows: list[Any], into: str, only: str = "", **options: Any
) -> list[dict[str, Any]]:
    source, target = write(tmp_path / "rollouts.jsonl", rows), tmp_path / "out.jsonl"
    export(source, target, into, FormatOptions(**options), parse_filter(only) if only else None)
    return read(target)


def last_words(example: dict[str, Any]) -> str:
    words: str = example["messages"][-1]["content"]
    return words


def pairs(examples: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["chosen"][-1]["content"], one["rejected"][-1]["content"]) for one in examples]


def test_supervised_examples_are_successes_or_chosen_by_reward(tmp_path: Path) -> None:
    examples = exported(tmp_path, ROWS, "sft")
    assert [last_words(example) for example in examples] == [
        "answer 0.0",
        "answer 1.0",
        "answer 1.1",
    ]
    assert examples[0] == {
        "messages": [
            {"role": "user", "content": "task 0"},
            {"role": "assistant", "content": "answer 0.0"},
        ],
        "tools": TOOLS,
    }
    examples = exported(tmp_path, ROWS, "sft", min_reward=0.3)
    assert [last_words(example) for example in examples][1:] == [
        "answer 0.2",
        "answer 1.0",
        "answer 1.1",
        "answer 7.0",
    ]
    rows = [row(0, 0, 0.2, success=True), row(0, 1, 1.0, success=False)]
    rows += [row(1, 0, 1.0, success=None), row(1, 1, 0.9, success=None)]
    del rows[3]["success"]
    examples = exported(tmp_path, rows, "sft")
    assert [last_words(example) for example in examples] == ["answer 0.0", "answer 1.0"]


def test_preferences_are_pairs_of_a_better_and_a_worse_rollout(tmp_path: Path) -> None:
    examples = exported(tmp_path, ROWS, "preference")
    assert pairs(examples) == [("answer 0.0", "answer 0.1"), ("answer 7.0", "answer 7.1")]
    assert examples[0] == {
        "prompt": [{"role": "user", "content": "task 0"}],
        "chosen": [{"role": "assistant", "content": "answer 0.0"}],
        "rejected": [{"role": "assistant", "content": "answer 0.1"}],
        "chosen_reward": 1.0,
        "rejected_reward": 0.0,
        "_ng_task_index": 0,
        "tools": TOOLS,
    }
    assert len(exported(tmp_path, ROWS, "preference", margin=0.2)) == 2
    assert len(exported(tmp_path, ROWS, "preference", margin=0.21)) == 1
    examples = exported(tmp_path, group(0, 1.0, 0.0, 0.5, 0.5), "preference", every_pair=True)
    assert pairs(examples) == [
        ("answer 0.0", "answer 0.1"),
        ("answer 0.0", "answer 0.2"),
        ("answer 0.0", "answer 0.3"),
        ("answer 0.2", "answer 0.1"),
        ("answer 0.3", "answer 0.1"),
    ]


def test_a_group_has_every_rollout_of_its_task_with_its_advantages(tmp_path: Path) -> None:
    examples = exported(tmp_path, ROWS, "groups")
    assert [example["_ng_task_index"] for example in examples] == [0, 1, 2, 7]
    first = examples[0]
    assert first["prompt"] == [{"role": "user", "content": "task 0"}]
    assert first["tools"] == TOOLS
    assert first["rewards"] == [1.0, 0.0, 0.5]
    assert first["advantages"] == [0.5, -0.5, 0.0]
    assert first["advantages_scaled"] == [1.0, -1.0, 0.0]
    assert (first["group_size"], first["reward_mean"], first["reward_std"]) == (3, 0.5, 0.5)
    assert first["rollouts"] == [
        {
            "_ng_rollout_index": repeat,
            "completion": [{"role": "assistant", "content": f"answer 0.{repeat}"}],
            "reward": reward,
            "success": reward == 1.0,
        }
        for repeat, reward in enumerate([1.0, 0.0, 0.5])
    ]
    assert examples[1]["advantages"] == examples[1]["advantages_scaled"] == [0.0, 0.0]
    different = exported(tmp_path, ROWS, "groups", drop_equal=True)
    assert [example["_ng_task_index"] for example in different] == [0, 7]


def turn(*prompt: int, sampled: int, logprobs: list[float] | None = None) -> TokenSample:
    return TokenSample(prompt=prompt, sampled=[sampled], logprobs=logprobs)


def tokens(*turns: TokenSample) -> dict[str, Any]:
    log = TokenLog()
    for each in turns:
        log.add(each)
    stored = json.loads(msgspec.json.encode(log.turns))
    return {ROW_FIELD: stored, **versions(*(f"v{len(each.prompt)}" for each in turns))}


def versions(*said: str | list[list[Any]]) -> dict[str, Any]:
    """The turns of a row: a version each, or the parts of one."""
    parts = [{"version": each} if isinstance(each, str) else {"parts": each} for each in said]
    return {TURNS_FIELD: parts}


def test_exact_tokens_are_a_line_for_each_branch_with_loss_and_advantage(tmp_path: Path) -> None:
    continued = [turn(1, sampled=2, logprobs=[-0.5]), turn(1, 2, 3, sampled=4, logprobs=[-0.25])]
    rows = [
        row(0, 0, 1.0, **tokens(*continued)),
        row(0, 1, 0.0, **tokens(turn(1, sampled=2), turn(9, sampled=4))),
        row(0, 2, 0.5),
        # A rollout of NeMo Gym, with whole prompts on its items.
        row(1, 0, 1.0, response={"output": [{**NEMO_ITEM, "prompt_token_ids": [1]}, NEMO_ITEM]}),
    ]
    examples = exported(tmp_path, rows, "tokens")
    keys = [(each["group"], each["_ng_rollout_index"], each["branch"]) for each in examples]
    assert keys == [(0, 0, 0), (0, 1, 0), (0, 1, 1), (1, 0, 0)]
    whole, first, second, foreign = examples
    assert whole["input_ids"] == [1, 2, 3, 4]
    assert whole["loss_mask"] == [0, 1, 0, 1]
    assert whole["logprobs"] == [0.0, -0.5, 0.0, -0.25]
    assert (whole["reward"], whole["advantage"], whole["version"]) == (1.0, 0.5, "v3")
    assert whole["version_ranges"] == [[1, 2, "v1"], [3, 4, "v3"]]
    assert (first["logprobs"], first["reason"]) == (None, None)
    assert (second["input_ids"], second["reason"], second["left_at"]) == ([9, 4], "prompt", 0)
    assert (foreign["input_ids"], foreign["loss_mask"]) == ([1, 2, 3, 2], [0, 1, 0, 1])
    report = export(tmp_path / "rollouts.jsonl", tmp_path / "again.jsonl", "tokens")
    assert report.dropped == {"no tokens": 1}
    read_back = [*read_branches(tmp_path / "rollouts.jsonl")]
    for name in ("input_ids", "advantage", "advantage_scaled"):
        assert [getattr(each, name) for each in read_back] == [each[name] for each in examples]
    assert exported(tmp_path, rows, "tokens", drop_equal=True) == examples[:3]
    broken = row(0, 0, 1.0, **{ROW_FIELD: [{"prompt": "2AQA=", "sampled": "2A"}]})
    with pytest.raises(ExportError, match=r"rollouts.jsonl:1: .*tokens of turn 0 cannot be read"):
        exported(tmp_path, [broken], "tokens")


def test_stale_rollouts_are_left_out_by_their_oldest_turn(tmp_path: Path) -> None:
    rows = [
        row(0, 0, 1.0, **versions("9", "10")),
        row(0, 1, 0.0, **versions("10")),
        row(0, 2, 0.0, **versions([["10", 3], ["11", None]])),
        row(0, 3, 0.0, **versions("10", "")),
        row(1, 0, 1.0, **versions("8")),
        row(2, 0, 1.0),
    ]

    def left(most: int, version: str = "") -> tuple[list[tuple[int, int]], dict[str, int]]:
        source, target = write(tmp_path / "rollouts.jsonl", rows), tmp_path / "out.jsonl"
        report = export(source, target, "groups", staleness=Staleness(most, version))
        kept = [(each["_ng_task_index"], one) for each in read(target) for one in each["rollouts"]]
        keys = [(task, rollout["_ng_rollout_index"]) for task, rollout in kept]
        assert all(rollout["policy_versions"] for _, rollout in kept)
        return keys, dict(report.dropped)

    unknown = {"policy version unknown": 2}  # one with an unknown turn, and one without any
    assert left(2) == ([(0, 0), (0, 1), (0, 2)], {"stale": 1, **unknown})
    assert left(1) == ([(0, 1), (0, 2)], {"stale": 2, **unknown})
    # A version that none of them has yet, and one that some are ahead of.
    assert left(2, "12") == ([(0, 1), (0, 2)], {"stale": 2, **unknown})
    assert left(0, "8") == ([(0, 0), (0, 1), (0, 2), (1, 0)], unknown)
    branches = read_branches(tmp_path / "rollouts.jsonl", max_staleness=1, policy_version=11)
    assert list(branches) == []  # they have no tokens
    card = json.loads((tmp_path / "out.jsonl.card.json").read_bytes())
    assert card["staleness"] == {"most": 0, "version": "8"}
    with pytest.raises(ExportError, match=r"'v8' is not a policy version .*: 8, 9, 10, 11"):
        left(1, "v8")
    rows = [row(0, 0, 1.0)]
    with pytest.raises(ExportError, match="no turn of these rollouts has a policy version"):
        left(1)


def test_versions_without_numbers_are_in_the_order_of_their_first_use(tmp_path: Path) -> None:
    def used(repeat: int, started: float, version: str) -> dict[str, Any]:
        return row(0, repeat, 1.0, metadata={"started": started}, **versions(version))

    rows = [used(0, 30.0, "red"), used(1, 10.0, "blue"), used(2, 20.0, "green")]
    source, target = write(tmp_path / "rollouts.jsonl", rows), tmp_path / "out.jsonl"
    export(source, target, "groups", staleness=Staleness(1))
    assert [one["policy_versions"] for one in read(target)[0]["rollouts"]] == [["red"], ["green"]]


def test_a_filter_chooses_tasks_and_the_report_says_how_many(tmp_path: Path) -> None:
    source, target = write(tmp_path / "rollouts.jsonl", ROWS), tmp_path / "out.jsonl"
    report = export(source, target, "sft", only=parse_filter("0 < avg < 1"))
    assert report == ExportReport(
        rollouts=9,
        tasks=4,
        chosen_tasks=2,
        used_tasks=1,
        examples=1,
        dropped=Counter({"filtered out": 4, "no success": 4}),
    )
    assert [last_words(example) for example in read(target)] == ["answer 0.0"]


def test_a_card_says_what_was_exported_and_what_it_did_to_the_rewards(tmp_path: Path) -> None:
    source, target = write(tmp_path / "rollouts.jsonl", ROWS), tmp_path / "out.jsonl"
    export(source, target, "preference", FormatOptions(margin=0.5), parse_filter("avg < 1"))
    assert json.loads((tmp_path / "out.jsonl.card.json").read_bytes()) == {
        "format": "preference",
        "options": {"margin": 0.5},
        "filter": "avg < 1",
        "staleness": None,
        "source": {
            "kind": "rollouts",
            "files": ["rollouts.jsonl"],
            "runs": [],
            **dict.fromkeys(("expected", "completed", "failed", "omitted", "unresolved")),
        },
        "counts": {
            "rollouts": 9,
            "tasks": 4,
            "stale_tasks": 0,
            "chosen_tasks": 3,
            "tasks_with_equal_rewards": 1,
            "used_tasks": 1,
            "examples": 1,
            "dropped": {"filtered out": 2, "equal rewards": 2, "in no pair": 3},
            "replies_dropped": {},
        },
        "rewards_before": {
            "count": 9,
            "mean": 3.9 / 9,
            "std": pytest.approx(0.42946996),
            "min": 0.0,
            "max": 1.0,
        },
        "rewards_after": {"count": 2, "mean": 0.5, "std": 0.5, "min": 0.0, "max": 1.0},
    }


def test_images_are_stored_once_beside_the_export(tmp_path: Path) -> None:
    shown = {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}
    elsewhere = {"type": "input_image", "image_url": "https://shop.test/a.png", "detail": "low"}
    asked = {"input": [{"role": "user", "content": [shown, elsewhere, shown]}]}
    rows = [row(0, repeat, 1.0, responses_create_params=asked) for repeat in range(2)]
    examples = exported(tmp_path, rows, "sft")
    image = examples[0]["images"][0]
    assert [example["images"] for example in examples] == [[image, image]] * 2
    assert examples[0]["messages"][0]["content"] == [
        {"type": "image"},
        {"type": "image_url", "image_url": {"url": "https://shop.test/a.png", "detail": "low"}},
        {"type": "image"},
    ]
    assert [path.name for path in (tmp_path / "out_images").iterdir()] == [Path(image).name]
    assert (tmp_path / image).read_bytes() == b64decode(PICTURE)
    asked["input"][0]["content"] = [{**shown, "image_url": "data:image/png;base64,?"}]
    with pytest.raises(ExportError, match="not valid base64"):
        exported(tmp_path, [row(0, 0, 1.0, responses_create_params=asked)], "sft")


def test_the_order_in_which_rollouts_finished_does_not_show(tmp_path: Path) -> None:
    for number, into in enumerate(FORMATS):
        directory = tmp_path / str(number)
        directory.mkdir()
        expected = exported(directory, ROWS, into)
        for seed in range(5):
            assert exported(directory, Random(seed).sample(ROWS, len(ROWS)), into) == expected


def test_blank_lines_and_empty_files_are_read_and_folders_made(tmp_path: Path) -> None:
    source = write(tmp_path / "rollouts.jsonl", ["", ROWS[0], "  ", ROWS[1]])
    source.write_bytes(source.read_bytes().rstrip(b"\n"))
    report = export(source, tmp_path / "out.jsonl", "groups")
    assert report.rollouts == 2
    assert exported(tmp_path, [], "groups") == []
    source = write(tmp_path / "rollouts.jsonl", ROWS)
    export(source, tmp_path / "a" / "b" / "out.jsonl", "groups")
    assert len(read(tmp_path / "a" / "b" / "out.jsonl")) == 4


def test_a_bad_line_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any] | str, str]] = [
        ("{", "this line is not a valid rollout (Input data was truncated)"),
        ("[]", "this line is not a valid rollout (Expected `object`, got `array`)"),
        ('{"reward": 1.0}', "it has neither _ng_task_index nor responses_create_params"),
        ({**ROWS[0], "reward": None}, "Expected `float`, got `null`"),
        ({**ROWS[0], "reward": float("nan")}, "this line is not a valid rollout"),
        ({**ROWS[0], "_ng_task_index": -1}, "Expected `int` >= 0"),
        (
            {**ROWS[0], "_ng_rollout_index": 2**64},
            "this line is not a valid rollout|must be less than 2**63",
        ),
    ]
    for number, (bad, problem) in enumerate(cases):
        directory = tmp_path / str(number)
        directory.mkdir()
        source = write(directory / "rollouts.jsonl", [ROWS[0], "", bad])
        with pytest.raises(BadRowsError) as refusal:
            export(source, directory / "out.jsonl", "groups")
        first = str(refusal.value).splitlines()[0]
        assert first.startswith(f"{source}:3: ")
        assert any(part in first for part in problem.split("|"))
        assert [path.name for path in directory.iterdir()] == ["rollouts.jsonl"]


def test_the_first_twenty_bad_lines_are_named_together(tmp_path: Path) -> None:
    source = write(tmp_path / "rollouts.jsonl", ["{}"] * 30)
    with pytest.raises(BadRowsError) as refusal:
        export(source, tmp_path / "out.jsonl", "groups")
    lines = str(refusal.value).splitlines()
    assert lines[19].startswith(f"{source}:20: ")
    assert lines[20:] == [
        "... and more",
        "Nothing was written. Export the file of rollouts that a collection wrote.",
    ]


def test_a_transcript_that_chat_cannot_express_leaves_the_old_export(tmp_path: Path) -> None:
    odd = row(9, 0, 1.0, output=[{"role": "assistant", "item": {}}])
    source, target = write(tmp_path / "rollouts.jsonl", [*ROWS, odd]), tmp_path / "out.jsonl"
    target.write_text("as it was")
    with pytest.raises(BadRowsError, match=r"rollouts.jsonl:10: output\[0\]"):
        export(source, target, "sft")
    assert target.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "rollouts.jsonl"]


def test_a_transcript_that_is_not_exported_is_not_read(tmp_path: Path) -> None:
    odd = row(9, 0, 0.0, output=[{"role": "assistant", "item": {}}])
    assert len(exported(tmp_path, [*ROWS, odd], "sft")) == 3


def test_the_same_rollout_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"jsonl:10: rollout 1 of task 1 is in line 5 already"):
        exported(tmp_path, [*ROWS, ROWS[4]], "groups")


def test_rollouts_of_one_task_with_different_prompts_are_refused(tmp_path: Path) -> None:
    for number, into in enumerate(("preference", "groups")):
        directory = tmp_path / str(number)
        directory.mkdir()
        other = row(0, 1, 0.0, responses_create_params={"input": "another"})
        with pytest.raises(BadRowsError, match=r"jsonl:2: prompt or tools differ .* line 1"):
            exported(directory, [row(0, 0, 1.0), other], into)


def test_a_task_whose_agent_wrote_different_prompts_is_left_out_and_counted(tmp_path: Path) -> None:
    def own(repeat: int, reward: float, prompt: str) -> dict[str, Any]:
        first = {"turns": [0], "parameters": {}, "input": [{"role": "user", "content": prompt}]}
        return row(0, repeat, reward, rollgym_calls={"conversations": [first]})

    source = write(
        tmp_path / "rollouts.jsonl", [own(0, 1.0, "Hi"), own(1, 0.0, "Hello"), own(2, 0.5, "Hi")]
    )
    target = tmp_path / "out.jsonl"
    for into in ("groups", "preference"):
        report = export(source, target, into)
        assert report.examples == 0
        assert report.dropped["different prompts or tools"] == (3 if into == "groups" else 2)
    report = export(source, target, "preference", FormatOptions(every_pair=True))
    [pair] = read(target)
    assert (pair["prompt"][0]["content"], pair["rejected_reward"]) == ("Hi", 0.5)
    assert report.dropped == {"different prompts or tools": 1}


def test_the_rollouts_are_never_overwritten(tmp_path: Path) -> None:
    cases: list[str] = ["rollouts.jsonl", "link.jsonl"]
    for number, name in enumerate(cases):
        directory = tmp_path / str(number)
        directory.mkdir()
        source = write(directory / "rollouts.jsonl", ROWS)
        (directory / "link.jsonl").symlink_to(source)
        with pytest.raises(ExportError, match="is the file to read"):
            export(source, directory / name, "groups")
        assert len(read(source)) == len(ROWS)


def test_a_missing_source_and_a_folder_as_target_are_named(tmp_path: Path) -> None:
    with pytest.raises(StorageVanishedError, match="absent.jsonl: No such file"):
        export(tmp_path / "absent.jsonl", tmp_path / "out.jsonl", "groups")
    source = write(tmp_path / "rollouts.jsonl", ROWS)
    (tmp_path / "out.jsonl").mkdir()
    with pytest.raises(StorageError, match="out.jsonl: Is a directory"):
        export(source, tmp_path / "out.jsonl", "groups")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "rollouts.jsonl"]


def test_a_disk_that_fills_up_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Disk, descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    source = write(tmp_path / "rollouts.jsonl", ROWS)
    monkeypatch.setattr(Disk, "sync", full)
    with pytest.raises(DiskFullError, match="while writing the file"):
        export(source, tmp_path / "out.jsonl", "groups")
    assert [path.name for path in tmp_path.iterdir()] == ["rollouts.jsonl"]
