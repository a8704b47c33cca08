"""The rules of an episode."""

import msgspec

from webgym.tasks import DEFAULT_MAX_STEPS, Difficulty, Split, WebTask

SITES = "{sites}"
"""Stands in rows of the bundled tasks for the address of the test sites, which may change."""


class EpisodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in seconds.

    - `max_steps`: by difficulty; what is missing has the defaults of the split.
    - `wait_timeout`: how long to wait for a browser.
    - `task_timeout`: how long an episode may take from then on, with the verdict on it;
      `operation_timeout` one step of it.
    - `instance_lifetime_max`: minutes after which the server takes the browser back.
    - `watch_for_blocking`: whether the judge looks at every new screenshot while the episode runs.
    - `sites_url`: what `{sites}` in a task's website means.
    """

    split: Split = "train"
    max_steps: dict[Difficulty, int] = {}
    wait_timeout: float = 2400.0
    task_timeout: float = 1200.0
    operation_timeout: float = 120.0
    instance_lifetime_max: float = 50.0
    watch_for_blocking: bool = False
    sites_url: str = ""

    def steps_for(self, task: WebTask) -> int:
        default = DEFAULT_MAX_STEPS[self.split][task.category]
        return self.max_steps.get(task.category, default)

    def placed(self, task: WebTask) -> WebTask:
        """The task at the address where its site is now."""
        if not self.sites_url or SITES not in task.website:
            return task
        website = task.website.replace(SITES, self.sites_url.rstrip("/"), 1)
        return msgspec.structs.replace(task, website=website)
