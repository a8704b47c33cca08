"""Several threads and several viewers of one index."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

from tests.integration.viewer.index.sources import (
    PATIENCE,
    append,
    column,
    indexed,
    opened,
    rows,
    source,
)
from tests.integration.viewer.rollouts import rollout, write

OTHER_VIEWER = dedent("""
    import sys
    from pathlib import Path
    from tests.integration.viewer.index.sources import indexed, source

    with indexed(source(Path(sys.argv[1]))) as index:
        print("built", flush=True)
        sys.stdin.readline()
""")


def test_one_viewer_builds_and_the_other_reads_along_and_takes_over(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(0)])
    with indexed(source(path)) as first, opened(source(path)) as second:
        assert second.extend(PATIENCE)
        assert second.state() == first.state()
        append(path, rollout(1))
        assert second.extend(PATIENCE)
        assert column(second, "task") == [0]  # it does not write
        assert first.extend(PATIENCE)
        assert column(second, "task") == [0, 1]
        append(path, rollout(2))
        first.close()
        assert second.extend(PATIENCE)
        assert column(second, "task") == [0, 1, 2]


def test_a_viewer_that_was_killed_is_no_longer_waited_for(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(0)])
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER_VIEWER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[4],
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"built\n"
        with opened(source(path)) as index:
            append(path, rollout(1))
            assert index.extend(PATIENCE)
            assert column(index, "task") == [0]
            other.kill()
            other.wait(PATIENCE)
            assert index.extend(PATIENCE)
            assert column(index, "task") == [0, 1]


def test_readers_see_one_state_for_as_long_as_they_look(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(0)])
    with indexed(source(path)) as index:
        with index.reading() as connection:
            count = "SELECT count(*) FROM entry"
            assert connection.execute(count).fetchone() == (1,)
            append(path, rollout(1))
            assert index.extend(PATIENCE)
            assert connection.execute(count).fetchone() == (1,)
        assert rows(index, count) == [(2,)]


def test_many_threads_read_while_one_builds(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(task) for task in range(500)])
    with opened(source(path)) as index, ThreadPoolExecutor(8) as threads:

        def look(_: int) -> bool:
            state = index.state()
            ((entries,),) = rows(index, "SELECT count(*) FROM entry")
            return bool(entries >= state.entries)

        looks = threads.map(look, range(200))
        while not index.extend(0.01):
            pass
        assert all(looks)
        assert index.state().entries == 500


def test_an_answer_is_kept_for_as_long_as_it_is_true(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [rollout(0)])
    with indexed(source(path)) as index:
        version = index.state().version
        index.keep("overview", b"one rollout", version)
        assert index.kept("overview") == b"one rollout"
        assert index.kept("tasks") is None
    with indexed(source(path)) as index:
        assert index.kept("overview") == b"one rollout"
        append(path, rollout(1))
        assert index.extend(PATIENCE)
        assert index.kept("overview") is None
        index.keep("overview", b"made from what is no longer true", version)
        assert index.kept("overview") is None
        index.keep("tasks", b"two", index.state().version)
        assert rows(index, "SELECT name FROM kept") == [("tasks",)]
