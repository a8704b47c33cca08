"""Trajectories of ATIF as a file of rollouts, which every command reads.

The prompt of a rollout is what comes before the first step that its agent made. All later steps are
its response: texts, calls with what they returned, messages of users between them, and tokens where
the steps have them.

*Rewards* are in `extra` of the document, where `rollgym export --format atif` writes them, or in
Harbor's `result.json` above the folder of the trajectory. A trajectory without a reward, and a
trial that ended with an exception, are not completed rollouts: they are left out and counted.

*Tasks.* Documents that all have the number of their task and of their repeat keep them. Otherwise
those with the same prompt and tools are the repeats of one task.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from rollgym.export.source import ExportError, reject_same_file
from rollgym.records.decoding import JsonDecoder
from rollgym.records.task import Natural
from rollgym.records.tokens import TokenLog, TokenSample, TurnKind
from rollgym.records.version import PolicyTurn, body_version
from rollgym.rollouts import rows
from rollgym.servers.responses import JsonObject
from rollgym.store import write_derived
from rollgym.store.errors import storage_errors

TRAJECTORY = "trajectory.json"
RESULT = "result.json"
VERSIONS = "ATIF-v1."


class _Source(msgspec.Struct):
    path: str
    media_type: str = ""


class _AtifPart(msgspec.Struct):
    type: str
    text: str = ""
    source: _Source | None = None


_Content = str | list[_AtifPart] | None


class _Call(msgspec.Struct):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]


class _Result(msgspec.Struct):
    source_call_id: str | None = None
    content: _Content = None


class _Observation(msgspec.Struct):
    results: list[_Result]


class _StepMetrics(msgspec.Struct):
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: dict[str, Any] | None = None


class _AtifStep(msgspec.Struct):
    source: Literal["system", "user", "agent"]
    message: _Content = ""
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None
    observation: _Observation | None = None
    metrics: _StepMetrics | None = None
    is_copied_context: bool | None = None


class _AgentInfo(msgspec.Struct):
    name: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None


class _FinalMetrics(msgspec.Struct):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None


class _Extra(msgspec.Struct):
    reward: float | None = None
    success: bool | None = None
    task: Natural | None = msgspec.field(default=None, name=rows.TASK_INDEX)
    repeat: Natural | None = msgspec.field(default=None, name=rows.ROLLOUT_INDEX)


class _Document(msgspec.Struct):
    schema_version: str
    agent: _AgentInfo
    steps: list[_AtifStep]
    final_metrics: _FinalMetrics | None = None
    extra: _Extra | None = None


class _VerifierResult(msgspec.Struct):
    rewards: dict[str, float] | None = None


class _Trial(msgspec.Struct):
    verifier_result: _VerifierResult | None = None
    exception_info: Any = None


_DOCUMENT = JsonDecoder(_Document)
_TRIAL = JsonDecoder(_Trial)


class ImportReport(NamedTuple):
    """How many rollouts were written, of how many tasks, and why others were left out."""

    rollouts: int
    tasks: int
    left_out: Counter[str]


class _Found(NamedTuple):
    """A document, the folder of its files, and where it is, for messages."""

    document: _Document
    folder: Path
    place: str


def import_atif(sources: Sequence[Path], target: Path) -> ImportReport:
    """Write the trajectories of documents, files of lines, and folders as a file of rollouts.

    An existing file is replaced when everything is written. Raises ExportError, StorageError.
    """
    for source in sources:
        reject_same_file(source, target)
    work = _Import(sources)
    write_derived(target, work.lines())
    return ImportReport(work.repeats.total(), len(work.repeats), work.left_out)


class _Import:
    def __init__(self, sources: Sequence[Path]) -> None:
        self._sources = sources
        self.repeats: Counter[int] = Counter()
        self.left_out: Counter[str] = Counter()
        keys = [(each.document.extra or _Extra()) for each in _documents(sources)]
        numbers = {(each.task, each.repeat) for each in keys}
        self._has_numbers = len(numbers) == len(keys) and not any(
            None in number for number in numbers
        )
        self._tasks: dict[bytes, int] = {}

    def lines(self) -> Iterator[bytes]:
        for found in _documents(self._sources):
            extra = found.document.extra or _Extra()
            reward, success = extra.reward, extra.success
            if reward is None:
                reward, problem = _trial_reward(found.folder.parent / RESULT)
                if reward is None:
                    self.left_out[problem] += 1
                    continue
            row = _row(found)
            task, repeat = self._key(extra, row)
            self.repeats[task] += 1
            row |= {rows.REWARD: reward} | ({} if success is None else {rows.SUCCESS: success})
            row |= {rows.TASK_INDEX: task, rows.ROLLOUT_INDEX: repeat}
            yield msgspec.json.encode(row) + b"\n"
        if not self.repeats:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())
            raise ExportError(f"no trajectory has a reward ({reasons or 'there are none'})")

    def _key(self, extra: _Extra, row: JsonObject) -> tuple[int, int]:
        if self._has_numbers and extra.task is not None and extra.repeat is not None:
            return extra.task, extra.repeat
        asked = blake2b(msgspec.json.encode(row[rows.PARAMS]), digest_size=16).digest()
        task = self._tasks.setdefault(asked, len(self._tasks))
        return task, self.repeats[task]


def _documents(sources: Sequence[Path]) -> Iterator[_Found]:
    for source in sources:
        files = sorted(source.rglob(TRAJECTORY)) if source.is_dir() else [source]
        if not files:
            raise ExportError(f"{source} has no {TRAJECTORY}: name a folder of trials, or files")
        for path in files:
            with storage_errors(path, "reading the trajectories"), path.open("rb") as file:
                lines = enumerate(file, 1) if path.suffix == ".jsonl" else [(0, file.read())]
                for number, line in lines:
                    place = f"{path}:{number}" if number else str(path)
                    if not line.isspace():
                        yield _Found(_document(line, place), path.parent, place)


def _document(line: bytes, place: str) -> _Document:
    try:
        document = _DOCUMENT.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExportError(f"{place}: this is not a trajectory of ATIF: {error}") from error
    if not document.schema_version.startswith(VERSIONS):
        raise ExportError(
            f"{place}: the schema_version is {document.schema_version!r}, and only versions 1 of "
            "ATIF can be read"
        )
    return document


def _trial_reward(result: Path) -> tuple[float | None, str]:
    """The reward of one of Harbor's trials; otherwise why it has none."""
    if not result.is_file():
        return None, "without a reward"
    with storage_errors(result, "reading the result of a trial"):
        content = result.read_bytes()
    try:
        trial = _TRIAL.decode(content)
    except msgspec.DecodeError as error:
        raise ExportError(f"{result}: this is not the result of a trial: {error}") from error
    if trial.exception_info is not None:
        return None, "ended with an exception"
    rewards = (trial.verifier_result or _VerifierResult()).rewards or {}
    if len(rewards) == 1:
        return next(iter(rewards.values())), ""
    return rewards.get("reward"), "without a reward"


