"""Choosing among metrics that differ in k only: the ones at the largest k tell most."""

import re
from collections.abc import Collection, Mapping
from typing import Any

SPREADS = ("std_dev_across_runs", "std_err_across_runs", "std_err_across_tasks")


def highest_k(
    agent_metrics: Mapping[str, Any],
    pattern: str,
    scores: Collection[str] | None = None,
    *,
    exclude: Collection[str] = (),
) -> dict[str, Any]:
    """The metrics `<pattern>/<score>` at the largest k there is, such as `pass@8/accuracy`.

    `{k}` in the pattern, such as `pass@{k}` or `pass@1[avg-of-{k}]`, stands for the number. Of all
    scores, or of those named, less the excluded ones. Standard deviations and errors are not
    chosen. Raises ValueError for a pattern without exactly one `{k}`.
    """
    before, placeholder, after = pattern.partition("{k}")
    if not placeholder or "{k}" in after:
        raise ValueError(f"the pattern {pattern!r} needs exactly one {{k}}, as in 'pass@{{k}}'")
    key_shape = re.compile(rf"{re.escape(before)}([0-9]+){re.escape(after)}/(.+)", re.DOTALL)
    by_k: dict[int, dict[str, Any]] = {}
    for key, value in agent_metrics.items():
        match = key_shape.fullmatch(key)
        if match is None or match[2] in exclude or match[2].rpartition("/")[2] in SPREADS:
            continue
        if scores is None or match[2] in scores:
            by_k.setdefault(int(match[1]), {})[key] = value
    return by_k[max(by_k)] if by_k else {}
