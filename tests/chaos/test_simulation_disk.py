"""The simulated disk crashes where it should, and keeps what was synced."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.simulation.disk import Death, DiskFault, FaultKind, SimulatedCrash, SimulatedDisk
from tests.simulation.loop import SimulatedLoop
from tests.simulation.storage import Storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path)


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    number = os.open(tmp_path / "journal.jsonl", os.O_CREAT | os.O_RDWR | os.O_APPEND)
    yield number
    os.close(number)


def content(storage: Storage) -> bytes:
    return (storage.directory / "journal.jsonl").read_bytes()


def test_a_death_in_a_write_leaves_a_part_of_it(storage: Storage, descriptor: int) -> None:
    disk = SimulatedDisk(storage, death=Death(operation=2, torn=0.5))
    disk.write(descriptor, b"whole\n")
    with pytest.raises(SimulatedCrash):
        disk.write(descriptor, b"torn away")
    assert content(storage) == b"whole\ntorn"


def test_the_dead_do_nothing_more(storage: Storage, descriptor: int) -> None:
    disk = SimulatedDisk(storage, death=Death(operation=1))
    for _ in range(2):
        with pytest.raises(SimulatedCrash):
            disk.sync(descriptor)
    with pytest.raises(SimulatedCrash):
        disk.write(descriptor, b"x")
    assert content(storage) == b""


def test_a_dead_machine_keeps_what_was_synced(storage: Storage, descriptor: int) -> None:
    disk = SimulatedDisk(storage)
    synced = b""
    for seed in range(20):
        disk.write(descriptor, b"synced\n")
        SimulatedLoop().run(disk.sync_in_background(descriptor))
        synced = content(storage)
        disk.write(descriptor, b"unsynced\n")
        storage.lose_power(Random(seed))
        left = content(storage)
        assert left.startswith(synced)
        assert (synced + b"unsynced\n").startswith(left)


def test_a_dead_machine_may_forget_a_name_until_its_directory_is_synced(
    storage: Storage, tmp_path: Path
) -> None:
    seen = set()
    for luck in range(20):
        (tmp_path / "manifest.json").unlink(missing_ok=True)
        (tmp_path / "new").write_bytes(b"{}")
        disk = SimulatedDisk(storage)
        disk.replace(tmp_path / "new", tmp_path / "manifest.json")
        storage.lose_power(Random(luck))
        seen.add((tmp_path / "manifest.json").exists())
    assert seen == {True, False}


def test_a_synced_name_survives(storage: Storage, tmp_path: Path) -> None:
    disk = SimulatedDisk(storage)
    for luck in range(20):
        (tmp_path / "new").write_bytes(b"{}")
        disk.replace(tmp_path / "new", tmp_path / "manifest.json")
        directory = os.open(tmp_path, os.O_RDONLY)
        disk.sync(directory)
        os.close(directory)
        storage.lose_power(Random(luck))
        assert (tmp_path / "manifest.json").exists()


def test_a_short_write_is_followed_by_whole_ones(storage: Storage, descriptor: int) -> None:
    disk = SimulatedDisk(storage, fault=DiskFault(1, FaultKind.SHORT_WRITE, 0.5))
    assert disk.write(descriptor, b"1234") == 2
    assert disk.write(descriptor, b"34") == 2


def test_a_failing_write_says_why(storage: Storage, descriptor: int) -> None:
    for kind, number in (
        (FaultKind.NO_SPACE, errno.ENOSPC),
        (FaultKind.BROKEN, errno.EIO),
        (FaultKind.ERROR, errno.EIO),
    ):
        disk = SimulatedDisk(storage, fault=DiskFault(1, kind, 0.0))
        with pytest.raises(OSError, match=os.strerror(number)):
            disk.write(descriptor, b"1234")
        assert disk.struck is kind