def _row(found: _Found) -> JsonObject:
    document = found.document
    steps = document.steps
    begins = next(
        (
            n
            for n, each in enumerate(steps)
            if each.source == "agent" and not each.is_copied_context
        ),
        len(steps),
    )
    asked = [item for step in steps[:begins] for item in _items(step, found)]
    log, output, turns = TokenLog(), list[JsonObject](), list[PolicyTurn]()
    for step in steps[begins:]:
        made = _items(step, found)
        last = len(output) + max(0, len(made) - _results(step)) - 1
        output += made
        metrics = step.metrics or _StepMetrics()
        if step.source == "agent":
            said = body_version(metrics.extra or {})
            turns.append(PolicyTurn(version=said.version, parts=said.parts, item=last))
        if metrics.prompt_token_ids and metrics.completion_token_ids:
            log.skip_to(len(turns) - 1)
            sample = TokenSample(
                prompt=metrics.prompt_token_ids,
                sampled=metrics.completion_token_ids,
                logprobs=metrics.logprobs,
            )
            log.add(
                sample, TurnKind(bool(step.reasoning_content), bool(step.tool_calls)), item=last
            )
    totals = document.final_metrics or _FinalMetrics()
    read, written = totals.total_prompt_tokens or 0, totals.total_completion_tokens or 0
    usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    model = document.agent.model_name or ""
    response = {"object": "response", "model": model, "output": output, "usage": usage}
    tools = [_tool(each) for each in document.agent.tool_definitions or ()]
    return {
        rows.PARAMS: {"input": asked, **({"tools": tools} if tools else {})},
        rows.AGENT: {"type": "responses_api_agents", "name": document.agent.name},
        rows.RESPONSE: response,
        **({rows.TOKENS: log.turns} if log.turns else {}),
        **({rows.TURNS: turns} if any(turn.version for turn in turns) else {}),
    }


def _tool(given: JsonObject) -> JsonObject:
    function = given.get("function")
    return {"type": "function", **function} if isinstance(function, dict) else given


def _items(step: _AtifStep, found: _Found) -> list[JsonObject]:
    """The items of the Responses API for a step."""
    if step.source != "agent":
        return [{"role": step.source, "content": _content(step.message, found)}]
    items: list[JsonObject] = []
    if step.reasoning_content:
        summary = [{"type": "summary_text", "text": step.reasoning_content}]
        items.append({"type": "reasoning", "summary": summary})
    calls = step.tool_calls or []
    if step.message or not (calls or items):
        text = {"type": "output_text", "text": _text(step.message, found), "annotations": []}
        items.append({"type": "message", "role": "assistant", "content": [text]})
    for call in calls:
        arguments = msgspec.json.encode(call.arguments).decode()
        made = {"type": "function_call", "call_id": call.tool_call_id}
        items.append({**made, "name": call.function_name, "arguments": arguments})
    for result in step.observation.results if step.observation else ():
        content = _content(result.content, found)
        identity = result.source_call_id or (calls[0].tool_call_id if len(calls) == 1 else None)
        if identity is None:
            items.append({"role": "user", "content": content})
        else:
            output = {"type": "function_call_output", "call_id": identity}
            items.append({**output, "output": content})
    return items


def _results(step: _AtifStep) -> int:
    return len(step.observation.results) if step.observation else 0


def _content(content: _Content, found: _Found) -> str | list[JsonObject]:
    if isinstance(content, list):
        return [_part(each, found) for each in content]
    return content or ""


def _text(content: _Content, found: _Found) -> str:
    if not isinstance(content, list):
        return content or ""
    if any(part.type != "text" for part in content):
        raise ExportError(f"{found.place}: a message of the agent has more than text")
    return "".join(part.text for part in content)


def _part(part: _AtifPart, found: _Found) -> JsonObject:
    if part.type == "text":
        return {"type": "input_text", "text": part.text}
    if part.type != "image" or part.source is None:
        raise ExportError(f"{found.place}: content of type {part.type!r} cannot be read")
    url = part.source.path
    if not url.startswith(("data:", "http:", "https:")):
        path = found.folder / url
        with storage_errors(path, "reading an image"):
            data = b64encode(path.read_bytes()).decode()
        url = f"data:{part.source.media_type or 'image/png'};base64,{data}"
    return {"type": "input_image", "image_url": url}
