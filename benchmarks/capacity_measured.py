"""Measures the constants of the capacity model, and runs that its predictions are compared with.

*Tool rollouts* are collected by `ng_collect_rollouts` from a model in another process that answers
at once (`saturating_model`). CPU per rollout is the slope between a small and a large run, so what
the start costs falls out; the slope between rollouts of two and of ten turns gives that of a turn.

*Web rollouts* are those of `web_contenders`: real Chromium, the bundled sites, and a policy that
plays recorded solutions. What a session costs without steps is the slope between browser tasks of
5 and of 15 steps.

The runs for comparing have other sizes: other numbers of turns, of sessions and of episodes, and
other tasks.
"""

import tempfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from benchmarks import contenders, processes
from benchmarks.browser import contend, pages
from benchmarks.capacity import Constants, Needs, Workload, this_machine, tool_rollout, web_rollout
from benchmarks.child import Child
from benchmarks.contenders import write_rows
from benchmarks.engine import collect_once
from benchmarks.figure import Figures
from benchmarks.process_costs import tree_costs
from benchmarks.web_contenders import Case, Told
from benchmarks.web_rollouts import answered
from benchmarks.web_servers import web_servers
from rollgym.engine import Fixed, Policy, WorkItem
from rollgym.engine import run as run_loop
from rollgym.records import Completed, Outcome
from tests.counterparts.processes import running_module

CPU_GOAL, BYTES_GOAL = 0.25, 0.15
FEW_TURNS, MANY_TURNS = 2, 10
SMALL, LARGE = 300, 2_300
RESULT = 40_000
RECORDS = 4_000
SESSIONS = 8
FEW_STEPS, MANY_STEPS = 5, 15
THINKS = "lognormal:0.3:0.3"
CROWD = 1_000


class ToolRun(NamedTuple):
    """What a collection of tool rollouts cost: CPU seconds, peak memory and journal in bytes."""

    cpu: float
    memory: float
    journal_bytes: float


class WebRun(NamedTuple):
    """What a collection of web rollouts cost, and its steps. `browser_cpu` without the start."""

    told: Told
    episodes: int
    browser_cpu: float


def measure() -> Constants:
    """Measure all constants; it takes minutes."""
    few, few_bytes = _slope(FEW_TURNS)
    many, many_bytes = _slope(MANY_TURNS, part=4)
    turn = (many - few) / (MANY_TURNS - FEW_TURNS)
    turn_bytes = (many_bytes - few_bytes) / (MANY_TURNS - FEW_TURNS)
    calm = tool_run(CROWD, FEW_TURNS, slots=16)
    crowd = tool_run(2 * CROWD, FEW_TURNS, slots=CROWD, seconds=2.0)
    one, two = _processes()
    record, byte = _journal()
    session = _session()
    web = web_run(24, SESSIONS, seed=1)
    steps = web.told.steps
    constants = Constants(
        machine=this_machine(),
        rollout_cpu=few - FEW_TURNS * turn,
        turn_cpu=turn,
        rollout_bytes=few_bytes - FEW_TURNS * turn_bytes,
        turn_bytes=turn_bytes,
        rollout_memory=(crowd.memory - calm.memory) / (CROWD - 16),
        driver_cpu=two.driver,
        processes_cpu=two.cpu / one.cpu,
        record_cpu=record,
        journal_byte_cpu=byte,
        session_cpu=session.cpu,
        step_cpu=(web.browser_cpu - web.episodes * session.cpu) / steps,
        session_memory=session.memory,
        step_driver_cpu=web.told.cpu / steps,
        step_bytes=web.told.journal_bytes / steps,
        step_picture_bytes=web.told.picture_bytes / steps,
    )
    # Further digits would only be noise.
    rounded = {
        name: float(f"{value:.4g}")
        for name, value in msgspec.structs.asdict(constants).items()
        if isinstance(value, float)
    }
    return msgspec.structs.replace(constants, **rounded)


def check(figures: Figures, constants: Constants) -> None:
    """Predict runs of other sizes, measure them, and report how far they are apart."""
    load = Workload()
    for turns in (4, 7):
        cpu, size = _slope(turns, part=2)
        predicted = tool_rollout(constants, turns, load)
        name = f"capacity.tools_{turns}_turns"
        _compare(
            figures,
            f"{name}.cpu_per_rollout",
            predicted.cpu * 1e6,
            cpu * 1e6,
            unit="us",
            goal=CPU_GOAL,
        )
        wanted = predicted.journal_bytes
        _compare(
            figures, f"{name}.journal_per_rollout", wanted, size, unit="bytes", goal=BYTES_GOAL
        )
    web = web_run(32, 4, seed=7)
    predicted = web_rollout(constants, web.told.steps / web.episodes, load)
    _compare_web(figures, web, predicted)


