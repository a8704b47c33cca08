"""Where web rollouts are found."""

from pathlib import Path

import msgspec
import pytest

from rollgym.viewer.open_source import read_monitors
from tests.builders import without_checksums
from tests.trajectories import full_trajectory
from tests.unit.webgym.viewing.recorded import completed, fragment
from webgym.rollout.iteration import IterationPaths
from webgym.rollout.ranks import Rank, announce
from webgym.rollout.sample import SampleHeader, SampleOrigin
from webgym.tasks.task import Split
from webgym.trajectory.torch_file import TorchDraft, TorchFileError
from webgym.viewing import open_web
from webgym.viewing.formats import TORCH, TRAJECTORIES


def begin_run(paths: IterationPaths) -> Path:
    """A run directory as it is before the first record."""
    paths.run.mkdir(parents=True)
    (paths.run / "manifest.json").write_text("{}")
    return paths.run


def record(run: Path) -> Path:
    journal = run / "journal.jsonl"
    journal.write_bytes(completed() + b"\n")
    return journal


def save(path: Path) -> Path:
    with TorchDraft(path) as draft:
        draft.append(fragment())
        draft.save({})
    return path


def sample(paths: IterationPaths, ranks: int) -> Path:
    origin = SampleOrigin(
        split=paths.split, iteration=paths.iteration, seed=0, tasks_sha256="0",
        rank_weights=(1.0,) * ranks,
    )  # fmt: skip
    paths.folder.mkdir(parents=True, exist_ok=True)
    paths.sample.write_bytes(msgspec.json.encode(SampleHeader(origin=origin, tasks=0)) + b"\n")
    return paths.sample


def iteration(folder: Path, number: int = 0, split: Split = "train") -> IterationPaths:
    return IterationPaths(folder / "shopping", split, number)


def test_an_experiment_has_a_source_for_each_iteration_and_split(tmp_path: Path) -> None:
    for number in (0, 2, 10):
        record(begin_run(iteration(tmp_path, number)))
    record(begin_run(iteration(tmp_path, 1, "test")))
    found = open_web(tmp_path / "shopping")
    assert [source.id for source in found] == [
        "shopping-train-0",
        "shopping-train-2",
        "shopping-train-10",
        "shopping-test-1",
    ]
    assert found[0].title == "shopping train iteration 0"


def test_a_source_knows_what_lies_beside_its_journal(tmp_path: Path) -> None:
    paths = iteration(tmp_path)
    journal = record(begin_run(paths))
    (source,) = open_web(paths.save_path)
    assert source.parts == ((journal, TRAJECTORIES),)
    assert source.path == paths.run
    assert source.inputs == paths.run / "inputs.jsonl"
    assert source.manifest == paths.run / "manifest.json"
    assert source.monitors == (paths.monitor,)
    assert source.images == paths.save_path


def test_a_folder_of_trajectories_has_the_iterations_of_its_split(tmp_path: Path) -> None:
    record(begin_run(iteration(tmp_path)))
    record(begin_run(iteration(tmp_path, 0, "test")))
    (source,) = open_web(iteration(tmp_path).folder)
    assert source.id == "shopping-train-0"


def test_a_run_that_has_just_begun_is_a_source_without_a_record(tmp_path: Path) -> None:
    run = begin_run(iteration(tmp_path))
    for path in (run, tmp_path / "shopping"):
        (source,) = open_web(path)
        assert source.parts == ((run / "journal.jsonl", TRAJECTORIES),)


def test_an_iteration_of_which_there_is_only_the_sample_is_a_source(tmp_path: Path) -> None:
    paths = iteration(tmp_path)
    sample(paths, 1)
    (source,) = open_web(paths.save_path)
    assert source.parts == ((paths.run / "journal.jsonl", TRAJECTORIES),)


