"""What the viewer is asked when it is measured, by the name of the figure.

How many rollouts each of `FILTERS` has to find is counted where the rollouts are made.
"""

from urllib.parse import quote

from benchmarks.viewer_rollouts import COMMON

FILTERS = {
    "all": "",
    "success": "success=false",
    "reward": "min_reward=0.4&max_reward=0.6",
    "tool": "tool=run_python",
    "tool_calls": "min_tool_calls=12",
    "domain_difficulty_success": "domain=physics&min_difficulty=7&success=false",
    "agent": "agent=coding_agent",
    "failed": "status=failed",
    "failure_kind": "kind=tool&status=failed",
}
SORTS = {
    "reward": "sort=reward&order=desc",
    "seconds_from_the_middle": "sort=seconds&order=desc&offset={middle}",
    "tokens_of_the_unsuccessful": "success=false&sort=tokens&order=desc",
    "title": "sort=title",
    "field": "sort=field.searches&order=desc",
}
PAGES = {
    **{f"filter.{name}": FILTERS[name] for name in ("success", "tool", "failed")},
    "filter.domain_difficulty_success": FILTERS["domain_difficulty_success"],
    "sort.seconds": "sort=seconds&order=desc",
    "search.of_common_words": f"q={quote(COMMON)}",
}
OTHERS = {
    "overview": ("/overview", ""),
    "overview_of_all_by_a_filter": ("/overview", "min_steps=0"),
    "overview_filtered": ("/overview", "domain=physics&success=false"),
    "tasks_by_spread": ("/tasks", "sort=spread&order=desc&limit=50"),
    "tasks_filtered": ("/tasks", "domain=law&sort=mean&limit=50"),
    "facets": ("/facets", ""),
}
