"""The summary of a run: its numbers, its failures, its coverage, and what to do next.

The last lines are always the coverage and what it means, because a terminal shows the end.
"""

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from rollgym.cli.look import look_data, look_lines
from rollgym.cli.options import OptionNames
from rollgym.engine import Coverage, ExitStatus
from rollgym.metrics import Summary
from rollgym.monitor import FailureExample, LiveMetrics, printable_line
from rollgym.records import DOLLAR, NO_USAGE, TRAITS, FailureKind
from rollgym.store import OpenAdvice

DIGITS = 4
MOST_VERSIONS = 8
FEWEST_SECONDS = 10
"""Seconds are counted as integers, so over fewer of them a rate is not exact enough."""
_MEASURES = ("tool_calls", "response_length")
_Name = TypeVar("_Name", bound=StrEnum)


def summary_lines(metrics: LiveMetrics) -> Iterator[str]:
    """The block of JSON, then what deserves a look, failures, omissions, tokens and throughput."""
    summary = metrics.summary()
    look = {name: each["count"] for name, each in look_data(metrics, summary).items()}
    yield json.dumps(headline(summary) | ({"deserves_a_look": look} if look else {}), indent=4)
    yield from look_lines(metrics, summary)
    yield from _failure_lines(summary, metrics.examples)
    if summary.failed_attempts_by_kind:
        kinds = _counted(summary.failed_attempts_by_kind)
        yield f"failed attempts: {kinds}; {metrics.retried} retried"
        for kind, example in sorted(metrics.retried_examples.items()):
            if kind not in summary.failures_by_kind:
                yield f"  e.g. {kind} at {example}"
    if summary.omitted_by_reason:
        yield f"omitted: {_counted(summary.omitted_by_reason)}"
    yield from token_lines(summary)
    yield from version_lines(summary)
    rate, seconds = summary.throughput.outcomes_per_second, summary.throughput.active_seconds
    if rate is not None and seconds >= FEWEST_SECONDS:
        yield f"throughput: {rate:.1f} outcomes/s over {seconds} active seconds"


def token_lines(summary: Summary) -> Iterator[str]:
    """The tokens of all attempts, where the model counts them, and the calls of each model."""
    if summary.usage != NO_USAGE:
        lost = summary.unscored_usage
        wasted = f"; without a reward: {lost}" if lost != NO_USAGE else ""
        yield f"tokens of all attempts: {summary.usage}{wasted}"
    for model in summary.models:
        yield f"  {printable_line(model.name)}: {model.describe()}"


def version_lines(summary: Summary) -> Iterator[str]:
    """The policy versions and how stale the rollouts are, where versions are known."""
    known = summary.policy_versions
    if known is None:
        return
    latest = known.versions[-MOST_VERSIONS:]
    left_out = len(known.versions) - len(latest)
    counted = ", ".join(f"{printable_line(each.version)}: {each.turns:,}" for each in latest)
    yield (
        f"turns by policy version ({format_count(len(known.versions), 'version')}): "
        + (f"{left_out} earlier, " if left_out else "")
        + counted
        + (f"; unknown: {known.unknown_turns:,}" if known.unknown_turns else "")
    )
    rollouts = sum(known.staleness.values())
    stale = [f"{behind}: {count:,}" for behind, count in known.staleness.items()]
    if len(stale) > MOST_VERSIONS:
        more = rollouts - sum([*known.staleness.values()][:MOST_VERSIONS])
        stale = [*stale[:MOST_VERSIONS], f"more: {more:,}"]
    yield (
        f"rollouts by versions behind {printable_line(known.newest)}: {', '.join(stale) or 'none'}"
        f"; with several versions: {known.rollouts_of_several:,}"
        + (f"; unknown: {known.unknown_rollouts:,}" if known.unknown_rollouts else "")
    )


def headline(summary: Summary) -> dict[str, Any]:
    """The few numbers people look at first, by the names they know."""
    numbers: dict[str, Any] = {
        "avg_reward": _rounded(summary.avg_reward),
        "success_rate": _rounded(summary.success_rate),
    }
    for name in _MEASURES:
        measure = summary.measures.get(name)
        numbers[f"avg_{name}"] = _rounded(measure.mean) if measure else None
    numbers |= _of_replies(summary)
    most = max(summary.pass_at_k, default=1)
    if most > 1:
        for k, estimate in summary.pass_at_k.items():
            numbers[f"pass@{k}"] = _rounded(estimate)
        numbers[f"mean@{most}"] = _rounded(summary.mean_at_k[most])
    costs = [model.cost for model in summary.models if model.cost is not None]
    if costs:
        numbers["cost_usd"] = _rounded(sum(costs) / DOLLAR)
    return numbers