def test_all_ranks_of_an_iteration_are_one_source_also_those_that_have_not_begun(
    tmp_path: Path,
) -> None:
    paths = iteration(tmp_path)
    drawn = sample(paths, 3)
    second = record(begin_run(paths.of_rank(1, 3)))
    (source,) = open_web(paths.save_path)
    assert [part.path for part in source.parts] == [
        paths.folder / "iteration0_rank_0.run" / "journal.jsonl",
        second,
        paths.folder / "iteration0_rank_2.run" / "journal.jsonl",
    ]
    assert (source.path, source.inputs) == (drawn, drawn)
    assert [monitor.name for monitor in source.monitors] == [
        f"monitor.iteration0_rank_{rank}.json" for rank in range(3)
    ]
    assert source.id == "shopping-train-0"


def test_ranks_are_found_without_their_sample(tmp_path: Path) -> None:
    paths = iteration(tmp_path)
    journals = [record(begin_run(paths.of_rank(rank, 2))) for rank in (0, 1)]
    (source,) = open_web(paths.save_path)
    assert [part.path for part in source.parts] == journals


def test_ranks_with_suffixes_of_their_own_are_found(tmp_path: Path) -> None:
    paths = iteration(tmp_path)
    ranks = [Rank(number, 2, (1.0, 1.0), own_suffix=f"-{number}") for number in range(2)]
    for rank in ranks:
        announce(paths, rank)
    journals = [record(begin_run(paths.with_suffix(rank.suffix))) for rank in ranks]
    (source,) = open_web(paths.save_path)
    assert [part.path for part in source.parts] == journals


def test_the_run_of_one_rank_is_opened_alone(tmp_path: Path) -> None:
    paths = iteration(tmp_path)
    sample(paths, 2)
    journals = [record(begin_run(paths.of_rank(rank, 2))) for rank in (0, 1)]
    for path in (journals[1].parent, journals[1]):
        (source,) = open_web(path)
        assert source.id == "shopping-train-0-rank-1"
        assert [part.path for part in source.parts] == [journals[1]]


def test_the_journal_goes_before_the_file_that_is_made_of_it(tmp_path: Path) -> None:
    paths = iteration(tmp_path)
    record(begin_run(paths))
    save(paths.trajectories)
    (source,) = open_web(paths.save_path)
    assert [part.format for part in source.parts] == [TRAJECTORIES]


def test_where_the_runs_are_gone_the_file_of_all_ranks_is_opened(tmp_path: Path) -> None:
    paths = iteration(tmp_path)
    sample(paths, 2)
    for each in (paths, paths.of_rank(0, 2), paths.of_rank(1, 2)):
        save(each.trajectories)
    (source,) = open_web(paths.save_path)
    assert source.parts == ((paths.trajectories, TORCH),)
    assert source.images == paths.save_path


def test_a_rank_whose_run_is_gone_is_read_from_its_file(tmp_path: Path) -> None:
    paths = iteration(tmp_path)
    journal = record(begin_run(paths.of_rank(0, 2)))
    file = save(paths.of_rank(1, 2).trajectories)
    (source,) = open_web(paths.save_path)
    assert source.parts == ((journal, TRAJECTORIES), (file, TORCH))


def test_a_file_that_is_named_is_opened_as_such(tmp_path: Path) -> None:
    paths = iteration(tmp_path)
    record(begin_run(paths))
    (source,) = open_web(save(paths.trajectories))
    assert source.id == "shopping-train-0-pt"
    assert source.parts == ((paths.trajectories, TORCH),)
    assert source.images == paths.save_path


def test_a_file_that_was_taken_elsewhere_is_opened_without_its_screenshots(tmp_path: Path) -> None:
    (source,) = open_web(save(tmp_path / "best.pt"))
    assert (source.id, source.images) == ("best.pt", None)


def test_a_file_that_is_no_archive_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(b"PK")
    with pytest.raises(TorchFileError):
        open_web(tmp_path / "a.pt")


def test_a_run_that_was_taken_elsewhere_is_reported_by_its_records(tmp_path: Path) -> None:
    run = tmp_path / "copied"
    run.mkdir()
    journal = record(run)
    (source,) = open_web(run)
    assert (source.id, source.images) == ("copied", None)
    assert [part.path for part in source.parts] == [journal]


