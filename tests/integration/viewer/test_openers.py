from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from rollgym.store import RefusedError
from rollgym.viewer import ViewerError, openers
from rollgym.viewer.formats.rows import JOURNAL, ROLLOUTS
from rollgym.viewer.openers import look_again, open_sources
from rollgym.viewer.source import ENTRY_POINTS, SourcePart, ViewerSource


@pytest.fixture(autouse=True)
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is installed beside rollgym does not matter here."""
    plug_in(monkeypatch)
    yield
    openers._plugins.cache_clear()


def plug_in(monkeypatch: pytest.MonkeyPatch, **named: str) -> None:
    points = EntryPoints(EntryPoint(name, value, ENTRY_POINTS) for name, value in named.items())
    monkeypatch.setattr(openers, "entry_points", lambda group: points.select(group=group))
    openers._plugins.cache_clear()


def make(folder: Path, *names: str) -> Path:
    """Files with nothing in them; a name that ends in `/` is a run."""
    for name in names:
        if name.endswith("/"):
            make(folder / name, "manifest.json", "inputs.jsonl", "journal.jsonl")
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
    return folder


def test_rollouts_are_opened_with_what_lies_beside_them(tmp_path: Path) -> None:
    make(tmp_path, "x.jsonl", "x_failures.jsonl", "x_materialized_inputs.jsonl", "x.run/")
    [source] = open_sources([tmp_path / "x.jsonl"])
    assert (source.id, source.title, source.kind) == ("x", "x.jsonl", "rollouts")
    assert source.parts == (
        SourcePart(tmp_path / "x.jsonl", ROLLOUTS),
        SourcePart(tmp_path / "x_failures.jsonl", ROLLOUTS),
    )
    assert source.inputs == tmp_path / "x_materialized_inputs.jsonl"
    assert source.manifest == tmp_path / "x.run/manifest.json"


def test_failures_that_are_still_to_come_are_a_part_already(tmp_path: Path) -> None:
    make(tmp_path, "x.jsonl")
    [source] = open_sources([tmp_path / "x.jsonl"])
    assert [part.path.name for part in source.parts] == ["x.jsonl", "x_failures.jsonl"]
    assert source.manifest is source.inputs is None


def test_a_shard_has_the_run_of_the_whole(tmp_path: Path) -> None:
    make(tmp_path, "x_shard-0-of-2.jsonl", "x.run/")
    [source] = open_sources([tmp_path / "x_shard-0-of-2.jsonl"])
    assert source.manifest == tmp_path / "x.run/manifest.json"
    assert source.inputs == tmp_path / "x.run/inputs.jsonl"


def test_what_belongs_to_rollouts_can_be_opened_alone(tmp_path: Path) -> None:
    for number, (name, kind) in enumerate(
        [
            ("x_failures.jsonl", "failures"),
            ("x_materialized_inputs.jsonl", "inputs"),
            ("x.jsonl.previous-1", "rollouts"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        make(folder, name)
        [source] = open_sources([folder / name])
        assert source.kind == kind
        assert [part.path.name for part in source.parts] == [name]


def test_a_run_is_opened_with_all_its_journals(tmp_path: Path) -> None:
    make(tmp_path, "run/", "run/journal-0-of-2.jsonl", "run/journal-1-of-2.jsonl")
    [source] = open_sources([tmp_path / "run"])
    assert (source.id, source.title, source.kind) == ("run", "run", "run")
    assert [(part.path.name, part.format) for part in source.parts] == [
        ("journal.jsonl", JOURNAL),
        ("journal-0-of-2.jsonl", JOURNAL),
        ("journal-1-of-2.jsonl", JOURNAL),
    ]
    assert source.inputs == tmp_path / "run/inputs.jsonl"
    assert source.manifest == tmp_path / "run/manifest.json"


def test_a_run_that_has_recorded_nothing_yet_can_be_waited_for(tmp_path: Path) -> None:
    make(tmp_path, "run/manifest.json")
    [source] = open_sources([tmp_path / "run"])
    assert [part.path.name for part in source.parts] == ["journal.jsonl"]


def test_one_journal_of_a_run_can_be_opened_alone(tmp_path: Path) -> None:
    make(tmp_path, "run/", "run/journal-0-of-2.jsonl")
    [source] = open_sources([tmp_path / "run/journal-0-of-2.jsonl"])
    assert source.parts == (SourcePart(tmp_path / "run/journal-0-of-2.jsonl", JOURNAL),)
    assert source.manifest == tmp_path / "run/manifest.json"


def test_rollouts_that_are_not_written_yet_are_seen_in_their_run(tmp_path: Path) -> None:
    make(tmp_path, "x.run/")
    [source] = open_sources([tmp_path / "x.jsonl"])
    assert (source.kind, source.path) == ("run", tmp_path / "x.run")


def test_a_folder_holds_its_sources_and_those_one_level_below(tmp_path: Path) -> None:
    make(
        tmp_path,
        "x.jsonl",
        "x_failures.jsonl",
        "x_materialized_inputs.jsonl",
        "x.run/",
        "lonely_failures.jsonl",
        "run/",
        "sub/y.jsonl",
        "sub/run/",
        "sub/deeper/z.jsonl",
        ".hidden/h.jsonl",
        ".x.jsonl.rollgym-index",
        "notes.txt",
    )
    found = {source.id: source.kind for source in open_sources([tmp_path])}
    assert found == {
        "lonely_failures": "failures",
        "run": "run",
        "y": "rollouts",
        "sub-run": "run",
        "x": "rollouts",
    }


def test_of_a_folder_with_very_many_sources_the_first_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openers, "MOST_SOURCES", 3)
    make(tmp_path, *(f"{number}.jsonl" for number in range(5)))
    assert [source.id for source in open_sources([tmp_path])] == ["0", "1", "2"]


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    make(tmp_path, "away/secret.jsonl", "away/run/", "in/x.jsonl", "in/sub/y.jsonl")
    folder = tmp_path / "in"
    (folder / "x_failures.jsonl").symlink_to("../away/secret.jsonl")
    (folder / "out.jsonl").symlink_to("../away/secret.jsonl")
    (folder / "run").symlink_to("../away/run")
    (folder / "all").symlink_to("../away")
    (folder / "sub/out.jsonl").symlink_to(tmp_path / "away/secret.jsonl")
    (folder / "loop").symlink_to("loop")
    (folder / "again.jsonl").symlink_to("x.jsonl")
    found = open_sources([folder])
    assert [[part.path.name for part in source.parts] for source in found] == [
        ["again.jsonl", "again_failures.jsonl"],
        ["y.jsonl", "y_failures.jsonl"],
        ["x.jsonl"],
    ]


def test_a_link_that_the_user_names_is_followed(tmp_path: Path) -> None:
    make(tmp_path, "away/x.jsonl")
    (tmp_path / "link.jsonl").symlink_to("away/x.jsonl")
    [source] = open_sources([tmp_path / "link.jsonl"])
    assert source.parts[0].path == tmp_path / "link.jsonl"


def test_ids_differ_and_can_stand_in_a_url(tmp_path: Path) -> None:
    make(tmp_path, "a/x.jsonl", "b/x.jsonl", "b/x/", "c/b/x.jsonl", "d/a b/ü?.jsonl", "d/.jsonl")
    paths = ["a/x.jsonl", "b/x.jsonl", "b/x", "c/b/x.jsonl", "d/a b/ü?.jsonl", "d/.jsonl"]
    found = open_sources([tmp_path / path for path in paths[:5]])
    assert [source.id for source in found] == ["x", "b-x", "b-x-2", "b-x-3", "source"]


def test_what_is_named_twice_is_opened_once(tmp_path: Path) -> None:
    make(tmp_path, "x.jsonl")
    paths = [tmp_path / "x.jsonl", tmp_path, tmp_path / "." / "x.jsonl"]
    assert len(open_sources(paths)) == 1


def test_a_path_at_which_there_is_nothing_is_rejected(tmp_path: Path) -> None:
    for number, (name, said) in enumerate(
        [
            ("y.jsonl", r"y.jsonl does not exist \(did you mean 'x.jsonl'\?\)"),
            ("folde", r"did you mean 'folder'"),
            ("none/x.jsonl", "check the path, or collect rollouts first"),
            ("notes.txt", "the viewer cannot show"),
            ("pipe.jsonl", "the viewer cannot show"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        make(folder, "x.jsonl", "notes.txt", "folder/notes.txt")
        (folder / "pipe.jsonl").symlink_to("/dev/null")
        with pytest.raises(ViewerError, match=said):
            open_sources([folder / name])


def test_a_folder_may_have_nothing_to_show_yet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path, "x.jsonl", "folder/notes.txt")
    assert [source.id for source in open_sources([tmp_path / "folder", tmp_path])] == ["x"]
    [said] = caplog.messages
    assert said.startswith(f"{tmp_path / 'folder'} has no rollouts yet")


def test_what_begins_in_an_empty_folder_or_becomes_of_it_is_found_later(tmp_path: Path) -> None:
    paths = [tmp_path / "results", tmp_path / "demo"]
    for path in paths:
        path.mkdir()
    assert look_again(paths, ()) == ()
    make(tmp_path, "results/x.jsonl", "demo/")
    found = look_again(paths, ())
    assert [(source.id, source.kind) for source in found] == [("x", "rollouts"), ("demo", "run")]


def test_the_inputs_of_a_run_that_is_just_beginning_are_no_source(tmp_path: Path) -> None:
    make(tmp_path, "demo/.opening.lock", "demo/inputs.jsonl", "mine/inputs.jsonl")
    found = open_sources([tmp_path])
    assert [source.path for source in found] == [tmp_path / "mine" / "inputs.jsonl"]
    make(tmp_path, "demo/manifest.json")
    assert [source.id for source in look_again([tmp_path], found)] == ["inputs", "demo"]


def opened_by_plugin(path: Path) -> list[ViewerSource]:
    if path.name == "broken.pt":
        raise RefusedError(f"{path} is broken")
    if path.suffix != ".pt":
        return []
    return [
        ViewerSource(
            id="taken", title="t", kind="torch", path=path, parts=(SourcePart(path, ROLLOUTS),)
        )
    ]


no_function = None


def test_a_plug_in_is_asked_first_and_in_folders_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_in(monkeypatch, mine=f"{__name__}:opened_by_plugin")
    make(tmp_path, "a.pt", "sub/b.pt", "x.jsonl", "broken.pt")
    assert [(source.id, source.kind) for source in open_sources([tmp_path])] == [
        ("taken", "torch"),
        ("sub-taken", "torch"),
        ("x", "rollouts"),
    ]
    assert [source.kind for source in open_sources([tmp_path / "a.pt"])] == ["torch"]
    with pytest.raises(RefusedError, match="is broken"):
        open_sources([tmp_path / "broken.pt"])


def test_a_plug_in_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (value, said) in enumerate(
        [
            ("no_such_package:open", r"plug-in mine \(no_such_package:open\) cannot be loaded"),
            (f"{__name__}:no_such_name", "cannot be loaded"),
            (f"{__name__}:no_function", "is not a function"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        plug_in(monkeypatch, mine=value)
        make(folder, "x.jsonl")
        with pytest.raises(ViewerError, match=said):
            open_sources([folder / "x.jsonl"])


def test_a_packed_file_is_to_be_unpacked_first(tmp_path: Path) -> None:
    make(tmp_path, "x.jsonl.gz", "y.jsonl")
    with pytest.raises(ViewerError, match=r"x\.jsonl\.gz is compressed: decompress it first"):
        open_sources([tmp_path / "x.jsonl.gz"])
    assert [source.id for source in open_sources([tmp_path])] == ["y"]


def test_a_folder_is_listed_once_however_many_files_are_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_in(monkeypatch, web="webgym.viewing:open_web")
    make(tmp_path, *(f"{number}.txt" for number in range(50)), "a.jsonl", "b.jsonl")
    globbed: list[str] = []
    glob = Path.glob

    def counting(path: Path, pattern: str) -> Iterator[Path]:
        globbed.append(pattern)
        return iter(glob(path, pattern))

    monkeypatch.setattr(Path, "glob", counting)
    assert len(open_sources([tmp_path])) == 2
    assert len(globbed) <= 5
