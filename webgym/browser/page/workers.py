"""The web workers of a tab, their requests, and the timers that are pending in them.

Chromium attaches to every worker that the page of the tab or one of its workers starts. A new
worker first loads its script, and stops before it runs it: only then our script that notes timers
(`timers`) finds the functions to replace. So settling also waits for what a worker will do soon,
and then tell its page. A worker that is busy with its own scripts for longer does not answer; it
is asked again when it has answered. Shared workers belong to no tab, and are not waited for.
"""

import asyncio
from collections.abc import Callable
from secrets import token_hex

import msgspec

from webgym.browser.chromium.connection import CallError, DevToolsConnection
from webgym.browser.page.timers import NOTED_TIMERS, TIMER_BOUND, ScriptTemplate

MAX_WORKERS = 20
"""Workers of one tab whose timers are asked for; pages rarely have more than a few."""
ANSWERED_WITHIN = TIMER_BOUND
STARTS_WITHIN = 2.0
"""For a new worker to load its script."""
_CHANNEL = token_hex(8)
_NOTES = ScriptTemplate(
    """(() => {
@timers
  listen("@channel", (event) => {
    send(new Custom("@channel-timers", { detail: timersSince(now() - Number(detailOf(event))) }));
  });
})()"""
).substitute(timers=NOTED_TIMERS, channel=_CHANNEL)
# Due times are told as the milliseconds from now.
_QUESTION = ScriptTemplate(
    """(() => {
  let told = "[0,0,false]";
  const hear = (event) => (told = event.detail);
  performance.addEventListener("@channel-timers", hear, { once: true });
  performance.dispatchEvent(new CustomEvent("@channel", { detail: @age }));
  performance.removeEventListener("@channel-timers", hear);
  const [count, due, looped] = JSON.parse(told);
  return JSON.stringify([count ? Math.max(0, due - performance.now()) : null, looped]);
})()"""
)
_ATTACH: dict[str, object] = {
    "autoAttach": True,
    "waitForDebuggerOnStart": True,
    "flatten": True,
    "filter": [{"type": "worker"}, {"exclude": True}],
}
_KEEP_NO_BODIES: dict[str, object] = {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0}
_BEFORE_SCRIPT: dict[str, object] = {"instrumentation": "beforeScriptExecution"}


class WorkerTimers(msgspec.Struct, frozen=True):
    """The seconds until the last pending timer is due, or None; whether one repeats without end.

    A worker that did not answer counts like one that does not end.
    """

    wait: float | None = None
    looped: bool = False


class _Session(msgspec.Struct, rename="camel"):
    session_id: str


class _Value(msgspec.Struct):
    value: str = "[null,false]"


class _EvaluatedTimers(msgspec.Struct):
    result: _Value


_READ_SESSION = msgspec.json.Decoder(_Session).decode
_READ_EVALUATED = msgspec.json.Decoder(_EvaluatedTimers).decode
_READ_TIMERS = msgspec.json.Decoder(tuple[float | None, bool]).decode


class TabWorkers:
    """The workers of the tab with this DevTools session.

    `changed` is called when one starts, `report` with the events of their requests.
    """

    def __init__(
        self,
        connection: DevToolsConnection,
        session: str,
        changed: Callable[[], None],
        report: Callable[[str, msgspec.Raw], None],
    ) -> None:
        self._connection = connection
        self._session = session
        self._changed = changed
        self._report = report
        self._workers: dict[str, None] = {}
        """Those that answer."""
        self._busy: set[str] = set()
        self._starting: dict[str, float] = {}
        """By when they must have started."""
        self.handlers: dict[str, Callable[[msgspec.Raw], None]] = {
            "Target.attachedToTarget": self._attached,
            "Target.detachedFromTarget": self._detached,
        }

    def start(self) -> None:
        """Attach to workers from now on."""
        self._connection.send("Target.setAutoAttach", _ATTACH, session=self._session)

    def close(self) -> None:
        """Forget all workers, because the tab is closed."""
        for worker in [*self._workers, *self._busy]:
            self._forget(worker)

    async def timers(self, age: float, deadline: float) -> WorkerTimers:
        """The pending timers of all workers that were set within the last `age` seconds."""
        if not self._workers:
            return WorkerTimers()
        left = max(self._starting.values(), default=0.0) - asyncio.get_running_loop().time()
        if left > 0:
            return WorkerTimers(left)
        question = _QUESTION.substitute(channel=_CHANNEL, age=age * 1000)
        soon = min(deadline, asyncio.get_running_loop().time() + ANSWERED_WITHIN)
        told = await asyncio.gather(*(self._ask(each, question, soon) for each in self._workers))
        waits = [each.wait for each in told if each.wait is not None]
        return WorkerTimers(max(waits, default=None), any(each.looped for each in told))

    async def _ask(self, worker: str, question: str, deadline: float) -> WorkerTimers:
        params: dict[str, object] = {"expression": question, "returnByValue": True}
        try:
            answer = await self._connection.call(
                "Runtime.evaluate",
                params,
                session=worker,
                deadline=deadline,
                late=lambda _: self._answers_again(worker),
            )
            wait, looped = _READ_TIMERS(_READ_EVALUATED(answer).result.value)
        except TimeoutError:
            if worker in self._workers:
                del self._workers[worker]
                self._busy.add(worker)
            return WorkerTimers(looped=True)
        except (CallError, msgspec.DecodeError):
            return WorkerTimers()
        return WorkerTimers(None if wait is None else wait / 1000, looped)

    def _answers_again(self, worker: str) -> None:
        if worker in self._busy:
            self._busy.discard(worker)
            self._workers[worker] = None

    def _attached(self, params: msgspec.Raw) -> None:
        worker = _READ_SESSION(params).session_id
        if len(self._workers) + len(self._busy) < MAX_WORKERS:
            self._workers[worker] = None
            self._starting[worker] = asyncio.get_running_loop().time() + STARTS_WITHIN
            self._connection.listen(
                worker, lambda method, params: self._heard(worker, method, params)
            )
            self._connection.send("Network.enable", _KEEP_NO_BODIES, session=worker)
            self._connection.send("Target.setAutoAttach", _ATTACH, session=worker)
            self._connection.send("Debugger.enable", session=worker)
            self._connection.send(
                "Debugger.setInstrumentationBreakpoint", _BEFORE_SCRIPT, session=worker
            )
        self._connection.send("Runtime.runIfWaitingForDebugger", session=worker)

    def _heard(self, worker: str, method: str, params: msgspec.Raw) -> None:
        if method.startswith("Network."):
            self._report(method, params)
        elif method in self.handlers:
            self.handlers[method](params)
        elif method == "Debugger.paused":
            self._prepare(worker)

    def _prepare(self, worker: str) -> None:
        """Prepare a worker that has stopped before its script, and let it continue."""
        self._connection.send("Runtime.evaluate", {"expression": _NOTES}, session=worker)
        self._connection.send("Debugger.disable", session=worker)
        if self._starting.pop(worker, None) is not None:
            self._changed()

    def _detached(self, params: msgspec.Raw) -> None:
        self._forget(_READ_SESSION(params).session_id)

    def _forget(self, worker: str) -> None:
        self._connection.unlisten(worker)
        self._workers.pop(worker, None)
        self._busy.discard(worker)
        self._starting.pop(worker, None)
