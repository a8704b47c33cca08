"""What the tests of the wire contract have in common: episodes, and looking at the other side."""

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from tests.counterparts.processes import running_module
from tests.counterparts.wire import Client

Json = dict[str, Any]


class Servers(NamedTuple):
    agent: str
    resources: str
    model: str


def ours(kind: str, *options: str) -> AbstractContextManager[str]:
    """A server of ours in a process of its own; gives its URL."""
    return running_module("tests.integration.servers.served", kind, *options)


def row_with(tools: list[str], script: tuple[str, ...], **fields: object) -> Json:
    """A row whose user tells the model what to do, line by line."""
    asked = [{"role": "user", "content": "\n".join(script)}]
    params = {"input": asked, "tools": [_function(name) for name in tools]}
    return {"responses_create_params": params, **fields}


def _function(name: str) -> Json:
    parameters = {"type": "object", "properties": {}, "additionalProperties": True}
    return {"type": "function", "name": name, "parameters": parameters, "strict": False}


def run(servers: Servers, task: Json) -> Json:
    """The verified row of one episode."""
    reply = Client(servers.agent).post("/run", task)
    assert reply.status == 200, reply.text
    answer: Json = reply.json()
    return answer


def outputs(answer: Json) -> list[str]:
    """What the tools told the model, in order."""
    items = answer["response"]["output"]
    return [item["output"] for item in items if item["type"] == "function_call_output"]


def requests(url: str, marker: str) -> list[Json]:
    """The requests of a counterpart that have this marker in their body."""
    found: list[Json] = [item for item in Client(url).get("/_requests") if marker in item["body"]]
    return found
