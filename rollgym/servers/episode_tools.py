"""The tools of an episode, and its times.

*Order.* The calls of one turn run one after another. Neighbouring calls of tools that the
environment marks as safe run in parallel, and all calls do with `parallel_tool_calls`.

*Errors of tools.* What the model caused, it reads: a call that cannot be made, and an answer with a
status of 400 to 499. Everything else fails the attempt. The errors that the model did read are
counted, and `Episode.annotate` writes the counts into the response.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence

from rollgym.records import Span, ToolError
from rollgym.records.failure import shorten
from rollgym.servers.client import EXCERPT, ServerClient, retry_after
from rollgym.servers.exchange import Answer, CookieJar, error_answer
from rollgym.servers.responses import FunctionCall, JsonObject, arguments_problem
from rollgym.servers.spans import MOST_SPANS, Timed, spans_of
from rollgym.servers.tool_results import ToolOutput, tool_output
from rollgym.servers.tools import RESERVED_NAMES

MOST_PARALLEL = 64
"""The most calls of one turn that run at the same time."""
_OVERLOADED = (408, 429)


class EpisodeTools:
    """The session of an episode in its environment, the calls of its tools, and the times of calls.

    The arguments are those of `Episode`.
    """

    closable = False
    """Whether the environment has a session that can be closed without a verdict."""
    parallel_tools: frozenset[str] = frozenset()
    """The tools that the environment marks as safe to run in parallel."""
    tool_errors = 0
    tool_calls_rejected = 0

    def __init__(
        self,
        resources: ServerClient,
        *,
        tool_timeout: float,
        cookies: Mapping[str, str] | None,
        parallel: bool,
        show_server_errors: bool,
    ) -> None:
        self._tool_timeout = tool_timeout
        self._parallel = parallel
        self._show_server_errors = show_server_errors
        self.resources = resources
        self.resources_jar = CookieJar(cookies)
        self.output: list[JsonObject] = []
        """The trajectory so far, as items of the Responses API; the agent adds the turns to it."""
        self.phases: dict[str, float] = {}
        self._began = time.perf_counter()
        self._calls: list[Timed] = []

    async def call_tools(self, calls: Sequence[FunctionCall], tools: object) -> None:
        """Make the calls of one turn, and add their outputs to `output` in the order of the calls.

        `tools` are those of the task, as in `params["tools"]`; only they can be called. Raises the
        errors of `call_tool`; the outputs of calls that have ended are kept.
        """
        known = tool_names(tools)
        for together in self._batches(calls) if len(calls) > 1 else [calls]:
            if len(together) == 1:
                self.output.append(await self._call(together[0], known))
                continue
            tasks: list[asyncio.Task[JsonObject]] = []
            try:
                async with asyncio.TaskGroup() as group:
                    tasks += [group.create_task(self._call(call, known)) for call in together]
            finally:
                self.output += [task.result() for task in tasks if _has_result(task)]

    async def call_tool(self, name: str, arguments: bytes) -> ToolOutput:
        """Call a tool; returns what the model reads, also where the tool answered an error.

        Raises ToolError when the tool's server did not answer or broke, and the server's error when
        it reports a failure of the rollout.
        """
        if name in RESERVED_NAMES or "/" in name:
            return self._reject(f"there is no tool {name!r}")
        return tool_output(await self.ask_tool(name, arguments))

    async def ask_tool(self, name: str, arguments: bytes) -> Answer:
        """The answer of a tool, also an error that the model caused. Raises as `call_tool`.

        The caller has checked the name: other routes of the environment have names too.
        """
        began = time.perf_counter()
        try:
            answer = await self.resources.call(
                f"/{name}",
                arguments,
                error=ToolError,
                jar=self.resources_jar,
                within=self._tool_timeout,
                any_status=True,
            )
        finally:
            self.spent("tools", began, name)
        if not answer.ok:
            self._count_error(name, answer)
        return answer

    @property
    def seconds(self) -> float:
        """Seconds since the beginning of the episode."""
        return time.perf_counter() - self._began

    def spans(self) -> tuple[Span, ...]:
        """The spans of the first calls, in the order in which they ended."""
        return spans_of(self._calls, self._began)

    def spent(self, phase: str, began: float, label: str = "") -> None:
        """Add the seconds since the performance counter was `began`; parallel calls each count."""
        ended = time.perf_counter()
        phases, calls = self.phases, self._calls
        phases[phase] = phases.get(phase, 0.0) + ended - began
        if len(calls) < MOST_SPANS:
            calls.append((phase, began, ended, label))

    def _batches(self, calls: Sequence[FunctionCall]) -> Iterator[list[FunctionCall]]:
        """The calls, divided into those that may run at the same time."""
        together: list[FunctionCall] = []
        for call in calls:
            safe = self._parallel or call.name in self.parallel_tools
            if together and not (safe and len(together) < MOST_PARALLEL):
                yield together
                together = []
            together.append(call)
            if not safe:
                yield together
                together = []
        if together:
            yield together

    async def _call(self, call: FunctionCall, tools: set[str]) -> JsonObject:
        """The output of a call. Other routes, such as the verifier, cannot be called."""
        arguments = call.arguments or "{}"
        output: ToolOutput
        if call.name not in tools:
            known = ", ".join(sorted(tools))
            output = self._reject(f"unknown tool {call.name!r}; known tools: {known}")
        elif problem := arguments_problem(arguments):
            output = self._reject(f"the arguments of {call.name} are {problem}")
        else:
            output = await self.call_tool(call.name, arguments.encode())
        return {"type": "function_call_output", "call_id": call.call_id, "output": output}

    def _reject(self, message: str) -> str:
        """An error in the same form as errors of servers, so that the model sees one form."""
        self.tool_calls_rejected += 1
        return error_answer(400, message).text

    def _count_error(self, name: str, answer: Answer) -> None:
        """Raises ToolError for an error that the model did not cause."""
        of_model = 400 <= answer.status < 500 and answer.status not in _OVERLOADED
        if not (of_model or self._show_server_errors):
            raise ToolError(
                f"{self.resources.name} answered the tool {name} with HTTP {answer.status}: "
                f"{shorten(answer.text, EXCERPT)}",
                retry_after=retry_after(answer.headers),
            )
        if answer.status == 422:  # the arguments did not pass the check of the tool
            self.tool_calls_rejected += 1
        else:
            self.tool_errors += 1


def _has_result(task: asyncio.Task[JsonObject]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def tool_names(tools: object) -> set[str]:
    if not isinstance(tools, list):
        return set()
    return {tool["name"] for tool in tools if isinstance(tool, dict) and "name" in tool}
