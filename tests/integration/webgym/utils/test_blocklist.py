"""The blocklist as a file: learnt, shared, expiring, and never lost to a crash."""

import fcntl
import logging
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rollgym.store import StorageError
from webgym.utils import blocklist as module
from webgym.utils.blocklist import Blocklist, BlocklistError, BlocklistSettings

HOUR = 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "save" / "blocklist.jsonl"


def test_a_domain_is_blocked_when_enough_rollouts_were(path: Path, clock: Clock) -> None:
    blocklist = Blocklist(str(path), BlocklistSettings(observations=4, threshold=0.5), clock=clock)
    made = [blocklist.observe("www.Shop.example", blocked) for blocked in (True, False, True)]
    assert (made, blocklist.blocked_domains()) == ([False] * 3, frozenset())
    assert blocklist.observe("shop.example", blocked=False)
    assert blocklist.blocked_domains() == {"shop.example"}
    assert "2 of 4 rollouts were blocked" in path.read_text()


def test_a_domain_that_seldom_blocks_is_not_blocked(path: Path, clock: Clock) -> None:
    blocklist = Blocklist(path, BlocklistSettings(observations=3, threshold=0.5), clock=clock)
    for number in range(30):
        assert not blocklist.observe("shop.example", blocked=number % 3 == 2)
    assert blocklist.blocked_domains() == frozenset()


def test_an_entry_expires_and_counting_begins_anew(path: Path, clock: Clock) -> None:
    blocklist = Blocklist(path, BlocklistSettings(observations=2, expiry_hours=12), clock=clock)
    blocklist.observe("shop.example", blocked=True)
    assert blocklist.observe("shop.example", blocked=True)
    clock.now += 12 * HOUR - 1
    assert blocklist.blocked_domains() == {"shop.example"}
    clock.now += 2
    assert blocklist.blocked_domains() == frozenset()
    assert not blocklist.observe("shop.example", blocked=True)
    assert blocklist.observe("shop.example", blocked=True)


def test_what_was_seen_while_blocked_makes_no_second_entry(path: Path, clock: Clock) -> None:
    blocklist = Blocklist(path, BlocklistSettings(observations=1), clock=clock)
    made = [blocklist.observe("shop.example", blocked=True) for _ in range(4)]
    assert made == [True, False, False, False]


def test_what_was_learnt_is_there_for_the_next_process(path: Path, clock: Clock) -> None:
    rule = BlocklistSettings(observations=3)
    for _ in range(3):
        made = Blocklist(path, rule, clock=clock).observe("shop.example", blocked=True)
    assert made
    assert Blocklist(path, rule, clock=clock).blocked_domains() == {"shop.example"}


def test_people_write_entries_while_it_is_open(path: Path, clock: Clock) -> None:
    blocklist = Blocklist(path, clock=clock)
    path.write_text('{"domain": "www.a.example", "expires": null, "reason": "asks for a phone"}')
    assert blocklist.blocked_domains() == {"a.example"}
    blocklist.block("b.example", "too slow", hours=1)
    assert Blocklist(path, clock=clock).blocked_domains() == {"a.example", "b.example"}
    clock.now += 2 * HOUR
    assert Blocklist(path, clock=clock).blocked_domains() == {"a.example"}


def test_opening_takes_out_what_no_longer_counts(path: Path, clock: Clock) -> None:
    blocklist = Blocklist(path, BlocklistSettings(observations=2), clock=clock)
    for _ in range(2):
        blocklist.observe("old.example", blocked=True)
    clock.now += 13 * HOUR
    for _ in range(5):
        blocklist.observe("new.example", blocked=False)
    Blocklist(path, clock=clock)
    (line,) = path.read_text().splitlines()
    assert '"new.example","seen":5' in line


def test_the_file_stays_small_however_much_is_observed(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SMALL", 1000)
    blocklist = Blocklist(path, clock=clock)
    for _ in range(200):
        blocklist.observe("shop.example", blocked=False)
    assert path.stat().st_size < 1200
    blocklist.block("a.example", "by hand")
    assert Blocklist(path, clock=clock).blocked_domains() == {"a.example"}
    assert '"seen":200' in path.read_text()


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_an_unfinished_last_line_is_reported_and_cut_off(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    blocklist = Blocklist(path, BlocklistSettings(observations=2), clock=clock)
    blocklist.observe("shop.example", blocked=True)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:cut])
    with caplog.at_level(logging.WARNING):
        assert blocklist.observe("shop.example", blocked=True)
    assert f"{path}:2: ignored an incomplete last line" in caplog.text
    caplog.clear()
    assert Blocklist(path, clock=clock).blocked_domains() == {"shop.example"}
    assert caplog.text == ""


def test_an_unfinished_last_line_does_not_stop_the_opening(path: Path, clock: Clock) -> None:
    path.parent.mkdir()
    path.write_text('{"domain": "a.example"}\n{"domain": "b.exa')
    assert Blocklist(path, clock=clock).blocked_domains() == {"a.example"}
    assert path.read_text() == '{"domain":"a.example"}\n'


def test_a_bad_line_stops_the_opening_and_changes_nothing(path: Path, clock: Clock) -> None:
    path.parent.mkdir()
    path.write_text('{"domain": "a.example"}\n{"domian": "b.example"}\n')
    before = path.read_bytes()
    with pytest.raises(BlocklistError, match=r"blocklist\.jsonl:2: .*domian.*correct it or delete"):
        Blocklist(path, clock=clock)
    assert path.read_bytes() == before


def test_a_bad_line_that_comes_later_is_reported_and_passed_over(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    blocklist = Blocklist(path, clock=clock)
    path.write_text('nonsense\n{"domain": "a.example"}\n')
    assert blocklist.blocked_domains() == {"a.example"}
    assert "blocklist.jsonl:1: invalid line of a blocklist" in caplog.text


def test_waiting_for_a_lock_that_is_never_given_back_ends(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_TIMEOUT", 0.05)
    blocklist = Blocklist(path, clock=clock)
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match="locked by another process"):
            blocklist.observe("shop.example", blocked=True)


def _observe_much(path: Path, clock: Clock, host: str) -> int:
    """As a process of its own would: with the file opened, and so compacted, again and again."""
    rule = BlocklistSettings(observations=90, threshold=1.0)
    return sum(Blocklist(path, rule, clock=clock).observe(host, blocked=True) for _ in range(30))


def test_processes_that_write_at_once_lose_nothing(path: Path, clock: Clock) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        made = pool.starmap(_observe_much, [(path, clock, "shop.example")] * 3)
    assert sum(made) == 1
    assert "90 of 90 rollouts were blocked" in path.read_text()


def test_threads_that_share_one_lose_nothing(path: Path, clock: Clock) -> None:
    blocklist = Blocklist(path, BlocklistSettings(observations=40, threshold=1.0), clock=clock)

    def observe(_: int) -> bool:
        return blocklist.observe("shop.example", blocked=True)

    with ThreadPoolExecutor(4) as threads:
        made: Iterator[bool] = threads.map(observe, range(40))
        assert sum(made) == 1
