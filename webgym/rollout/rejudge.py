"""`rollgym rejudge`: judge stored web episodes that have no verdict, without a browser or a model.

For episodes whose judge could not be reached, failed or was too slow: each is read from the
journal, or from the file that is kept while it waits, and judged by its stored screenshots. The
verdict is a further record of the same run, so the trajectories and metrics of the iteration are
complete then. A rollout that has a verdict keeps it.

The judge must be the one of the run, because verdicts of different judges cannot be compared;
`--another-judge` allows another. With `--output` all episodes are judged, also those with a
verdict, and written to another file; the run stays as it is, and any judge will do.
"""

import asyncio
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rollgym.cli.process import EXIT_STATUSES, say_beside
from rollgym.cli.summary import format_count
from rollgym.engine import run as run_loop
from rollgym.records import (
    Attempt,
    RolloutError,
    RolloutKey,
    derive_seed,
)
from rollgym.store import (
    Manifest,
    RefusedError,
    RunStore,
    inputs_path,
    journal_paths,
    open_run,
    read_manifest,
    read_records,
    read_tasks,
    settings_identity,
)
from webgym.episode.judging import UnjudgedEpisodes, completed, counting_judge_calls, judge
from webgym.episode.log import PhaseTimes
from webgym.models.evaluator import EVALUATION_TIMEOUT, Evaluator
from webgym.models.judge_settings import JudgeSettings
from webgym.rollout.iteration import (
    ITERATION_ADVICE,
    IterationLabels,
    IterationPaths,
    IterationReport,
    last_iteration,
    read_report,
)
from webgym.rollout.iteration_files import IterationFiles
from webgym.rollout.reporting import (
    coverage_of,
    print_files,
    print_metrics,
    print_verdict,
    print_verdicts,
)
from webgym.rollout.rescoring import rescore
from webgym.trajectory.torch_file import TorchFile

_ROOT = "openai_config"
_WORKERS = 16


def configure(parser: ArgumentParser) -> None:
    parser.epilog = EXIT_STATUSES
    parser.description = (
        "Judge the stored episodes of an iteration of web rollouts that have no verdict, because "
        "the judge could not be reached, failed or was too slow. Neither a browser nor a model is "
        "needed. Example: "
        "rollgym rejudge /data/exp1 openai_config.model=gpt-4o"
    )
    parser.add_argument("save_path", type=Path, metavar="SAVE_PATH", help="folder of the rollouts")
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="openai_config.KEY=VALUE",
        help="the judge, with the keys of scripts/rollout.py",
    )
    parser.add_argument(
        "--split", choices=("train", "test"), default="train", help="train (default) or test"
    )
    parser.add_argument("--iteration", type=int, metavar="N", help="default: the last one")
    parser.add_argument(
        "--another-judge", action="store_true", help="allow another judge than that of the run"
    )
    workers_help = f"episodes judged at a time (default: {_WORKERS})"
    parser.add_argument("--workers", type=int, default=_WORKERS, metavar="N", help=workers_help)
    parser.add_argument(
        "--timeout",
        type=float,
        default=EVALUATION_TIMEOUT,
        metavar="SECONDS",
        help=f"longest time for one verdict (default: {EVALUATION_TIMEOUT:g})",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="judge all stored episodes into this .pt file, and change nothing else",
    )


def run(options: Namespace) -> int:
    """Judge the episodes of all ranks; the exit status. Raises RefusedError, StorageError."""
    if options.workers < 1 or options.timeout <= 0:
        raise RefusedError("--workers and --timeout must be above 0")
    paths = list(_find_runs(options.save_path, options.split, options.iteration))
    if options.output is not None:
        if options.output.exists():
            raise RefusedError(f"{options.output} exists: give --output another name")
        return run_loop(
            rescore(
                paths,
                _evaluator(options),
                options.output,
                within=options.timeout,
                workers=options.workers,
            )
        )
    status = 0
    for each in paths:
        report = run_loop(_rejudge(each, options))
        print_metrics(report.metrics)
        print_verdicts(report)
        print_files(each)
        status = max(status, print_verdict(coverage_of(report), each.iteration, "Done."))
    if any(each.suffix for each in paths):
        say_beside("Run rank 0 of the iteration again to aggregate the files of its ranks.")
    return status


def _find_runs(save_path: Path, split: Any, iteration: int | None) -> Iterator[IterationPaths]:
    """The runs of an iteration, one for each rank. Raises RefusedError."""
    number = last_iteration(save_path, split) if iteration is None else iteration
    folder = IterationPaths(save_path, split, 0).folder
    name = f"iteration{number}"
    found = sorted(
        path for path in folder.glob(f"{name}*.run") if not path.name[len(name)].isdigit()
    )
    if number is None or not found:
        raise RefusedError(
            f"{folder} has no run of {'any' if number is None else 'this'} iteration: give the "
            "save_path of the rollouts, and their --split and --iteration"
        )
    for path in found:
        yield IterationPaths(save_path, split, number, path.stem.removeprefix(name))


def read_judge(settings: Sequence[str]) -> dict[str, Any]:
    """The value of `openai_config`. Raises RefusedError."""
    try:
        given: Any = OmegaConf.to_container(OmegaConf.from_dotlist(list(settings)))
    except (OmegaConfBaseException, ValueError) as error:
        raise RefusedError(f"the settings cannot be read: {error}") from error
    unknown = [name for name in given if name != _ROOT]
    if unknown:
        raise RefusedError(f"{unknown[0]}: unknown key; give {_ROOT}.KEY=VALUE")
    return dict(given.get(_ROOT) or {})


