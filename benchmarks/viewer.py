"""What the viewer needs for a file of 200,000 rollouts and 10 GB: time and memory.

The file is made first (see `viewer_rollouts`); it is smaller where the disk has no room for it, and
the first figures say what it was. The viewer runs as a process of its own, as people start it, and
its pages are opened in real Chromium. Times of pages go from the beginning of the navigation until
the thing that is waited for is in the document. What was just written is still in the memory of the
machine where that is large enough: disks are not measured.

*Index*: everything of the file is read and summed up once. That is compared with reading the lines
of the same file, and with decoding its JSON, in the same run. *First paint*: the index is there,
the process has just been started; the median of several starts is reported, and the first, before
which no page was ever asked for. What filters find is compared with what was counted when the file
was made.

    python -m benchmarks.viewer                     # all figures; exits 1 when a goal is missed
    python -m benchmarks.viewer --rollouts 2000 --bytes 100000000 --keep /tmp/rollouts
    python -m benchmarks.viewer --quick             # on few rollouts; its figures mean nothing
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from benchmarks.figure import Figures
from benchmarks.viewer_page import Chromium, Opened, chromium, scroll, shown
from benchmarks.viewer_process import Viewer
from benchmarks.viewer_queries import FILTERS, OTHERS, PAGES, SORTS
from benchmarks.viewer_rollouts import NEEDLE, Collection, Plan, write

ROLLOUTS = 200_000
BYTES = 10_000_000_000
ROOMY_DISK = 30_000_000_000
QUICK = Plan(600, 24_000_000, giant_bytes=2_000_000, long_turns=400)
FIRST_PAINT = 1.0
MEMORY = 300.0
USABLE = 3.0
ANSWER = 1.0
OPENING = 2.0
FREEZE = 0.3
"""Goals: seconds, and MB."""
ROUNDS = 3
JUMPS = 20
MEANWHILE = 5
SAMPLE = 500_000_000
"""Bytes of the file whose JSON is decoded for comparison."""
LIST_ROW = ".table .row .row-link"
OVERVIEW_NUMBER = ".overview .tile-value"
TURN = ".turn[data-turn]"
LAST_TURN = '.turn[data-turn="{}"]'


class Benchmark:
    """Measures the viewer with one file."""

    def __init__(self, collection: Collection, folder: Path, browser: Chromium) -> None:
        self.figures = Figures()
        self._collection = collection
        self._folder = folder
        self._browser = browser
        self._memory = 0.0

    def run(self) -> None:
        self._first_index()
        self._first_paints()
        with self._viewer() as viewer:
            self._answers(viewer)
            self._search(viewer)
            self._pages(viewer)
            self._rollouts(viewer)
            self._export(viewer)
        self._tell("peak_memory", self._memory, "MB", MEMORY)

    def _tell(self, name: str, value: float, unit: str, goal: float | None = None) -> None:
        self.figures.report(f"viewer.{name}", value, unit, goal)

    @contextmanager
    def _viewer(self) -> Iterator[Viewer]:
        viewer = Viewer(self._collection.path, self._folder)
        with viewer:
            yield viewer
        self._memory = max(self._memory, viewer.memory)

    # The first index.

    def _first_index(self) -> None:
        size, path = self._collection.size, self._collection.path
        for old in path.parent.glob(".*.rollgym-index*"):
            old.unlink()
        plain = _seconds(lambda: _read_lines(path))
        decoding = _decoding(path)
        with self._viewer() as viewer:
            viewer.until(lambda: viewer.ask("/rollouts", "limit=50").value["total"] >= 50)
            usable_after = time.perf_counter() - viewer.began
            was_ready = viewer.state()["ready"]
            page = self._browser.open(f"{viewer.address}{viewer.source}/rollouts", LIST_ROW)
            viewer.until(lambda: viewer.state()["ready"], 0.25)
            seconds = time.perf_counter() - viewer.began - viewer.started
            viewer.look()
            cpu = viewer.cpu
            self._check_total(viewer, "")
        index = sum(part.stat().st_size for part in path.parent.glob(".*.rollgym-index*"))
        tell = self._tell
        tell("index.usable_after", usable_after, "s", USABLE)
        tell("index.usable_before_it_was_ready", float(not was_ready), "yes")
        tell("index.list_meanwhile", page, "s", OPENING)
        tell("index.seconds", seconds, "s")
        tell("index.speed", size / seconds / 1e6, "MB/s")
        tell("index.cpu", cpu, "s")
        tell("index.size", index / 1e6, "MB")
        tell("index.over_reading_lines", seconds / plain, "ratio")
        tell("index.cpu_over_decoding_json", cpu / (decoding * size), "ratio")

    # The index is there.

    def _first_paints(self) -> None:
        for name, path, selector in (
            ("list", "/rollouts", LIST_ROW),
            ("overview", "/", OVERVIEW_NUMBER),
        ):
            starts, pages = [], []
            for _ in range(ROUNDS):
                with self._viewer() as viewer:
                    starts.append(viewer.started)
                    url = f"{viewer.address}{viewer.source}{path}"
                    pages.append(self._browser.open(url, selector))
            self._tell(f"first_paint.{name}.first", pages[0], "s", FIRST_PAINT)
            self._tell(f"first_paint.{name}", median(pages), "s", FIRST_PAINT)
            self._tell(f"first_paint.{name}.process_started", median(starts), "s")
        with self._viewer() as viewer:
            self._tell("first_answer.list", viewer.ask("/rollouts", "limit=50").seconds, "s")
            self._tell("first_answer.overview", viewer.ask("/overview").seconds, "s")

    def _answers(self, viewer: Viewer) -> None:
        for name, query in FILTERS.items():
            self._check_total(viewer, query)
            self._answer(viewer, f"filter.{name}", "/rollouts", f"{query}&limit=50")
        for name, query in SORTS.items():
            middle = self._collection.plan.rollouts // 2
            words = f"{query.format(middle=middle)}&limit=50"
            self._answer(viewer, f"sort.{name}", "/rollouts", words)
        for name, (path, query) in OTHERS.items():
            self._answer(viewer, f"answer.{name}", path, query)
        entry = self._entry(viewer, self._collection.plan.tasks // 2)
        neighbours = f"/rollouts/{entry}/neighbours"
        self._answer(viewer, "answer.neighbours", neighbours, "success=false&sort=seconds")

    def _answer(self, viewer: Viewer, name: str, path: str, query: str) -> None:
        """The first is reported too: later responses may have been kept."""
        first, *more = (viewer.ask(path, query.lstrip("&")).seconds for _ in range(ROUNDS))
        self._tell(f"{name}.first", first, "s", ANSWER)
        self._tell(f"{name}.again", median(more), "s", ANSWER)

    def _search(self, viewer: Viewer) -> None:
        """Over the whole file: the words are in a few answers."""
        query = urlencode({"q": NEEDLE, "limit": 50}, quote_via=quote)
        began = time.perf_counter()
        first = viewer.ask("/rollouts", query)
        self._tell("search.first_answer", first.seconds, "s", ANSWER)
        viewer.until(lambda: viewer.ask("/rollouts", query).value["total"])
        self._tell("search.first_match", time.perf_counter() - began, "s")
        others = [viewer.ask("/rollouts", "limit=50").seconds for _ in range(MEANWHILE)]
        self._tell("search.list_meanwhile", median(others), "s", ANSWER)
        viewer.until(lambda: viewer.ask("/rollouts", query).value["search"]["done"])
        seconds = time.perf_counter() - began
        self._tell("search.seconds", seconds, "s")
        self._tell("search.speed", self._collection.size / seconds / 1e6, "MB/s")
        self._check(viewer.ask("/rollouts", query).value["total"], f"q={NEEDLE}")

    def _pages(self, viewer: Viewer) -> None:
        address = f"{viewer.address}{viewer.source}"
        for name, query in PAGES.items():
            shown_after = self._browser.open(f"{address}/rollouts?{query}", LIST_ROW)
            self._tell(f"page.{name}", shown_after, "s", ANSWER)
        with self._browser.page(LIST_ROW) as page:
            shown(page, f"{address}/rollouts")
            scrolled = scroll(page, ".table", ".row-link", JUMPS)
        self._tell("page.scroll.median_jump", median(scrolled.jumps), "s", ANSWER)
        self._tell("page.scroll.longest_jump", max(scrolled.jumps), "s")
        self._tell("page.scroll.longest_task", scrolled.longest_task, "s", FREEZE)
        self._tell("page.scroll.elements", scrolled.elements, "elements")

    # Single rollouts.

    def _rollouts(self, viewer: Viewer) -> None:
        plan = self._collection.plan
        for name, task in (
            ("from_the_middle", plan.tasks // 2),
            ("large", plan.giant_task),
            ("long", plan.long_task),
        ):
            entry = self._entry(viewer, task)
            answer = viewer.ask(f"/rollouts/{entry}")
            self._tell(f"rollout.{name}.size", answer.value["view"]["bytes"] / 1e6, "MB")
            self._tell(f"rollout.{name}.answer", answer.seconds, "s", OPENING)
            last = answer.value["view"]["turns"] - 1
            turns = viewer.ask(f"/rollouts/{entry}/turns", f"from={max(0, last - 20)}&count=20")
            self._tell(f"rollout.{name}.last_turns", turns.seconds, "s", OPENING)
            url = f"{viewer.address}{viewer.source}/rollouts/{entry}"
            first = self._browser.open_and_settle(url, TURN)
            self._page(f"rollout.{name}.page", first)
            linked = self._browser.open_and_settle(f"{url}?turn={last}", LAST_TURN.format(last))
            self._page(f"rollout.{name}.page_at_the_last_turn", linked)

    def _page(self, name: str, page: Opened) -> None:
        self._tell(name, page.seconds, "s", OPENING)
        self._tell(f"{name}.longest_task", page.longest_task, "s", FREEZE)

    def _export(self, viewer: Viewer) -> None:
        size, seconds = viewer.read("/export.jsonl", FILTERS["domain_difficulty_success"])
        self._tell("export.size", size / 1e6, "MB")
        self._tell("export.speed", size / seconds / 1e6, "MB/s")

    # Whether it is right.

    def _entry(self, viewer: Viewer, task: int) -> str:
        entries = viewer.ask("/rollouts", {"task": task}).value["entries"]
        return str(entries[0]["id"])

    def _check_total(self, viewer: Viewer, query: str) -> None:
        found = viewer.ask("/rollouts", f"{query}&limit=1".lstrip("&")).value["total"]
        self._check(found, query)

    def _check(self, found: int, query: str) -> None:
        expected = self._collection.totals[query]
        if found != expected:
            raise RuntimeError(f"{query or 'no filter'} found {found} rollouts, not {expected}")


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _read_lines(path: Path) -> int:
    """As `wc -l` does it."""
    lines = 0
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(1 << 20):
            lines += chunk.count(b"\n")
    return lines


def _decoding(path: Path) -> float:
    """CPU seconds that decoding a byte of JSON takes, over the first part of the file."""
    done, spent = 0, 0.0
    with path.open("rb") as file:
        for line in file:
            began = time.process_time()
            msgspec.json.decode(line)
            spent += time.process_time() - began
            done += len(line)
            if done > SAMPLE:
                break
    return spent / done


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="rollgym-bench-") as folder:
            yield Path(folder)


def _plan(arguments: argparse.Namespace) -> Plan:
    if arguments.quick:
        return QUICK
    free = shutil.disk_usage(arguments.keep or tempfile.gettempdir()).free
    size = arguments.bytes or (BYTES if free >= ROOMY_DISK else free // 4)
    return Plan(arguments.rollouts, size)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the viewer with a large file.")
    parser.add_argument("--rollouts", type=int, default=ROLLOUTS)
    parser.add_argument("--bytes", type=int, help="(default: 10 GB, or a quarter of the free disk)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the file there, once")
    parser.add_argument("--quick", action="store_true", help="on few rollouts")
    arguments = parser.parse_args()
    with _folder(arguments.keep) as folder, chromium() as browser:
        began = time.perf_counter()
        collection = write(folder, _plan(arguments))
        benchmark = Benchmark(collection, folder, browser)
        report = benchmark.figures.report
        report("viewer.file.rollouts", collection.plan.rollouts, "rollouts")
        report("viewer.file.size", collection.size / 1e9, "GB")
        report("viewer.file.made_in", time.perf_counter() - began, "s")
        benchmark.run()
    if not arguments.quick:
        benchmark.figures.exit()


if __name__ == "__main__":
    main()
