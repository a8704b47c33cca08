"""Three ways to collect the same rollouts, each in processes that are new for every run.

All get the same rows and call the same model, which asks for one tool call and then answers. What
they wrote is checked before what they cost is believed.
"""

import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from benchmarks.child import Child
from resources_servers.example_single_tool_call.app import WeatherServer
from rollgym.servers import tool_schemas

COMMANDS = Path(sys.executable).parent
ROOT = Path(__file__).parents[1]
AGENT = "example_single_tool_call_simple_agent"
CONFIGS = (
    "responses_api_models/openai_model/configs/openai_model.yaml",
    "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml",
)
SERVERS_READY = "servers are ready"


class Case(NamedTuple):
    """So many rollouts, of the first rows of a file, with so many in flight."""

    url: str
    rows: Path
    rollouts: int
    concurrency: int


class Result(NamedTuple):
    """What a collection cost: `cpu` of all its processes together, `memory` of the largest.

    `first_rollout` is the time from the command to the first line of its output.
    """

    cpu: float
    wall: float
    memory: float
    first_rollout: float


Contender = Callable[[Case], Result]


def bare_loop(case: Case) -> Result:
    with _folder() as folder:
        output = folder / "lines.jsonl"
        command: list[str | Path] = [
            *(sys.executable, ROOT / "benchmarks" / "bare_loop.py"),
            *("--url", case.url),
            *("--input", case.rows),
            *("--output", output),
            *("--limit", str(case.rollouts)),
            *("--concurrency", str(case.concurrency)),
        ]
        return _collected(command, folder, output, case.rollouts)


def own_servers(case: Case) -> Result:
    """`ng_collect_rollouts` with the servers in its own process."""
    with _folder() as folder:
        return _ng_collect_rollouts(case, folder, servers_for(case.url))


def servers_of_ng_run(case: Case) -> Result:
    """`ng_collect_rollouts` with the servers of an `ng_run`, both counted."""
    head = f"+head_server.port={_free_port()}"
    with (
        _folder() as folder,
        Child([COMMANDS / "ng_run", *servers_for(case.url), head], folder) as servers,
    ):
        servers.wait_until(lambda: SERVERS_READY in servers.said)
        collected = _ng_collect_rollouts(case, folder, [head])
        servers.interrupt()
        served = servers.wait()
    cpu, memory = collected.cpu + served.cpu, max(collected.memory, served.memory)
    return collected._replace(cpu=cpu, memory=memory)


def write_rows(path: Path, count: int) -> None:
    """Rows that differ, all about the city that the model will ask for."""
    tools = tool_schemas(WeatherServer)
    with path.open("wb") as rows:
        for index in range(count):
            question = f"Question {index}: what is the weather like in Berlin right now?"
            params = {"input": [{"role": "user", "content": question}], "tools": tools}
            row = {"responses_create_params": params, "expected_city": "Berlin"}
            rows.write(msgspec.json.encode(row) + b"\n")


@contextmanager
def _folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="rollgym-bench-") as folder:
        yield Path(folder)


def servers_for(url: str) -> list[str]:
    """The options of `ng_collect_rollouts` for servers of its own, with the model at this URL."""
    return [
        f"+config_paths=[{','.join(CONFIGS)}]",
        f"+policy_base_url={url}",
        "+policy_api_key=none",
        "+policy_model_name=bench",
    ]


def collect_command(case: Case, output: Path, *options: str) -> list[str | Path]:
    """`ng_collect_rollouts` for a case."""
    return [
        COMMANDS / "ng_collect_rollouts",
        *options,
        f"+agent_name={AGENT}",
        f"+input_jsonl_fpath={case.rows}",
        f"+output_jsonl_fpath={output}",
        f"+limit={case.rollouts}",
        f"+num_samples_in_parallel={case.concurrency}",
    ]


def _ng_collect_rollouts(case: Case, folder: Path, servers: list[str]) -> Result:
    output = folder / "rollouts.jsonl"
    return _collected(collect_command(case, output, *servers), folder, output, case.rollouts)


class _Line(msgspec.Struct):
    reward: float


def _collected(command: Sequence[str | Path], folder: Path, output: Path, rollouts: int) -> Result:
    """Run a collection and check what it wrote. Raises RuntimeError."""
    with Child(command, folder) as child:
        first_rollout = child.wait_until(lambda: output.exists() and output.stat().st_size > 0)
        cost = child.wait()
    with output.open("rb") as lines:
        rewards = [msgspec.json.decode(line, type=_Line).reward for line in lines]
    if rewards != [1.0] * rollouts:
        raise RuntimeError(
            f"{command[0]} wrote {len(rewards)} rollouts with {sum(rewards)} as reward, in place "
            f"of {rollouts} with as much:\n{child.said}"
        )
    return Result(cost.cpu, cost.wall, cost.memory, first_rollout)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port
