import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet
import pytest

from rollgym import read_branches
from rollgym.cli.main import main
from rollgym.records import Completed, Failed
from rollgym.records.tokens import TokenLog, TokenSample
from rollgym.rollouts.token_rows import rollout_tokens
from tests.builders import make_run, record, write_journal
from tests.integration.export.rollouts import read
from tests.trajectories import steps_to, trajectory
from tests.unit.webgym.viewing.recorded import LOST, failed_fragment, fragment
from webgym.rollout.iteration import IterationPaths
from webgym.trajectory.records import ResponseRecord, Step, Trajectory
from webgym.trajectory.torch_file import TorchDraft

PICTURES = [b"\x89PNG first", b"\x89PNG second"]
LAST = ("Answer: 3", "Answer: 4")
NAMES = [f"{sha256(picture).hexdigest()}.png" for picture in PICTURES]


def shown(number: int) -> tuple[dict[str, object], ...]:
    """The prompt of a step, with its screenshot."""
    image = {"type": "image_url", "image_url": {"url": f"blob:{NAMES[number]}"}}
    text = {"type": "text", "text": f"Step {number + 1}."}
    return ({"role": "system", "content": "Act."}, {"role": "user", "content": [text, image]})


def visit(last: str = LAST[0], **fields: Any) -> Trajectory:
    """A solved trajectory: a reply that is an action, one that could not be parsed, an answer."""
    log = TokenLog()
    for page in range(2):
        log.add(TokenSample(prompt=[1, 2, page], sampled=[9]))
    turns = log.turns
    replies = [
        ResponseRecord(raw_prompt=shown(0), raw_response="Click 1", tokens=turns[0]),
        ResponseRecord(raw_prompt=shown(1), raw_response="Hm.", parse_failure="no action"),
        ResponseRecord(raw_prompt=shown(1), raw_response=last, tokens=turns[1]),
    ]
    steps = [
        msgspec.structs.replace(step, response=reply)
        for step, reply in zip(steps_to(3), replies, strict=True)
    ]
    # A step that stands for an answer which the model did not give.
    return trajectory(*steps, Step(observation=steps[-1].observation), **fields)


@pytest.fixture
def experiment(tmp_path: Path) -> IterationPaths:
    """An iteration with a run directory, a `.pt` of the same rollouts, and their screenshots."""
    paths = IterationPaths(tmp_path / "shopping", "train", 0)
    for name, picture in zip(NAMES, PICTURES, strict=True):
        path = paths.screenshots / name[:2] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture)
    make_run(paths.run, count=2, repeats=2).close()
    solved, missed = (msgspec.Raw(msgspec.json.encode(visit(last=last))) for last in LAST)
    attempts = [
        record(0, 0, repeats=2, outcome=Failed(LOST, result=solved)),
        record(1, 0, repeats=2, outcome=Completed(1.0, result=solved)),
        record(1, 1, repeats=2, outcome=Completed(0.0, result=missed)),
    ]
    write_journal(paths.run / "journal.jsonl", attempts)
    with TorchDraft(paths.trajectories) as draft:
        draft.append(failed_fragment(visit()))
        draft.append(fragment(visit(trajectory_index=1)))
        draft.save({"expected": 4, "completed": 1, "failed": 1, "omitted": 0, "unresolved": 2})
    return paths


def export(source: Path, output: Path, *options: str) -> int:
    return main(["export", str(source), "--format", "sft", "--output", str(output), *options])


@pytest.mark.parametrize("place", ["save_path", "run", "trajectories"])
def test_each_reply_of_a_solved_trajectory_is_an_example_with_what_the_model_saw(
    experiment: IterationPaths, tmp_path: Path, place: str
) -> None:
    output = tmp_path / "sft.jsonl"
    assert export(getattr(experiment, place), output) == 0
    images = [f"sft_images/{name}" for name in NAMES]
    assert read(output) == [
        {
            "messages": [
                {"role": "system", "content": "Act."},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": f"Step {page + 1}."}, {"type": "image"}],
                },
                {"role": "assistant", "content": reply},
            ],
            "images": [images[page]],
        }
        for page, reply in ((0, "Click 1"), (1, LAST[0]))
    ]
    assert [(tmp_path / image).read_bytes() for image in images] == PICTURES
    card = json.loads((tmp_path / "sft.jsonl.card.json").read_bytes())
    assert card["counts"]["replies_dropped"] == {"reply not parsed": 1}
    completed = 1 if place == "trajectories" else 2
    source = card["source"]
    assert (source["expected"], source["completed"], source["failed"]) == (4, completed, 1)
    assert card["rewards_after"]["count"] == 1


@pytest.mark.parametrize("place", ["save_path", "run", "trajectories"])
def test_the_exact_tokens_of_web_rollouts_are_branches(
    experiment: IterationPaths, place: str
) -> None:
    found = [each for each in read_branches(getattr(experiment, place)) if each.repeat == 0]
    assert [each.input_ids for each in found] == [[1, 2, 0, 9], [1, 2, 1, 9]]
    assert [(each.reason, each.left_at, each.reward) for each in found] == [
        ("", 0, 1.0),
        ("prompt", 2, 1.0),
    ]


def test_tokens_that_an_earlier_version_stored_are_read() -> None:
    earlier = {"prompt_token_ids": [1, 2], "token_ids": [3], "logprobs": [-0.5]}
    later = {"prompt_token_ids": [1, 2, 3, 4], "token_ids": [5], "logprobs": [-0.5]}
    result = json.dumps({"steps": [{"response": earlier}, {}, {"response": later}]}).encode()
    (branch,) = rollout_tokens(result).branches()
    assert (branch.input_ids, branch.loss_mask) == ([1, 2, 3, 4, 5], [0, 0, 1, 0, 1])
    assert branch.logprobs == [0, 0, -0.5, 0, -0.5]


def test_a_parquet_file_has_the_screenshots_in_it(
    experiment: IterationPaths, tmp_path: Path
) -> None:
    assert export(experiment.save_path, tmp_path / "sft.parquet", "--min-reward", "0") == 0
    rows = pyarrow.parquet.read_table(tmp_path / "sft.parquet").to_pylist()
    assert [row["images"][0]["bytes"] for row in rows] == PICTURES * 2
    assert not (tmp_path / "sft_images").exists()


def test_what_web_rollouts_cannot_give_is_refused(
    experiment: IterationPaths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusal(source: Path, kind: str = "sft") -> str:
        output = tmp_path / "out.jsonl"
        assert main(["export", str(source), "--format", kind, "--output", str(output)]) != 0
        assert not output.exists()
        return capsys.readouterr().err

    assert "Use --format sft" in refusal(experiment.run, "groups")
    alone = tmp_path / "alone.pt"
    alone.write_bytes(experiment.trajectories.read_bytes())
    assert "no folder screenshots beside it" in refusal(alone)
    (experiment.screenshots / NAMES[0][:2] / NAMES[0]).unlink()
    assert f"{NAMES[0]}: No such file" in refusal(experiment.run)
    second = msgspec.structs.replace(experiment, iteration=1)
    make_run(second.run).close()
    assert "has 2 iterations. Give one of them:" in refusal(experiment.save_path)
