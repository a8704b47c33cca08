"""Task files: checked as a whole, read again row by row."""

import json
import tracemalloc
from pathlib import Path

import pytest

from rollgym.store import InputsError
from tests.integration.webgym.tasks.task_rows import some_tasks, task_row, write_tasks
from webgym.sites.tasks.task import PLACEHOLDER
from webgym.tasks.file import BUNDLED, TaskFile, find_task_file
from webgym.tasks.task import SITES, WebTask


def problems(path: Path) -> str:
    with pytest.raises(InputsError) as caught:
        TaskFile(path)
    return str(caught.value)


def web_tasks(path: Path) -> list[WebTask]:
    file = TaskFile(path)
    return [WebTask.of(row, "") for row in file.rows(range(len(file)))]


def test_tasks_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = some_tasks(tmp_path / "tasks.jsonl", 5)
    assert [task.task_id for task in web_tasks(path)] == ["t0", "t1", "t2", "t3", "t4"]


def test_a_task_without_an_id_has_the_number_of_its_line(tmp_path: Path) -> None:
    rows = [{"task_name": "Look", "website": "a.example"}, {"task_name": "See", "website": "b.c"}]
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n" + json.dumps(rows[0]) + "\n\n" + json.dumps(rows[1] | {"task_id": None}))
    tasks = list(web_tasks(path))
    assert [task.task_id for task in tasks] == ["2", "4"]
    assert WebTask.of(tasks[1].row, "other").task_id == "4"


def test_rows_are_given_in_any_order_and_as_often_as_asked_for(tmp_path: Path) -> None:
    tasks = TaskFile(some_tasks(tmp_path / "tasks.jsonl", 4))
    assert [row.get("task_id", str) for row in tasks.rows([3, 0, 3])] == ["t3", "t0", "t3"]


def test_all_bad_rows_are_named_at_once_with_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    lines = [
        json.dumps(task_row("good")),
        json.dumps(task_row("a", difficulty="7")),
        json.dumps({"task_name": "Look"}),
        "{",
        json.dumps(task_row("b", website="file:///etc/passwd")),
        json.dumps(task_row("c", website="https://")),
        json.dumps(task_row("d", website="http://[::1")),
        json.dumps(task_row("e", evaluator_reference=[7])),
        json.dumps(task_row("good")),
        "[" * 100_000,
    ]
    path.write_text("\n".join(lines))
    said = problems(path)
    assert said.startswith(f"9 bad row(s) in {path}; nothing was started:")
    for number, field in [
        (2, "difficulty"),
        (3, "website"),
        (5, "website"),
        (6, "website"),
        (7, "website"),
        (8, "evaluator_reference"),
        (9, "task_id"),
    ]:
        line = next(line for line in said.splitlines() if f"{path}:{number}: " in line)
        assert field in line
    assert f"{path}:9: field 'task_id': 'good' is also the id of line 1" in said


@pytest.mark.parametrize("website", ["not a url", "http://a b/", "{site}/shop/", "http://a:70000/"])
def test_a_website_without_a_host_is_refused(tmp_path: Path, website: str) -> None:
    path = write_tasks(tmp_path / "tasks.jsonl", [task_row("a", website=website)])
    assert f"{path}:1: field 'website': " in problems(path)


@pytest.mark.parametrize("website", ["a.example/b", "http://[::1]:80/", "https://bücher.example"])
def test_a_website_may_be_any_host(tmp_path: Path, website: str) -> None:
    assert TaskFile(write_tasks(tmp_path / "tasks.jsonl", [task_row("a", website=website)]))


def test_a_task_of_the_sites_has_to_say_how_to_check_it(tmp_path: Path) -> None:
    whole = json.loads(BUNDLED["sites/test.jsonl"].read_text().splitlines()[0])
    without = {name: value for name, value in whole.items() if name != "truth"}
    path = write_tasks(tmp_path / "tasks.jsonl", [whole, without | {"task_id": "b"}])
    said = problems(path)
    assert said.startswith("1 bad row(s)")
    assert f"{path}:2: field 'verifier': 'sites' needs" in said
    assert "truth" in said


def test_ids_that_differ_only_in_type_are_the_same(tmp_path: Path) -> None:
    rows = [task_row("7"), task_row("other") | {"task_id": 7}]
    assert "'7' is also the id of line 1" in problems(write_tasks(tmp_path / "tasks.jsonl", rows))


def test_only_the_first_bad_rows_are_shown(tmp_path: Path) -> None:
    said = problems(write_tasks(tmp_path / "tasks.jsonl", [{"task_name": ""}] * 30))
    assert len(said.splitlines()) == 22
    assert said.endswith("and 10 more bad row(s)")


def test_a_file_without_rows_has_no_tasks(tmp_path: Path) -> None:
    assert "is empty: it has no tasks" in problems(write_tasks(tmp_path / "tasks.jsonl", []))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    some_tasks(tmp_path / "tasks.jsonl")
    assert "did you mean" in problems(tmp_path / "task.jsonl")


def test_a_file_that_is_changed_is_noticed(tmp_path: Path) -> None:
    path = some_tasks(tmp_path / "tasks.jsonl")
    tasks = TaskFile(path)
    some_tasks(path, 3)
    with pytest.raises(InputsError, match="was changed while it was read"):
        list(tasks.rows([0]))


def test_the_digest_is_that_of_the_rows(tmp_path: Path) -> None:
    one = some_tasks(tmp_path / "one.jsonl")
    other = tmp_path / "other.jsonl"
    other.write_bytes(b"\xef\xbb\xbf" + one.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert TaskFile(one).sha256 == TaskFile(other).sha256
    assert TaskFile(one).sha256 != TaskFile(some_tasks(other, 9)).sha256


def test_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    filler = "x" * 1000
    write_tasks(path, (task_row(f"t{number}", about=filler) for number in range(5000)))
    tracemalloc.start()
    try:
        tasks = TaskFile(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(tasks) == 5000
    assert peak < path.stat().st_size / 5


def test_bundled_tasks_have_the_placeholder_of_the_sites() -> None:
    for name in BUNDLED:
        file = TaskFile(find_task_file(name))
        tasks = web_tasks(file.path)
        assert PLACEHOLDER == SITES
        assert all(task.website.startswith(SITES) for task in tasks)
        assert {task.verifier for task in tasks} == {name.partition("/")[0]}
        assert file.needs_sites


def test_a_file_of_the_users_comes_before_a_bundled_one(tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    own = some_tasks(tmp_path / "sites" / "train.jsonl")
    assert find_task_file("sites/train.jsonl", tmp_path) == own
    assert find_task_file("sites/test.jsonl", tmp_path) == BUNDLED["sites/test.jsonl"]
    assert find_task_file(str(own), Path("elsewhere")) == own


def test_a_file_that_is_nowhere_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(
        InputsError, match=r"mine\.jsonl was not found below data_path=.*sites/train\.jsonl"
    ):
        find_task_file("mine.jsonl", tmp_path)
