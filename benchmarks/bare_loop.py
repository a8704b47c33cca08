"""The yardstick: the same model calls in a bare loop, with a line written for each rollout.

This is the least that a rollout of one tool call can cost in Python: a row read, two HTTP requests,
their JSON, a function called in between, a line. It retries nothing, checks nothing and survives
nothing. What it costs is measured from outside (see `benchmarks.collect`).

    python -m benchmarks.bare_loop --url http://127.0.0.1:8000/v1 --input rows.jsonl \
        --limit 2000 --concurrency 64 --output lines.jsonl
"""

import argparse
import asyncio
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import aiohttp
import msgspec
import uvloop

Json = dict[str, Any]

HEADERS = {"content-type": "application/json"}


def get_weather(city: str) -> Json:
    return {"city": city, "condition": "foggy", "temperature_celsius": -7}


async def ask(session: aiohttp.ClientSession, url: str, params: Json) -> Json:
    """One call of the model."""
    body = msgspec.json.encode(params)
    async with session.post(url, data=body, headers=HEADERS) as answer:
        answer.raise_for_status()
        response: Json = msgspec.json.decode(await answer.read())
        return response


async def rollout(session: aiohttp.ClientSession, url: str, row: Json) -> Json:
    """Call the model and its tools until it answers; gives the line to write."""
    params = row["responses_create_params"]
    output: list[Json] = []
    while True:
        response = await ask(session, url, {**params, "input": params["input"] + output})
        output += response["output"]
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        if not calls:
            break
        for call in calls:
            told = msgspec.json.encode(get_weather(**msgspec.json.decode(call["arguments"])))
            result = {"call_id": call["call_id"], "output": told.decode()}
            output.append({"type": "function_call_output", **result})
    reward = float("foggy" in output[-1]["content"][0]["text"])
    response["output"] = output
    return {**row, "response": response, "reward": reward}


async def collect(url: str, rows: Iterator[bytes], concurrency: int, lines: BinaryIO) -> None:
    async def work(session: aiohttp.ClientSession) -> None:
        for row in rows:
            line = await rollout(session, url, msgspec.json.decode(row))
            lines.write(msgspec.json.encode(line) + b"\n")

    async with (
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar()
        ) as session,
        asyncio.TaskGroup() as workers,
    ):
        for _ in range(concurrency):
            workers.create_task(work(session))


def main() -> None:
    parser = argparse.ArgumentParser(description="Collect with a bare loop.")
    parser.add_argument("--url", required=True, help="the model's endpoint, with its /v1")
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=None, help="only the first so many rows")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--output", type=Path, required=True)
    chosen = parser.parse_args()
    with (
        chosen.input.open("rb") as rows,
        chosen.output.open("wb") as lines,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        due = islice(rows, chosen.limit)
        runner.run(collect(f"{chosen.url}/responses", due, chosen.concurrency, lines))


if __name__ == "__main__":
    main()
