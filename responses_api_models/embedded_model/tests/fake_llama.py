"""llama.cpp's HTTP interface in a worker process, as far as the plug-in uses it.

Written from what llama.cpp answers, without its code: a grammar beside tools that it should read
itself is rejected, a token is a byte, log probabilities come only for `top_logprobs` above 0 and
for the last token of a character, and a wrong key is rejected. `serve` is called in place of
`rollgym.servers.gguf.program.serve`.
"""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
ANSWER = "It is windy in Oslo. \N{WIND BLOWING FACE}"


def serve(given: dict[str, Any]) -> str:
    class Llama(Handler):
        settings = given

    server = ThreadingHTTPServer(("127.0.0.1", given["port"]), Llama)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


class Handler(BaseHTTPRequestHandler):
    settings: dict[str, Any]

    def do_GET(self) -> None:
        model = {"id": self.settings["name"], "owned_by": "llamacpp", "pid": os.getpid()}
        self.answer(200, {"object": "list", "data": [model]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {self.settings['key']}":
            self.answer(401, {"error": {"message": "Invalid API Key"}})
        elif self.path == "/apply-template":
            self.answer(200, {"prompt": self.prompt(body)})
        elif self.path == "/tokenize":
            self.answer(200, {"tokens": list(body["content"].encode())})
        elif "crash" in self.prompt(body):
            os._exit(9)
        elif body.get("grammar") and body.get("tools") and body["tool_choice"] != "none":
            message = "Cannot use custom grammar constraints with tools."
            self.answer(400, {"error": {"message": message}})
        else:
            self.answer(200, self.completion(body))

    def prompt(self, body: dict[str, Any]) -> str:
        names = [each["function"]["name"] for each in body.get("tools", ())]
        turns = [f"{each['role']}: {each['content']}" for each in body["messages"]]
        return "\n".join([*names, *turns])

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        text = CALL if "get_weather" in body.get("grammar", "") else ANSWER
        choice: dict[str, Any] = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": text},
        }
        if body.get("logprobs") and body.get("top_logprobs"):
            entries = [{"id": each.encode()[-1], "logprob": -0.5} for each in text]
            choice["logprobs"] = {"content": entries}
        sizes = len(self.prompt(body)), len(text.encode())
        usage = {"prompt_tokens": sizes[0], "completion_tokens": sizes[1]}
        answer = {"id": "chatcmpl-1", "model": body["model"], "choices": [choice], "usage": usage}
        if not body.get("verbose"):
            return answer
        tokens = list(text.encode()) if body.get("return_tokens") else []
        return answer | {"__verbose": {"prompt": self.prompt(body), "tokens": tokens}}

    def answer(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
