"""A real vLLM on the CPU, as a process of its own."""

import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen

from tests.ports import free_port

START_TIMEOUT = 600.0
"""Starting takes half a minute on an idle machine."""
END_TIMEOUT = 60.0
_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONPATH": str(Path(__file__).with_name("stubs")),
}
_OPTIONS = (
    *("--enforce-eager", "--dtype", "bfloat16", "--max-num-seqs", "16"),
    *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
)


class VllmServer:
    """A server of one model, at a port that stays the same when it starts again."""

    def __init__(self, python: Path, model: Path, log: Path) -> None:
        self.name = model.name
        self.port = free_port()
        self._log = log
        self._command = [
            *(str(python), "-m", "vllm.entrypoints.openai.api_server", *_OPTIONS),
            *("--model", str(model), "--served-model-name", model.name),
            *("--host", "127.0.0.1", "--port", str(self.port)),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=os.environ | _ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT
        while not self._is_ready():
            ended = self._process.poll() is not None
            assert not ended, f"vLLM ended:\n{self._log.read_text()[-4000:]}"
            assert time.monotonic() < deadline, (
                f"vLLM is not ready:\n{self._log.read_text()[-4000:]}"
            )
            time.sleep(0.5)

    def kill(self) -> None:
        """End the server and its workers at once."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(END_TIMEOUT)
            self._process = None

    def running_requests(self) -> int:
        """The number of requests that vLLM works on."""
        with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=END_TIMEOUT) as answer:
            lines = answer.read().decode().splitlines()
        names = ("vllm:num_requests_running", "vllm:num_requests_waiting{")
        return sum(int(float(line.split()[-1])) for line in lines if line.startswith(names))

    def _is_ready(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/health", timeout=END_TIMEOUT) as answer:
                return bool(answer.status == 200)
        except (URLError, ConnectionError, TimeoutError):
            return False
