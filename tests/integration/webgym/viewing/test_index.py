"""Web rollouts in the index of the viewer: several ranks, one source."""

from pathlib import Path

import msgspec

from rollgym.records import Completed, Row
from rollgym.viewer.index.source_index import SourceIndex
from rollgym.viewer.source import EntryId, ViewerSource
from tests.integration.webgym.viewing.test_opener import begin_run, iteration, sample, save
from tests.trajectories import full_trajectory
from tests.unit.webgym.viewing.recorded import failed, line
from webgym.viewing import open_web

SECONDS = 30.0


def recorded(task: int) -> bytes:
    result = msgspec.Raw(msgspec.json.encode(full_trajectory(trajectory_index=task)))
    return line(Completed(1.0, result=result), task=task)


def indexed(source: ViewerSource) -> SourceIndex:
    index = SourceIndex(source)
    index.open()
    assert index.extend(SECONDS)
    return index


def test_the_rollouts_of_all_ranks_are_listed_while_they_run(tmp_path: Path) -> None:
    paths = iteration(tmp_path)
    drawn = sample(paths, 2)
    with drawn.open("ab") as file:
        for task in range(2):
            row = Row.of({"task_name": f"Task {task}", "website": "http://shop.test/"})
            file.write(b'{"task":%d,"repeats":1,"row":%b}\n' % (task, row.raw))
    runs = [begin_run(paths.of_rank(rank, 2)) for rank in range(2)]
    (runs[0] / "journal.jsonl").write_bytes(recorded(0) + b"\n")
    (source,) = open_web(paths.save_path)
    index = indexed(source)
    assert index.state().entries == 1
    (runs[1] / "journal.jsonl").write_bytes(failed(task=1) + b"\n")
    assert index.extend(SECONDS)
    with index.reading() as connection:
        rows = connection.execute(
            "SELECT id, status, task, title FROM entry JOIN words ON entry = id ORDER BY id"
        ).fetchall()
    assert [row[1:] for row in rows] == [("completed", 0, "Task 0"), ("failed", 1, "Task 1")]
    found = index.input_row(1)
    assert found is not None
    assert found.get("task_name", str) == "Task 1"
    index.close()


def test_a_trajectory_of_a_file_is_found_again_by_its_place(tmp_path: Path) -> None:
    (source,) = open_web(save(iteration(tmp_path).trajectories))
    index = indexed(source)
    part, _ = index.place(EntryId(0, 1))
    summary = part.format.summary(index.record(EntryId(0, 1)), lambda task: None)
    assert (summary.task, summary.steps) == (3, 2)
    index.close()