async def _rejudge(paths: IterationPaths, options: Namespace) -> IterationReport:
    manifest = read_manifest(paths.run, ITERATION_ADVICE)
    if manifest is None:
        raise RefusedError(f"{paths.run} has no manifest: it is not a run")
    evaluator = _evaluator(options)
    if not options.another_judge:
        _require_same_judge(manifest, evaluator, paths.run)
    identity = manifest.identity
    with (
        open_run(
            paths.run,
            read_tasks(inputs_path(paths.run)),
            config=identity.config,
            seed=identity.seed,
            advice=ITERATION_ADVICE,
        ) as store,
        UnjudgedEpisodes(store.directory) as unjudged,
        _files(paths, store) as files,
    ):
        async with evaluator:
            await _Rejudging(store, unjudged, evaluator, options.timeout).run(options.workers)
        await asyncio.to_thread(files.rebuild)
        await asyncio.to_thread(files.finish, missed=False)
        return files.report(ended=True)


def _evaluator(options: Namespace) -> Evaluator:
    return Evaluator(
        JudgeSettings.of(read_judge(options.settings)),
        options.save_path,
        evaluation_workers=options.workers,
        timeout=options.timeout,
    )


class _Rejudging:
    """Judges the episodes of one run."""

    def __init__(
        self, store: RunStore, unjudged: UnjudgedEpisodes, evaluator: Evaluator, within: float
    ) -> None:
        self._store = store
        self._unjudged = unjudged
        self._evaluator = evaluator
        self._within = within
        self._repeats = {task.index: task.repeats for task in store.inputs}
        self._attempts: dict[RolloutKey, int] = {}
        for entry, _ in read_records(journal_paths(store.directory)):
            key, number = entry.attempt.key, entry.attempt.attempt
            self._attempts[key] = max(number, self._attempts.get(key, 0))

    async def run(self, workers: int) -> None:
        waiting = list(self._unjudged)
        if not waiting:
            say_beside("No stored episode lacks a verdict. Nothing was judged.")
            return
        counts = {True: 0, False: 0}
        problems: list[str] = []

        async def work() -> None:
            while waiting:
                key = waiting.pop(0)
                try:
                    solved = await self._judge(key)
                except RolloutError as error:
                    problems.append(str(error))
                else:
                    counts[solved] += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
        judged = format_count(sum(counts.values()), "episode")
        say_beside(f"judged {judged}: {counts[True]} solved, {counts[False]} not solved")
        if problems:
            say_beside(f"{format_count(len(problems), 'episode')} got no verdict: {problems[0]}")

    async def _judge(self, key: RolloutKey) -> bool:
        """Judge one episode and record it; whether it is solved. Raises RolloutError."""
        trajectory = await self._unjudged.find(key)
        if trajectory is None:
            raise RolloutError(f"the stored episode of {key} cannot be read")
        clock, started = asyncio.get_running_loop().time, time.time()
        began = clock()
        times = PhaseTimes(began)
        with counting_judge_calls() as calls:
            name = f"{key.task}/{key.repeat}"
            verdict = await judge(self._evaluator, trajectory, self._within, name)
        times.add("reward", began, clock())
        spent = trajectory.judge_usage + calls.usage
        judged = msgspec.structs.replace(trajectory, judge_usage=spent)
        outcome = completed(judged, verdict, times, calls.all, played_before=True)
        attempt = Attempt(
            task=key.task,
            repeat=key.repeat,
            repeats=self._repeats[key.task],
            attempt=self._attempts.get(key, 0) + 1,
            final=True,
            seed=derive_seed(self._store.seed, "rollout", key.task, key.repeat),
            started=started,
            seconds=times.phases["reward"],
            outcome=outcome,
        )
        self._store.append(attempt)
        await self._store.commit.flush()
        await asyncio.to_thread(self._unjudged.remove, key)
        return verdict.is_solved


def _require_same_judge(manifest: Manifest, evaluator: Evaluator, run_directory: Path) -> None:
    """Raise RefusedError where the run has another judge."""
    given = settings_identity({"judge": evaluator.identity}).values
    known = {
        name: value
        for name, value in manifest.identity.config.items()
        if name.partition(".")[0] == "judge"
    }
    names = sorted(
        name for name in given.keys() | known.keys() if given.get(name) != known.get(name)
    )
    if names:
        listed = "; ".join(
            f"{name} is {known.get(name)!r} in the run, {given.get(name)!r} now" for name in names
        )
        raise RefusedError(
            f"{run_directory} has another judge: {listed}. Give the same settings, or allow it "
            "with --another-judge"
        )


def _files(paths: IterationPaths, store: RunStore) -> IterationFiles:
    labels = read_report(paths.metrics) or IterationLabels(
        split=paths.split, iteration=paths.iteration
    )
    agent: Any = {}
    if paths.trajectories.exists():
        with TorchFile(paths.trajectories) as file:
            agent = file.metadata.get("agent", {})
    names = IterationLabels.__struct_fields__
    return IterationFiles(
        trajectories=paths.trajectories,
        metrics=paths.metrics,
        directory=store.directory,
        holds=store.inputs.holds,
        expected=store.inputs.expected,
        labels=IterationLabels(**{name: getattr(labels, name) for name in names}),
        agent=agent,
    )
