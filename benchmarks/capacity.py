"""What a workload needs: cores, memory, bytes and tokens, from measured constants.

`capacity.json`, beside this module, has the constants: what one rollout, turn, step, session and
byte cost on the machine that is named there. The model is linear: it multiplies and adds them.

    python -m benchmarks.capacity                                   # a million web rollouts a day
    python -m benchmarks.capacity --tool-rollouts-per-day 5000000 --turns 4
    python -m benchmarks.capacity --measure    # measures the constants, and writes them
    python -m benchmarks.capacity --check      # predicts other runs, measures them, and compares
"""

import argparse
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec

from benchmarks.figure import Figures

CONSTANTS = Path(__file__).with_name("capacity.json")
DAY = 86_400.0
MEBIBYTE = 1 << 20
Tell = Callable[[str, float, str], None]


class Constants(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured (`capacity_measured`). CPU in seconds of one core, sizes in bytes."""

    machine: str
    rollout_cpu: float
    """A tool rollout without its turns, in one process that also runs its servers."""
    turn_cpu: float
    """A turn of it: a call of the model over HTTP, and a call of a tool."""
    rollout_bytes: float
    turn_bytes: float
    """In the journal. The output file has about as much again."""
    rollout_memory: float
    """In the process, for a rollout in flight."""
    driver_cpu: float
    """A rollout in the driver of worker processes."""
    processes_cpu: float
    """CPU of a rollout in two worker processes with their driver, over that in one process."""
    record_cpu: float
    journal_byte_cpu: float
    """A record without a result in engine and journal, and a byte of a result."""
    session_cpu: float
    """Opening and closing a browser session."""
    step_cpu: float
    """A step of a web rollout in the browser server with Chromium."""
    session_memory: float
    step_driver_cpu: float
    """A step in the process that collects."""
    step_bytes: float
    """In the journal."""
    step_picture_bytes: float


Count = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A workload. `page_factor` is how much more than our test pages a page costs the browser."""

    web_rollouts_per_day: Count = 1_000_000.0
    steps: Positive = 12.0
    page_seconds: Positive = 4.0
    model_seconds: Positive = 10.0
    page_factor: Positive = 1.0
    tool_rollouts_per_day: Count = 0.0
    turns: Positive = 4.0
    turn_seconds: Positive = 10.0
    input_tokens: Count = 3_000.0
    output_tokens: Count = 250.0
    cores_per_node: Positive = 32.0
    memory_per_node: Positive = 128.0
    busy: Share = 0.7
    wasted: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.02


MEANINGS = {
    "web_rollouts_per_day": "web rollouts per day",
    "steps": "steps of a web rollout",
    "page_seconds": "seconds of the browser for a step",
    "model_seconds": "seconds of the model for a step",
    "page_factor": "CPU and memory of a page over those of the test pages",
    "tool_rollouts_per_day": "tool rollouts per day",
    "turns": "calls of the model in a tool rollout",
    "turn_seconds": "seconds of a turn",
    "input_tokens": "tokens that the model reads for a step or turn",
    "output_tokens": "tokens that it samples",
    "cores_per_node": "cores of a browser node",
    "memory_per_node": "memory of a browser node in GiB",
    "busy": "share of a node's cores and memory that is planned for use",
    "wasted": "share of the work that runs twice (see benchmarks.cluster)",
}


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What one rollout needs: CPU seconds, bytes, and seconds from start to end."""

    cpu: float
    browser_cpu: float
    journal_bytes: float
    picture_bytes: float
    seconds: float


def web_rollout(constants: Constants, steps: float, load: Workload) -> Needs:
    """What a web rollout of `steps` steps needs. `cpu` is that of the collecting process."""
    browser = constants.session_cpu + steps * constants.step_cpu
    return Needs(
        cpu=steps * constants.step_driver_cpu,
        browser_cpu=load.page_factor * browser,
        journal_bytes=steps * constants.step_bytes,
        picture_bytes=steps * constants.step_picture_bytes,
        seconds=steps * (load.page_seconds + load.model_seconds),
    )


def tool_rollout(constants: Constants, turns: float, load: Workload) -> Needs:
    """What a tool rollout with this number of turns needs."""
    return Needs(
        cpu=constants.rollout_cpu + turns * constants.turn_cpu,
        browser_cpu=0.0,
        journal_bytes=constants.rollout_bytes + turns * constants.turn_bytes,
        picture_bytes=0.0,
        seconds=turns * load.turn_seconds,
    )


def predict(figures: Figures, constants: Constants, load: Workload) -> None:
    """Print what the workload needs."""
    if load.web_rollouts_per_day:
        _predict_web(figures, constants, load)
    if load.tool_rollouts_per_day:
        _predict_tools(figures, constants, load)


def _predict_web(figures: Figures, constants: Constants, load: Workload) -> None:
    tell = figures.report
    each = web_rollout(constants, load.steps, load)
    rate = load.web_rollouts_per_day / DAY / (1 - load.wasted)
    sessions = rate * each.seconds
    cores = rate * each.browser_cpu / load.busy
    memory = sessions * constants.session_memory * load.page_factor / load.busy / (1 << 30)
    tell("capacity.web.rollouts_per_second", rate, "1/s")
    tell("capacity.web.sessions", sessions, "sessions")
    tell("capacity.web.browser_cores", cores, "cores")
    tell("capacity.web.browser_memory", memory, "GiB")
    nodes = max(cores / load.cores_per_node, memory / load.memory_per_node)
    tell("capacity.web.browser_nodes", nodes, "nodes")
    tell("capacity.web.sessions_per_node", sessions / nodes, "sessions")
    tell("capacity.web.collecting_cores", rate * each.cpu / load.busy, "cores")
    record = constants.record_cpu + each.journal_bytes * constants.journal_byte_cpu
    tell("capacity.web.journal_cores", rate * record / load.busy, "cores")
    tell("capacity.web.journal", rate * each.journal_bytes * DAY / (1 << 30), "GiB/day")
    tell("capacity.web.pictures", rate * each.picture_bytes * DAY / (1 << 30), "GiB/day")
    written = rate * (each.journal_bytes + each.picture_bytes) / MEBIBYTE
    tell("capacity.web.written", written, "MiB/s")
    _tokens(tell, "capacity.web", rate * load.steps, load)
    tell("capacity.web.model_requests_at_once", rate * load.steps * load.model_seconds, "requests")


def _predict_tools(figures: Figures, constants: Constants, load: Workload) -> None:
    tell = figures.report
    each = tool_rollout(constants, load.turns, load)
    rate = load.tool_rollouts_per_day / DAY / (1 - load.wasted)
    in_flight = rate * each.seconds
    tell("capacity.tools.rollouts_per_second", rate, "1/s")
    tell("capacity.tools.in_flight", in_flight, "rollouts")
    cores = rate * each.cpu / load.busy
    tell("capacity.tools.cores", cores, "cores")
    tell("capacity.tools.cores_with_processes", cores * constants.processes_cpu, "cores")
    tell("capacity.tools.driver_cores", rate * constants.driver_cpu / load.busy, "cores")
    memory = in_flight * constants.rollout_memory / load.busy / (1 << 30)
    tell("capacity.tools.memory", memory, "GiB")
    tell("capacity.tools.journal", rate * each.journal_bytes * DAY / (1 << 30), "GiB/day")
    _tokens(tell, "capacity.tools", rate * load.turns, load)
    at_once = rate * load.turns * load.turn_seconds
    tell("capacity.tools.model_requests_at_once", at_once, "requests")


def _tokens(tell: Tell, name: str, calls: float, load: Workload) -> None:
    tell(f"{name}.tokens_read_per_second", calls * load.input_tokens, "1/s")
    tell(f"{name}.tokens_sampled_per_second", calls * load.output_tokens, "1/s")


def _tell(figures: Figures, constants: Constants) -> None:
    for name, value in msgspec.structs.asdict(constants).items():
        match name:
            case "machine":
                pass
            case "processes_cpu":
                figures.report(f"capacity.constant.{name}", value, "ratio")
            case _ if name.endswith("_cpu"):
                figures.report(f"capacity.constant.{name}", value * 1e6, "us")
            case _:
                figures.report(f"capacity.constant.{name}", value, "bytes")


def this_machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def read_constants() -> Constants:
    return msgspec.json.decode(CONSTANTS.read_bytes(), type=Constants)


def options() -> argparse.ArgumentParser:
    """The command line: a flag for every property of a workload."""
    parser = argparse.ArgumentParser(description="Predict what a workload needs.")
    for field in msgspec.structs.fields(Workload):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=float,
            default=field.default,
            help=f"{MEANINGS[field.name]} (default: {field.default:g})",
        )
    parser.add_argument("--measure", action="store_true", help="measure the constants")
    parser.add_argument("--check", action="store_true", help="compare predictions with runs")
    return parser


def main() -> None:
    from benchmarks import capacity_measured  # noqa: PLC0415 - only two of its uses need it

    parser = options()
    chosen = vars(parser.parse_args())
    measuring, checking = chosen.pop("measure"), chosen.pop("check")
    figures = Figures()
    if measuring:
        constants = capacity_measured.measure()
        CONSTANTS.write_bytes(msgspec.json.format(msgspec.json.encode(constants)) + b"\n")
        _tell(figures, constants)
    elif checking:
        capacity_measured.check(figures, read_constants())
    else:
        try:
            load = msgspec.convert(chosen, Workload)
        except msgspec.ValidationError as error:
            parser.error(str(error))
        predict(figures, read_constants(), load)
    figures.exit()


if __name__ == "__main__":
    main()
