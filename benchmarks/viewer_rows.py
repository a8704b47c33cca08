"""Rows of rollouts as `ng_collect_rollouts` writes them, put together from pieces of JSON.

A rollout's numbers follow from which one it is, so nothing has to be remembered about it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from benchmarks.viewer_texts import TOOLS, Exchange, Writer, joined, tool_schemas

DOMAINS = ("algebra", "geography", "history", "law", "medicine", "physics")
AGENTS = ("research_agent", "simple_agent", "coding_agent")
MODELS = ("policy-7b-step-400", "policy-7b-step-800")
KINDS = ("model_unavailable", "tool", "timeout", "model_rate_limit", "verifier")
DETAILS = (
    "policy_model did not answer within {} s",
    "search_document broke: ConnectionError: [Errno 111] to 10.0.0.{}:8080",
    "no end after {}.5 s",
    "policy_model asked for {} s of patience",
    "the verified row has no number as reward but 'n/a {}'",
)
PART = 0.5
OVERHEAD = 4_900
"""Bytes of a row beside its exchanges, about."""
MOST_CALLS_WITH_SPANS = 49
_EPOCH = 1_760_000_000
_HEAD = (
    b'{"responses_create_params":{"input":[{"role":"system","content":%b},'
    b'{"role":"user","content":%b}],"tools":%b,"temperature":0.7,"max_output_tokens":8192},'
    b'"task_id":"task-%06d","domain":"%b","difficulty":%d,"expected":"%d","agent_ref":'
    b'{"type":"responses_api_agents","name":"%b"},"_ng_task_index":%d,"_ng_rollout_index":%d,'
    b'"output":['
)
_MIDDLE = (
    b',{"role":"assistant","content":%b}],"reward":%.2f,"success":%b,"metadata":'
    b'{"reasoning_steps":%d,"tool_calls_made":%d,"verification_score":%.2f,"attempts":1,'
    b'"started":%d.5,"seconds":%.3f,"timings":{"seed":0.01,"model":%.3f,"tools":%.3f,"verify":0.02},"spans":%b,'
    b'"usage":{%b,"cached_tokens":0,"reasoning_tokens":0}},"response":{"id":"resp_%012x",'
    b'"object":"response","created_at":%d,"status":"completed","model":"%b","tool_choice":"auto",'
    b'"temperature":0.7,"output":['
)
_TAIL = (
    b',{"type":"message","role":"assistant","content":[{"type":"output_text","text":%b,'
    b'"annotations":[]}]}],"usage":{%b,"total_tokens":%d}},"verification_score":%.2f,'
    b'"judge_model":"judge-70b","judge_text":%b,"matched":%b,"searches":%d}\n'
)
_FAILURE = (
    b'{"_ng_task_index":%d,"_ng_rollout_index":%d,"attempt":1,"final":%b,"agent_ref":'
    b'{"type":"responses_api_agents","name":"%b"},"_ng_failure_class":"%b",'
    b'"_ng_failure_terminal":false,"failure":%b,"started":%d.5,"seconds":%d.25,'
    b'"response":{"status":"incomplete","output":[%b]}}\n'
)


class Facts(NamedTuple):
    """Which rollout this is, and what follows from that."""

    place: int
    task: int
    repeat: int
    calls: int

    @property
    def domain(self) -> str:
        return of(DOMAINS, self.task)

    @property
    def agent(self) -> str:
        return of(AGENTS, self.task)

    @property
    def model(self) -> str:
        return of(MODELS, self.task)

    @property
    def difficulty(self) -> int:
        return self.task // len(DOMAINS) * 4 % 9 + 1

    @property
    def seconds(self) -> float:
        return self.calls * 1.7 + _mixed(self.task, self.repeat) % 1000 / 100

    @property
    def tokens(self) -> tuple[int, int]:
        return self.calls * 700 + self.task % 501, self.calls * 90 + self.repeat * 3

    @property
    def reward(self) -> float:
        """Some tasks always succeed, some never, most now and then; some rollouts get a part."""
        luck = _mixed(self.task, self.repeat) % 1000 / 1000
        if luck < _mixed(self.task, 99) % 120 / 100 - 0.1:
            return 1.0
        return PART if luck > 0.9 else 0.0


class Failed(NamedTuple):
    """A failed attempt; `final` where there was no other."""

    task: int
    repeat: int
    final: bool

    @property
    def kind(self) -> str:
        return of(KINDS, _mixed(self.task, self.repeat))

    @property
    def agent(self) -> str:
        return of(AGENTS, self.task)


class Rows:
    """Writes rows."""

    def __init__(self, writer: Writer) -> None:
        self._tools = tool_schemas()
        self._system = msgspec.json.encode(writer.text(900))
        self._judgments = [msgspec.json.encode(writer.text(300)) for _ in range(64)]
        self._questions = [writer.text(400) for _ in range(256)]
        self._spans = [_spans(calls) for calls in range(MOST_CALLS_WITH_SPANS + 1)]

    def rollout(self, facts: Facts, used: Sequence[Exchange], found: str) -> bytes:
        """One line. `found` are words of the answer."""
        task, calls, reward, seconds = facts.task, facts.calls, facts.reward, facts.seconds
        question = f"Task {task}: {self._questions[task % 256]} Which of the {task % 97} is it?"
        answer = f"After {calls} calls it is the {found}.\n\nAnswer: {task % 97}"
        last = msgspec.json.encode(answer)
        usage = b'"input_tokens":%d,"output_tokens":%d' % facts.tokens
        head = _HEAD % (
            *(self._system, msgspec.json.encode(question), self._tools, task),
            *(facts.domain.encode(), facts.difficulty, task % 97, facts.agent.encode()),
            *(task, facts.repeat),
        )
        spans = self._spans[min(calls, MOST_CALLS_WITH_SPANS)]
        middle = _MIDDLE % (
            *(last, reward, _flag(reward >= 1), calls + 1, calls, reward, _EPOCH + facts.place),
            *(
                seconds,
                seconds * 0.8,
                seconds * 0.15,
                spans,
                usage,
                facts.place,
                _EPOCH + facts.place,
            ),
            facts.model.encode(),
        )
        judgment = self._judgments[facts.place % len(self._judgments)]
        tail = _TAIL % (last, usage, sum(facts.tokens), reward, judgment, _flag(reward > 0), calls)
        chat = joined(exchange.chat for exchange in used)
        items = joined(exchange.items for exchange in used)
        return b"".join((head, chat, middle, items, tail))

    def failure(self, number: int, failed: Failed, used: Exchange) -> bytes:
        """One line of the failed attempts."""
        kind = failed.kind
        detail = DETAILS[KINDS.index(kind)].format(number % 250)
        failure = {"kind": kind, "detail": detail, "retryable": kind != "verifier"}
        return _FAILURE % (
            *(failed.task, failed.repeat, _flag(failed.final), failed.agent.encode()),
            *(kind.encode(), msgspec.json.encode(failure), _EPOCH + number, number % 90),
            used.items,
        )


def of(names: Sequence[str], number: int) -> str:
    return names[number % len(names)]


def _spans(calls: int) -> bytes:
    spans: list[dict[str, object]] = []
    for call in range(calls):
        start = round(call * 1.7, 3)
        spans.append({"phase": "model", "start": start, "seconds": 1.36})
        tool = TOOLS[call % len(TOOLS)]
        spans.append({"phase": "tools", "start": start + 1.4, "seconds": 0.255, "label": tool})
    return msgspec.json.encode(spans)


def _mixed(task: int, repeat: int) -> int:
    """A number that looks random, and is the same wherever it is asked for."""
    return (task * 2_654_435_761 + repeat * 40_503_001) % 1_000_003


def _flag(value: bool) -> bytes:
    return b"true" if value else b"false"
