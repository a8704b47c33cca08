"""The block of a summary with what deserves a look.

A run can be complete and still be worth little: replies that were cut, tools that were never
called, answers that the verifier could not find. Each sign is shown with its count, its share and
an example. There is no block when there is nothing to see.
"""

from collections.abc import Iterator
from typing import NamedTuple

from rollgym.metrics import Summary
from rollgym.monitor import LiveMetrics
from rollgym.records import RolloutKey
from rollgym.records.sign import MEANINGS, Sign

_WITHOUT_CALL = (Sign.NO_TOOL_CALL, Sign.SUCCESS_WITHOUT_TOOLS)


class FoundSign(NamedTuple):
    """A sign: in how many rollouts it is, how often in all, and the first of these rollouts."""

    sign: Sign
    rollouts: int
    total: int
    example: RolloutKey | None


def found_signs(metrics: LiveMetrics, summary: Summary) -> list[FoundSign]:
    """The signs of the completed rollouts.

    A success without a tool call is one only where no rollout called a tool: elsewhere a model may
    know better.
    """
    found = []
    for sign in Sign:
        measure = summary.measures.get(sign.value)
        if measure is not None and measure.count:
            total = round((measure.mean or 0.0) * measure.count)
            found.append(FoundSign(sign, measure.count, total, metrics.sign_examples.get(sign)))
    if (
        sum(each.rollouts for each in found if each.sign in _WITHOUT_CALL)
        < summary.counts.completed
    ):
        found = [each for each in found if each.sign is not Sign.SUCCESS_WITHOUT_TOOLS]
    return sorted(found, key=lambda each: -each.rollouts)


def look_data(metrics: LiveMetrics, summary: Summary) -> dict[str, dict[str, object]]:
    """The block as JSON."""
    completed = summary.counts.completed
    data: dict[str, dict[str, object]] = {}
    if _is_without_success(summary):
        data["no_success"] = {"count": completed, "share": 1.0}
    for found in found_signs(metrics, summary):
        share = round(found.rollouts / completed, 4)
        data[found.sign] = {"count": found.rollouts, "share": share, "total": found.total}
        if found.example is not None:
            data[found.sign]["example"] = {
                "task": found.example.task,
                "repeat": found.example.repeat,
            }
    return data


def look_lines(metrics: LiveMetrics, summary: Summary) -> Iterator[str]:
    """The block as text."""
    completed = summary.counts.completed
    found = found_signs(metrics, summary)
    if not found and not _is_without_success(summary):
        return
    yield f"deserves a look, of {completed} completed:"
    if _is_without_success(summary):
        highest = summary.rewards.max
        yield f"  {_part(completed, completed)}: no success; the highest reward is {highest:g}"
    for each in found:
        often = f" ({each.total} in all)" if each.total > each.rollouts else ""
        example = f"; e.g. {each.example}" if each.example is not None else ""
        meaning = MEANINGS[each.sign]
        yield f"  {_part(each.rollouts, completed)} {each.sign}: {meaning}{often}{example}"
    if found:
        choice = f'select(.metadata.signs // [] | index("{found[0].sign}"))'
        yield f"  in the viewer: filter Sign; in the file: jq -c '{choice}'"


def _is_without_success(summary: Summary) -> bool:
    counts = summary.counts
    return counts.completed > 0 and counts.successes == 0


def _part(count: int, whole: int) -> str:
    return f"{count} ({100 * count / whole:.3g} %)"
