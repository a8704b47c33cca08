"""What the bundled language model achieves on three tasks of MiniWoB++, in real Chromium.

The episodes are those of `scripts/rollout.py --config-name small_model` with the bundled task file
`miniwob/easy.jsonl`: `click-button`, `click-link` and `enter-text`, with the seeds 2000 to 2019.
Tune prompts on other seeds. The run is in `results/bench_model`, and the same command continues it.
There are no goals: these figures describe a model, not rollgym.

For each task: the share of rollouts that succeed, pass@k over the seeds, the share of replies that
are actions, and the tokens of one step.

    python -m benchmarks.small_model                          # 240 rollouts, 4 for each seed
    python -m benchmarks.small_model --seeds 5 --repeats 2    # fewer, in another folder
    python -m benchmarks.small_model --of FOLDER              # the figures of an earlier run
"""

import argparse
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.figure import Figures
from rollgym.metrics import PassAtK
from rollgym.records import Completed
from rollgym.store import run_records
from webgym.rollout.iteration import IterationPaths
from webgym.tasks.file import find_task_file

ROOT = Path(__file__).parents[1]
TASKS, SEEDS, REPEATS = "miniwob/easy.jsonl", 20, 4


class Told(NamedTuple):
    """What one rollout came to."""

    task: str
    success: bool
    replies: int
    unparsed: int
    tokens: int


class _Task(msgspec.Struct):
    task_id: str
    subdomain: str


class _Response(msgspec.Struct):
    parse_failure: str | None = None


class _Step(msgspec.Struct):
    response: _Response | None = None


class _Trajectory(msgspec.Struct):
    task: _Task
    steps: list[_Step]


def main() -> None:
    options = _options()
    figures, folder = Figures(), options.of
    if folder is None:
        name = "bench_model"
        if (options.seeds, options.repeats) != (SEEDS, REPEATS):
            name += f"_{options.seeds}x{options.repeats}"
        folder = ROOT / "results" / name
        collect(folder, options.seeds, options.repeats)
    for kind, told in rollouts(folder).items():
        report(figures, f"small_model.{kind}", told)
    figures.exit()


def collect(folder: Path, seeds: int, repeats: int) -> None:
    """Collect, or continue. Exits where the command does not end well."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = folder / "tasks.jsonl"
    rows = find_task_file(TASKS).read_bytes().splitlines(keepends=True)
    tasks.write_bytes(b"".join(rows[: seeds * len(rows) // SEEDS]))
    settings = [
        f"save_path={folder}",
        "iteration=0",
        f"env_config.train_tasks={tasks.resolve()}",
        f"env_config.rollouts_per_task={repeats}",
    ]
    command = [sys.executable, str(ROOT / "scripts/rollout.py"), "--config-name", "small_model"]
    ended = subprocess.run([*command, *settings], stdout=sys.stderr, check=False)
    if ended.returncode:
        sys.exit(ended.returncode)


def rollouts(folder: Path) -> dict[str, list[Told]]:
    """The completed rollouts of each kind of task."""
    found: dict[str, list[Told]] = defaultdict(list)
    for entry, current in run_records(IterationPaths(folder, "train", 0).run):
        outcome = entry.attempt.outcome
        if current and isinstance(outcome, Completed):
            whole = msgspec.json.decode(outcome.result, type=_Trajectory)
            replies = [each.response for each in whole.steps if each.response is not None]
            usage = outcome.usage
            told = Told(
                whole.task.task_id,
                outcome.succeeded,
                len(replies),
                sum(each.parse_failure is not None for each in replies),
                usage.input_tokens + usage.output_tokens,
            )
            found[whole.task.subdomain].append(told)
    return found


def report(figures: Figures, name: str, told: list[Told]) -> None:
    by_task: dict[str, list[bool]] = defaultdict(list)
    for each in told:
        by_task[each.task].append(each.success)
    passes = PassAtK()
    for successes in by_task.values():
        passes.add_counts(len(successes), sum(successes))
    replies = max(1, sum(each.replies for each in told))
    figures.report(f"{name}.rollouts", len(told), "rollouts")
    figures.report(f"{name}.success", sum(each.success for each in told) / len(told), "share")
    for k, estimate in passes.estimates().items():
        if k > 1:
            figures.report(f"{name}.pass_at_{k}", float(estimate), "share")
    parsed = 1 - sum(each.unparsed for each in told) / replies
    figures.report(f"{name}.parsed", parsed, "share of replies")
    tokens = sum(each.tokens for each in told) / replies
    figures.report(f"{name}.tokens_per_step", tokens, "tokens")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.small_model", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=SEEDS, choices=range(1, SEEDS + 1))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--of", type=Path, metavar="FOLDER", help="figures of an earlier run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