def _compare_web(figures: Figures, web: WebRun, predicted: Needs) -> None:
    told = web.told
    for what, wanted, measured, unit, goal in (
        ("browser_cpu", predicted.browser_cpu, web.browser_cpu, "s", CPU_GOAL),
        ("collecting_cpu", predicted.cpu, told.cpu, "s", CPU_GOAL),
        ("journal", predicted.journal_bytes, told.journal_bytes, "bytes", CPU_GOAL),
        ("pictures", predicted.picture_bytes, told.picture_bytes, "bytes", CPU_GOAL),
    ):
        name = f"capacity.web.{what}_per_rollout"
        _compare(figures, name, wanted, measured / web.episodes, unit=unit, goal=goal)


def _compare(
    figures: Figures,
    name: str,
    predicted: float,
    measured: float,
    *,
    unit: str,
    goal: float | None,
) -> None:
    figures.report(f"{name}.predicted", predicted, unit)
    figures.report(f"{name}.measured", measured, unit)
    figures.report(f"{name}.difference", abs(predicted / measured - 1), "ratio", goal)


def tool_run(rollouts: int, turns: int, *, slots: int = 64, seconds: float = 0.0) -> ToolRun:
    """Collect tool rollouts; the model takes `seconds` for each call."""
    model = ("--turns", str(turns), "--seconds", str(seconds), "--slots", str(2 * slots))
    with (
        TemporaryDirectory(prefix="rollgym-bench-") as name,
        running_module("benchmarks.saturating_model", *model) as url,
    ):
        folder = Path(name)
        rows = folder / "rows.jsonl"
        write_rows(rows, rollouts)
        case = contenders.Case(f"{url}/v1", rows, rollouts, slots)
        servers = contenders.servers_for(case.url)
        command = contenders.collect_command(case, folder / "rollouts.jsonl", *servers)
        with Child(command, folder) as child:
            cost = child.wait()
        size = sum(path.stat().st_size for path in folder.rglob("journal*.jsonl"))
    return ToolRun(cost.cpu, cost.memory * 1e6, size)


def web_run(episodes: int, sessions: int, seed: int) -> WebRun:
    """Collect web rollouts."""
    with (
        TemporaryDirectory(prefix="rollgym-bench-") as name,
        web_servers(Path(name), sessions, THINKS, seed) as servers,
    ):
        before = tree_costs(servers.browsers.pid).cpu
        case = Case(
            way="asynchronous",
            episodes=episodes,
            sessions=sessions,
            seed=seed,
            folder=name,
            sites_url=servers.sites.url,
            browsers_url=servers.browsers.url,
            policy_url=servers.policy.url,
            judge="",
        )
        told = answered(Told, "web_contenders", msgspec.json.encode(case).decode())
        if told.completed != episodes:
            raise RuntimeError(f"{told.completed} of {episodes} episodes were completed")
        return WebRun(told, episodes, tree_costs(servers.browsers.pid).cpu - before)


def _slope(turns: int, *, part: int = 1) -> tuple[float, float]:
    """The CPU seconds and the bytes of the journal of one rollout more."""
    small, large = SMALL // part, LARGE // part
    first, second = tool_run(small, turns), tool_run(large, turns)
    count = large - small
    bytes_each = (second.journal_bytes - first.journal_bytes) / count
    return (second.cpu - first.cpu) / count, bytes_each


def _processes() -> tuple[processes.PerRollout, processes.PerRollout]:
    """A rollout in one process, and in two worker processes with their driver."""
    with TemporaryDirectory(prefix="rollgym-bench-") as name:
        rows = Path(name) / "rows.jsonl"
        write_rows(rows, 4_000)
        first, second = (processes.measure(way, rows, (1_000, 4_000)) for way in ("one", "two"))
    return first, second


def _journal() -> tuple[float, float]:
    """The CPU seconds of a record without a result, and of each byte of one."""

    def cpu(size: int) -> float:
        result = msgspec.Raw(msgspec.json.encode("x" * size))

        async def worker(_item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
            return Completed(1.0, result=result)

        policy = Policy(concurrency=Fixed(64))
        with tempfile.TemporaryDirectory(prefix="rollgym-bench-") as folder:
            return run_loop(collect_once(Path(folder), RECORDS, policy, worker)) / RECORDS

    empty = min(cpu(0) for _ in range(3))
    return empty, (min(cpu(RESULT) for _ in range(3)) - empty) / RESULT


class _Session(NamedTuple):
    """CPU seconds of opening and closing a session, and the bytes that one holds."""

    cpu: float
    memory: float


def _session() -> _Session:
    with pages() as url:
        few = contend("rollgym", url, 16, SESSIONS, FEW_STEPS)
        more = contend("rollgym", url, 40, SESSIONS, FEW_STEPS)
        longer = contend("rollgym", url, 16, SESSIONS, MANY_STEPS)
    task = (more.cpu - few.cpu) / 24
    step = (longer.cpu - few.cpu) / (16 * (MANY_STEPS - FEW_STEPS))
    memory = (longer.memory - longer.idle_memory) / SESSIONS
    return _Session(max(0.0, task - FEW_STEPS * step), memory)
