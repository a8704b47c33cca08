"""What exact tokens cost: bytes and CPU of rollouts of ten turns, with and without them.

A model in another process asks for the same tool nine times, then answers; each answer has the ids
of the whole prompt, the sampled ids and their log probabilities, if they are asked for.

*Bytes* are those of `rollgym_tokens` in a row, compared with whole prompts on every item, as the
model server sends them. *CPU* is the slope between a small and a large collection, so that what the
start costs falls out; collections with and without tokens alternate; the median ratio is reported.

    python -m benchmarks.tokens            # all figures; exits 1 when a goal is missed
    python -m benchmarks.tokens --quick    # does everything once; its figures mean nothing
"""

import argparse
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from benchmarks.child import Child
from benchmarks.contenders import AGENT, COMMANDS, write_rows
from benchmarks.figure import Figures
from rollgym.records.tokens import LOG_PROBS, PROMPT_IDS, ROW_FIELD, SAMPLED_IDS

TURNS = 10
FIRST_PROMPT, RESULT, SAMPLED = 200, 30, 25
"""Tokens of the first prompt, of each result of a tool, and of each turn."""
VOCABULARY = 150_000
LARGEST_SHARE = 0.25
LARGEST_RATIO = 1.3
CONCURRENCY = 32
CONFIGS = (
    "responses_api_models/vllm_model/configs/vllm_model.yaml",
    "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml",
)
CALL = {"name": "get_weather", "arguments": '{"city": "Berlin"}'}
SETTING = "policy_model.responses_api_models.vllm_model.return_token_id_information"


def turns() -> list[dict[str, Any]]:
    """The tokens of each turn, under the names of NeMo Gym."""
    random, found = Random(7), list[dict[str, Any]]()
    ids = random.choices(range(VOCABULARY), k=FIRST_PROMPT)
    for _ in range(TURNS):
        sampled = random.choices(range(VOCABULARY), k=SAMPLED)
        logprobs = [_single(-random.expovariate(2.0)) for _ in sampled]
        found.append({PROMPT_IDS: ids, SAMPLED_IDS: sampled, LOG_PROBS: logprobs})
        ids = [*ids, *sampled, *random.choices(range(VOCABULARY), k=RESULT)]
    return found


def _single(number: float) -> float:
    """The number as model servers compute it, in single precision."""
    single: float = struct.unpack("f", struct.pack("f", number))[0]
    return single


def completion(turn: int, tokens: dict[str, Any] | None) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if turn + 1 < TURNS:
        message["tool_calls"] = [{"id": f"call_{turn}", "type": "function", "function": CALL}]
    else:
        message["content"] = "It is sunny in Berlin, at 18 degrees."
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "stop"}
    whole: dict[str, Any] = {"id": "chatcmpl-1", "model": "bench", "choices": [choice]}
    if tokens is not None:
        entries = [{"token": "x", "logprob": each, "bytes": None} for each in tokens[LOG_PROBS]]
        choice |= {"token_ids": tokens[SAMPLED_IDS], "logprobs": {"content": entries}}
        whole[PROMPT_IDS] = tokens[PROMPT_IDS]
    return msgspec.json.encode(whole)


def serve(listening: socket.socket) -> None:
    """The model. Everything it says is encoded before the first request."""
    said = [
        (completion(turn, None), completion(turn, tokens)) for turn, tokens in enumerate(turns())
    ]

    async def complete(request: web.Request) -> web.Response:
        body = await request.read()
        plain, exact = said[body.count(b'"role":"tool"')]
        answer = exact if b'"return_token_ids":true' in body else plain
        return web.Response(body=answer, content_type="application/json")

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "bench"}]})

    application = web.Application()
    application.router.add_post("/v1/chat/completions", complete)
    application.router.add_get("/v1/models", models)
    web.run_app(application, sock=listening, print=None, access_log=None)


@contextmanager
def serving() -> Iterator[str]:
    """The model in a process of its own; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        process = get_context("spawn").Process(target=serve, args=(listening,), daemon=True)
        process.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            process.kill()
            process.join()


class Collected(NamedTuple):
    """A collection: its CPU seconds, and its first row."""

    cpu: float
    row: dict[str, Any]


def collect(url: str, rows: Path, rollouts: int, *, tokens: bool) -> Collected:
    """Run a collection and check what it wrote. Raises RuntimeError."""
    with TemporaryDirectory(prefix="rollgym-bench-") as name:
        folder = Path(name)
        output = folder / "rollouts.jsonl"
        command: list[str | Path] = [
            COMMANDS / "ng_collect_rollouts",
            f"+config_paths=[{','.join(CONFIGS)}]",
            *(f"+policy_base_url={url}", "+policy_api_key=none", "+policy_model_name=bench"),
            *(f"+{SETTING}={str(tokens).lower()}", f"+agent_name={AGENT}", "+preflight=false"),
            *(f"+input_jsonl_fpath={rows}", f"+output_jsonl_fpath={output}"),
            *(f"+limit={rollouts}", f"+num_samples_in_parallel={CONCURRENCY}"),
        ]
        with Child(command, folder) as child:
            cost = child.wait()
        lines = output.read_bytes().splitlines()
        row: dict[str, Any] = msgspec.json.decode(lines[0])
        calls = [item["type"] for item in row["response"]["output"]].count("function_call")
        if len(lines) != rollouts or calls != TURNS - 1 or tokens != (ROW_FIELD in row):
            raise RuntimeError(f"{len(lines)} rollouts with {calls} calls:\n{child.said}")
        return Collected(cost.cpu, row)


def measure(rounds: int, small: int, large: int, figures: Figures) -> None:
    with TemporaryDirectory(prefix="rollgym-bench-") as folder, serving() as url:
        rows = Path(folder) / "rows.jsonl"
        write_rows(rows, large)

        def cpu_per_rollout(*, tokens: bool) -> float:
            least = collect(url, rows, small, tokens=tokens).cpu
            return (collect(url, rows, large, tokens=tokens).cpu - least) / (large - small)

        pairs = [
            (cpu_per_rollout(tokens=False), cpu_per_rollout(tokens=True)) for _ in range(rounds)
        ]
        row = collect(url, rows, small, tokens=True).row
    whole, stored = (len(msgspec.json.encode(each)) for each in (turns(), row[ROW_FIELD]))
    report = figures.report
    report("tokens.whole_prompts", whole, "bytes")
    report("tokens.stored", stored, "bytes")
    report("tokens.stored_over_whole_prompts", stored / whole, "ratio", LARGEST_SHARE)
    report("tokens.cpu_per_rollout_without", median(bare for bare, _ in pairs) * 1e6, "us")
    report("tokens.cpu_per_rollout_with", median(kept for _, kept in pairs) * 1e6, "us")
    ratio = median(kept / bare for bare, kept in pairs)
    report("tokens.cpu_over_without", ratio, "ratio", LARGEST_RATIO)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what exact tokens cost.")
    parser.add_argument("--quick", action="store_true", help="everything once, on few rollouts")
    quick = parser.parse_args().quick
    figures = Figures()
    measure(*((1, 2, 6) if quick else (5, 50, 350)), figures)
    if not quick:
        figures.exit()


if __name__ == "__main__":
    main()
