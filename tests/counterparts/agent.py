"""An agent: seeds a session, lets the model call tools until it answers, and has that verified.

    python -m tests.counterparts.agent --resources-url URL --model-url URL --port 0 [--in-turn]

`POST /run` takes a row and answers what the verifier answers. `POST /v1/responses` is the loop
alone, in the session whose cookie the caller brings. Every server has a cookie jar of its own.

With `--in-turn` it behaves as the `simple_agent` of NeMo Gym does on the wire: calls of one turn
are made one after another; after each answer only the cookies of this answer are kept; the verifier
gets those of the environment and of the model together; an incomplete response ends the episode.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.counterparts.life import parser
from tests.counterparts.serving import Answer, Request, serve
from tests.counterparts.wire import Client, Reply

MAX_STEPS = 20
Json = dict[str, Any]


class UpstreamError(Exception):
    """A server that the agent cannot do without did not do its part."""


def required(reply: Reply, what: str) -> Json:
    if reply.status != 200:
        raise UpstreamError(f"{what} answered {reply.status}: {reply.text}")
    body: Json = reply.json()
    return body


def call_tool(resources: Client, call: Json) -> Json:
    """The output that the model sees, which may be an error."""
    try:
        arguments = json.loads(call["arguments"])
    except ValueError as problem:
        output = f"the arguments are not valid JSON: {problem}"
    else:
        output = resources.post(f"/{call['name']}", arguments).text
    return {"type": "function_call_output", "call_id": call["call_id"], "output": output}


def added(usages: list[Json]) -> Json:
    names = ("input_tokens", "output_tokens", "total_tokens")
    return usages[-1] | {name: sum(usage[name] for usage in usages) for name in names}


def converse(params: Json, model: Client, resources: Client, *, in_turn: bool) -> Json:
    """Model and tools in turn; the last response, with the output and usage of all turns."""
    given = params["input"]
    asked = [{"role": "user", "content": given}] if isinstance(given, str) else given
    output: list[Json] = []
    usages: list[Json] = []
    for _ in range(MAX_STEPS):
        reply = model.post("/v1/responses", {**params, "input": asked + output})
        response = required(reply, "the model")
        usages.append(response["usage"])
        output += response["output"]
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        if not calls or (in_turn and response.get("incomplete_details")):
            break
        with ThreadPoolExecutor(1 if in_turn else len(calls)) as pool:
            output += pool.map(lambda call: call_tool(resources, call), calls)
    return {**response, "output": output, "usage": added(usages)}


class Agent:
    """Answers requests by calling the two other servers."""

    def __init__(self, resources_url: str, model_url: str, *, in_turn: bool) -> None:
        self._resources_url = resources_url
        self._model_url = model_url
        self._in_turn = in_turn

    def __call__(self, request: Request) -> Answer:
        resources = Client(self._resources_url, replaces=self._in_turn)
        model = Client(self._model_url, replaces=self._in_turn)
        try:
            match request.method, request.path:
                case "POST", "/run":
                    return Answer.of(self._run(request.json(), model, resources))
                case "POST", "/v1/responses":
                    resources.cookies.update(request.cookies)
                    response = converse(request.json(), model, resources, in_turn=self._in_turn)
                    jar = resources.cookies.items()
                    cookies = (f"{name}={value}; path=/; HttpOnly" for name, value in jar)
                    return Answer.of(response, 200, *cookies)
                case "POST", "/aggregate_metrics":
                    reply = resources.post(request.path, request.json())
                    return Answer(reply.status, reply.body, reply.content_type)
                case _:
                    return Answer.of({"detail": "Not Found"}, 404)
        except UpstreamError as problem:
            return Answer.plain(str(problem), 502)

    def _run(self, row: Json, model: Client, resources: Client) -> Json:
        required(resources.post("/seed_session", row), "seed_session")
        response = converse(row["responses_create_params"], model, resources, in_turn=self._in_turn)
        if self._in_turn:
            resources.cookies |= model.cookies
        return required(resources.post("/verify", {**row, "response": response}), "verify")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--resources-url", required=True)
    options.add_argument("--model-url", required=True)
    options.add_argument("--in-turn", action="store_true", help="behave as NeMo Gym's agent does")
    chosen = options.parse_args()
    agent = Agent(chosen.resources_url, chosen.model_url, in_turn=chosen.in_turn)
    serve(agent, chosen.port, end_with_stdin=chosen.end_with_stdin)


if __name__ == "__main__":
    main()