def _of_replies(summary: Summary) -> dict[str, Any]:
    """Of web rollouts: the share of replies that are actions, and the tokens of a step."""
    means = {name: each.mean or 0.0 for name, each in summary.measures.items()}
    if not means.get("replies") or "unparsed" not in means:
        return {}
    return {
        "parse_rate": _rounded(1 - means["unparsed"] / means["replies"]),
        "tokens_per_step": _rounded(means.get("tokens", 0.0) / means["replies"]),
    }


class ResumeOptions(NamedTuple):
    """How the options of a command are written that choose the run and what to run again."""

    output: str
    new_run: str
    retry_failed: str
    retry_omitted: str
    shard: str

    @classmethod
    def of(cls, names: OptionNames) -> "ResumeOptions":
        """Those of a command that collects, as its user writes them."""
        if not names.flags:
            return OVERRIDES
        return cls("--output", "--no-resume", "--retry-failed", "--retry-omitted", "--shard I/N")

    @property
    def advice(self) -> OpenAdvice:
        """What the command's user can do when the run is not opened."""
        return OpenAdvice(
            another_run=f"choose another {self.output}, or start a new run in its place with "
            f"{self.new_run} (the old run is kept beside it)",
            sharing=f"Several processes can share a run when each collects a shard ({self.shard}).",
        )


OVERRIDES = ResumeOptions(
    "+output_jsonl_fpath",
    "+resume=false",
    "+retry_failed=true",
    "+retry_omitted=true",
    "+shard=I/N",
)
"""Those of `ng_collect_rollouts` and `rollgym reverify`."""
COLLECTING = ResumeOptions(
    "output",
    "resume: false",
    "retry_failed: true",
    "retry_omitted: true",
    "shard: I/N",
)
"""The same for a message of another command: the collecting command has these settings."""
PYTHON = ResumeOptions(
    "directory",
    "force_new_run=True",
    "reopen=[Status.FAILED]",
    "reopen=[Status.OMITTED]",
    "shard=Shard(i, n)",
)
"""Those of `open_run`."""


def explain_coverage(
    coverage: Coverage, options: ResumeOptions, successes: int | None = None
) -> tuple[str, str]:
    """What the coverage means, and what to do next. `successes` are None where they are unknown."""
    failed, omitted = coverage.failed, coverage.omitted
    match coverage.exit_status:
        case ExitStatus.COMPLETE if coverage.completed and successes == 0:
            return (
                "every rollout is completed, but none is a success",
                f"Look at some rollouts before you use them. `{options.new_run}` starts over.",
            )
        case ExitStatus.COMPLETE:
            return "every rollout is completed", f"Done. `{options.new_run}` starts over."
        case ExitStatus.FAILED if not coverage.completed:
            return (
                "no rollout is completed: there is no reward at all",
                f"`{options.retry_failed}` runs {_them(failed)} again, once the cause is removed.",
            )
        case ExitStatus.FAILED:
            return (
                f"{format_count(failed, 'rollout')} failed and {_have(failed)} no reward",
                f"`{options.retry_failed}` runs {_them(failed)} again.",
            )
        case ExitStatus.OMITTED:
            return (
                f"{format_count(omitted, 'rollout')} {_were(omitted)} omitted on purpose",
                f"`{options.retry_omitted}` runs {_them(omitted)}.",
            )
        case _:
            return _explain_unresolved(coverage, options)


def _explain_unresolved(coverage: Coverage, options: ResumeOptions) -> tuple[str, str]:
    left = format_count(coverage.unresolved, "rollout")
    if coverage.stopped:
        again = f"With `{options.retry_failed}`, the failed rollouts run again too."
        return (
            f"stopped with {left} left: {coverage.stopped}",
            f"Then run the same command again to continue. {again}",
        )
    return (
        f"{left} {_have(coverage.unresolved)} no outcome yet",
        "Run the same command again to continue. Finished rollouts do not run twice.",
    )


def _failure_lines(
    summary: Summary, examples: Mapping[FailureKind, FailureExample]
) -> Iterator[str]:
    failures = sorted(summary.failures_by_kind.items(), key=lambda item: -item[1])
    if failures:
        yield "failed rollouts by kind:"
    for kind, count in failures:
        share = 100 * count / (summary.counts.completed + summary.counts.failed)
        yield f"  {count} x {kind} ({share:.3g} %): {TRAITS[kind].meaning}"
        if kind in examples:
            yield f"    e.g. {examples[kind]}"


def _counted(counts: Mapping[_Name, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in counts.items())


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)


def format_count(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"
