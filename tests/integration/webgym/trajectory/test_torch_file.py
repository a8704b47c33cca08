"""Files in torch's format: written piece by piece, replaced whole, read with suspicion."""

import errno
import os
import pickle
import tracemalloc
import zipfile
import zlib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rollgym.store import Disk, DiskFullError, StorageVanishedError
from tests.trajectories import full_trajectory
from webgym.trajectory import torch_file
from webgym.trajectory.plain import to_plain
from webgym.trajectory.torch_archive import PlainError, WrittenRecord, directory, encode, header
from webgym.trajectory.torch_file import TorchDraft, TorchFile, TorchFileError, read_torch_file

METADATA = {"split": "train", "iteration": 5, "rates": [0.5, None]}


def some(count: int) -> list[dict[str, Any]]:
    return [to_plain(full_trajectory(trajectory_index=index)) for index in range(count)]


def write(path: Path, trajectories: Iterable[object], more: Iterable[object] = ()) -> None:
    with TorchDraft(path) as draft:
        for one in trajectories:
            draft.append(encode(one))
        draft.save(METADATA, map(encode, more))


def unzipped(path: Path) -> Any:
    """What anybody's zip and pickle make of it."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.read("archive/version") == b"3\n"
        assert archive.read("archive/byteorder") == b"little"
        return pickle.loads(archive.read("archive/data.pkl"))


def test_a_file_is_a_zip_archive_of_one_plain_pickle(tmp_path: Path) -> None:
    path, trajectories = tmp_path / "folder" / "a.pt.iteration0", some(3)
    write(path, trajectories)
    assert unzipped(path) == {"trajectories": trajectories, "metadata": METADATA}


@pytest.mark.parametrize(("count", "more"), [(0, 0), (1, 0), (0, 2), (5, 3)])
def test_a_file_is_read_as_it_was_written(count: int, more: int, tmp_path: Path) -> None:
    path, trajectories = tmp_path / "a.pt", some(count + more)
    write(path, trajectories[:count], trajectories[count:])
    assert list(read_torch_file(path)) == trajectories
    assert unzipped(path)["trajectories"] == trajectories
    with TorchFile(path) as file:
        assert (len(file), file.metadata) == (count + more, METADATA)


def test_each_save_holds_what_was_there_and_leaves_nothing_else(tmp_path: Path) -> None:
    path, trajectories = tmp_path / "a.pt", some(6)
    with TorchDraft(path) as draft:
        for number, one in enumerate(trajectories, start=1):
            draft.append(encode(one))
            draft.save({"number": number})
            assert list(read_torch_file(path)) == trajectories[:number]
            assert unzipped(path)["metadata"] == {"number": number}
            assert [other.name for other in tmp_path.iterdir()] == ["a.pt"]


def test_equal_contents_make_equal_files(tmp_path: Path) -> None:
    write(tmp_path / "a", some(3))
    write(tmp_path / "b", some(1), some(3)[1:])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_fragments_go_from_file_to_file_without_being_decoded(tmp_path: Path) -> None:
    trajectories = some(4)
    write(tmp_path / "rank_0", trajectories[:1])
    write(tmp_path / "rank_1", trajectories[1:])
    with TorchDraft(tmp_path / "whole") as draft:
        for rank in ("rank_0", "rank_1"):
            with TorchFile(tmp_path / rank) as file:
                for fragment in file.fragments():
                    draft.append(fragment)
        draft.save(METADATA)
    assert unzipped(tmp_path / "whole")["trajectories"] == trajectories


def test_a_cleared_draft_begins_anew(tmp_path: Path) -> None:
    with TorchDraft(tmp_path / "a") as draft:
        draft.append(encode({"long": "x" * 1000}))
        draft.clear()
        draft.append(encode({"n": 1}))
        draft.save({})
        assert len(draft) == 1
    assert unzipped(tmp_path / "a") == {"trajectories": [{"n": 1}], "metadata": {}}


def test_where_the_kernel_cannot_copy_the_file_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EXDEV, "not between these")

    trajectories = some(5)
    write(tmp_path / "a", trajectories)
    monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    monkeypatch.setattr(torch_file, "_BLOCK", 1000)
    write(tmp_path / "b", trajectories)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


class SmallDisk(Disk):
    """Has room for so many bytes, and takes a part of what does not fit."""

    room = 1 << 60

    def write(self, descriptor: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = super().write(descriptor, data[: self.room])
        self.room -= written
        return written


def test_a_full_disk_leaves_the_file_that_was_there_and_the_draft_goes_on(tmp_path: Path) -> None:
    path, trajectories, disk = tmp_path / "a.pt", some(3), SmallDisk()
    with TorchDraft(path, disk) as draft:
        draft.append(encode(trajectories[0]))
        draft.save(METADATA)
        disk.room = 100
        with pytest.raises(DiskFullError, match="a.pt"):
            draft.append(encode(trajectories[1]))
        with pytest.raises(DiskFullError, match="free some space"):
            draft.save(METADATA)
        assert list(read_torch_file(path)) == trajectories[:1]
        assert [other.name for other in tmp_path.iterdir()] == ["a.pt"]
        disk.room = 1 << 60
        draft.append(encode(trajectories[2]))
        draft.save(METADATA)
    assert unzipped(path)["trajectories"] == [trajectories[0], trajectories[2]]


def test_metadata_that_is_not_plain_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with TorchDraft(tmp_path / "a") as draft, pytest.raises(PlainError):
        draft.save({"path": tmp_path})
    assert list(tmp_path.iterdir()) == []


def test_reading_holds_one_trajectory_in_memory(tmp_path: Path) -> None:
    size, count = 1 << 20, 24
    write(tmp_path / "a", ({"text": "x" * size, "number": n} for n in range(count)))
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_torch_file(tmp_path / "a")) == count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * size


def test_a_reader_keeps_the_file_it_opened(tmp_path: Path) -> None:
    path, trajectories = tmp_path / "a", some(4)
    write(path, trajectories[:2])
    with TorchFile(path) as file:
        write(path, trajectories)
        assert list(file.trajectories()) == trajectories[:2]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageVanishedError, match="missing.pt"):
        list(read_torch_file(tmp_path / "missing.pt"))


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06", b"not a zip at all" * 100, b"\0" * 5000])
def test_what_is_no_file_of_this_make_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "other.pt").write_bytes(content)
    with pytest.raises(TorchFileError, match=r"other\.pt cannot be read.*torch\.load"):
        list(read_torch_file(tmp_path / "other.pt"))


def test_a_zip_of_another_program_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"trajectories": []}))
    with pytest.raises(TorchFileError, match="was not written by this program"):
        TorchFile(tmp_path / "other.pt")


def test_a_file_that_was_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, [{"number": 1}])
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(TorchFileError):
            list(read_torch_file(path))


def test_a_file_with_any_byte_changed_is_read_or_refused(tmp_path: Path) -> None:
    path, original = tmp_path / "a", [{"number": 1, "text": "é"}, {"number": 2}]
    write(path, original)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("archive/data.pkl")
    pickled = range(info.header_offset + 66, info.header_offset + 66 + info.file_size)
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x55
        path.write_bytes(changed)
        try:
            read = list(read_torch_file(path))
        except TorchFileError:
            continue
        assert place not in pickled, "the checksum did not tell"
        assert read == original


def test_a_hostile_file_runs_nothing(tmp_path: Path) -> None:
    proof = tmp_path / "it ran"

    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch '{proof}'",)

    hostile = pickle.dumps({"task_id": Hostile()}, 2)[2:-1]
    good = encode({"task_id": "fine"})
    with TorchDraft(tmp_path / "a") as draft:
        draft.append(good)
        draft.append(hostile)
        draft.save({})
    with pytest.raises(TorchFileError, match="not allowed in plain containers"):
        list(read_torch_file(tmp_path / "a"))
    with TorchFile(tmp_path / "a") as file, pytest.raises(TorchFileError):
        list(file.fragments())
    assert not proof.exists()


def test_a_trajectory_that_is_no_dict_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", [["a list"]])
    with pytest.raises(TorchFileError, match="trajectory 0 is a list"):
        list(read_torch_file(tmp_path / "a"))


def archive(records: dict[str, bytes]) -> bytes:
    """An archive of our make with any records."""
    parts, listed, offset = [], [], 0
    for name, content in records.items():
        listed.append(WrittenRecord(name, offset, len(content), zlib.crc32(content)))
        parts += [header(listed[-1]), content]
        offset += len(parts[-2]) + len(content)
    return b"".join([*parts, directory(listed, offset)])


HEAD = b"\x80\x02}(" + encode("trajectories") + b"]"
END = encode("metadata") + b"}u."


@pytest.mark.parametrize(
    ("pickled", "lengths", "reason"),
    [
        (HEAD + END, [1 << 40], "impossible length"),
        (HEAD + END, [1 << 29], "unknown form"),
        (HEAD + b"}a" + END, [3], "unknown form"),
        (HEAD + b"}}" + END, [2], "not at the indexed offset"),
        (HEAD + b"}a" + END, [2, 0], "not at the indexed offset"),
        (HEAD + encode("metadata") + b"]u.", [], "the metadata is a list"),
        (b"\x80\x02]." + END, [], "unknown form"),
    ],
)
def test_an_index_that_lies_is_found_out(
    pickled: bytes, lengths: list[int], reason: str, tmp_path: Path
) -> None:
    index = b"".join(length.to_bytes(8, "little") for length in lengths)
    records = {"archive/data.pkl": pickled, "archive/fragments": index}
    (tmp_path / "a").write_bytes(archive(records))
    with pytest.raises(TorchFileError, match=reason):
        list(read_torch_file(tmp_path / "a"))


def test_a_missing_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(archive({"archive/data.pkl": HEAD + END}))
    with pytest.raises(TorchFileError, match="archive/fragments"):
        TorchFile(tmp_path / "a")


def test_nothing_is_pickled_or_summed_again_by_a_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work of Python in a checkpoint does not grow with what is there."""
    summed: list[int] = []
    real = zlib.crc32

    def counting(data: bytes, start: int = 0) -> int:
        summed[-1] += len(data)
        return real(data, start)

    monkeypatch.setattr(zlib, "crc32", counting)
    summed.append(0)
    with TorchDraft(tmp_path / "a") as draft:
        for number in range(5):
            summed.append(0)
            for _ in range(20):
                draft.append(encode({"number": number, "text": "x" * 10_000}))
            draft.save({})
    # Beside what is new, only the index of 8 bytes for each trajectory.
    assert all(after - before <= 200 for before, after in pairwise(summed[1:]))
