"""How a counterpart lives: it says where it listens, and ends with whoever started it."""

import argparse
import json
import os
import sys
import threading


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that every counterpart has."""
    options = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    options.add_argument("--port", type=int, default=0, help="0: any free port")
    options.add_argument(
        "--end-with-stdin",
        action="store_true",
        help="exit when standard input closes, so that a killed test leaves no process behind",
    )
    return options


def begin(port: int, *, end_with_stdin: bool) -> None:
    """Tell the starter the URL, on one line of JSON, and follow it into the grave if asked to."""
    if end_with_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)


def _end_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(0)
