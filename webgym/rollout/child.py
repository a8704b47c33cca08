"""`python -m webgym.rollout.child MODULE ARGUMENT…`: a module as a program that outlives nobody.

Its standard input is a pipe whose other end belongs to the process that started it. When that
process is gone, however it ended, the pipe closes, and this one asks itself to stop and then stops.
"""

import os
import runpy
import signal
import sys
import threading
import time

STOP_SECONDS = 10.0


def main() -> None:
    module, *arguments = sys.argv[1:]
    threading.Thread(target=_stop_with_parent, name="parent", daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _stop_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_SECONDS)
    os.killpg(0, signal.SIGKILL)  # it leads the session that it was started in


if __name__ == "__main__":
    main()