def test_other_runs_and_files_are_not_web_rollouts(tmp_path: Path) -> None:
    run = tmp_path / "plain.run"
    run.mkdir()
    (run / "journal.jsonl").write_bytes(
        without_checksums(completed()).replace(b'"task_id":"shop-1"', b'"response":{}') + b"\n"
    )
    (tmp_path / "rows.jsonl").write_bytes(b"{}\n")
    for path in (tmp_path, run, tmp_path / "rows.jsonl", tmp_path / "absent"):
        assert open_web(path) == []


def test_a_link_that_leads_out_of_the_experiment_is_not_followed(tmp_path: Path) -> None:
    elsewhere = record(begin_run(IterationPaths(tmp_path / "other", "train", 0)))
    paths = iteration(tmp_path)
    begin_run(paths)
    (paths.run / "journal.jsonl").symlink_to(elsewhere)
    (source,) = open_web(paths.save_path)
    assert source.parts == ()


def test_nothing_beside_a_journal_leads_out_of_the_experiment(tmp_path: Path) -> None:
    for number, ranks in enumerate([1, 2]):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths = iteration(folder)
        secret = folder / "secret.json"
        secret.write_text('{"secret": 1}')
        runs = [paths] if ranks == 1 else [paths.of_rank(rank, ranks) for rank in range(ranks)]
        for each in runs:
            record(begin_run(each))
        (runs[0].run / "manifest.json").unlink()
        links = [runs[0].run / "manifest.json", runs[0].run / "inputs.jsonl", runs[0].monitor]
        for path in (*links, paths.sample):
            path.symlink_to(secret)
        for named in (paths.save_path, runs[0].run):
            (source,) = open_web(named)
            assert len(source.parts) == (ranks if named == paths.save_path else 1)
            assert (source.inputs, source.manifest, source.expected) == (None, None, None)
            others = runs[1:] if named == paths.save_path else []
            assert source.monitors == tuple(each.monitor for each in others)


def test_a_run_elsewhere_with_links_out_of_it_does_without(tmp_path: Path) -> None:
    run = tmp_path / "copied"
    run.mkdir()
    record(run)
    for name in ("manifest.json", "inputs.jsonl"):
        (tmp_path / name).write_text("{}")
        (run / name).symlink_to(tmp_path / name)
    (source,) = open_web(run)
    assert (source.inputs, source.manifest) == (None, None)


def test_a_rank_whose_run_leads_out_is_left_out(tmp_path: Path) -> None:
    paths = iteration(tmp_path)
    first, second = (paths.of_rank(rank, 2) for rank in range(2))
    journal = record(begin_run(second))
    elsewhere = begin_run(IterationPaths(tmp_path / "other", "train", 0))
    record(elsewhere)
    first.run.symlink_to(elsewhere)
    (source,) = open_web(paths.save_path)
    assert [part.path for part in source.parts] == [journal]
    assert source.manifest == second.run / "manifest.json"
    assert source.monitors == (second.monitor,)


def test_a_monitor_that_becomes_a_link_is_not_read(tmp_path: Path) -> None:
    paths = iteration(tmp_path)
    record(begin_run(paths))
    (source,) = open_web(paths.save_path)
    paths.monitor.write_text('{"time": 1.0}')
    assert read_monitors(source) == [{"time": 1.0}]
    paths.monitor.rename(tmp_path / "secret.json")
    paths.monitor.symlink_to(tmp_path / "secret.json")
    assert read_monitors(source) == []


def test_the_places_of_a_file_are_those_of_its_trajectories(tmp_path: Path) -> None:
    made = [fragment(full_trajectory(trajectory_index=index)) for index in range(3)]
    with TorchDraft(tmp_path / "a.pt") as draft:
        for each in made:
            draft.append(each)
        draft.save({"agent": {}})
    data = (tmp_path / "a.pt").read_bytes()
    places = list(TORCH.places(tmp_path / "a.pt"))
    assert [data[place.position : place.position + place.length] for place in places] == made
