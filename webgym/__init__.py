"""Web agents: rollouts in real browsers, built on rollgym.

These names are the public interface; the packages behind them may change. `webgym.environment` has
the modules that users of AsyncWebGym know.

- *Rollouts*: `AsyncWebGym` runs sampled tasks with a `WebAgent`, whose `Evaluator` scores them; a
  `TaskMonitor` shows the progress.
- *Trajectories*: `read_torch_file` reads a `.pt` file, `from_plain` and `to_plain` convert a
  `Trajectory`, and `calculate_rollout_metrics` computes its metrics.
- *Browsers*: `BrowserClient` (or `SyncBrowserClient` in a notebook) acquires sessions of the
  browser server; a step takes a command such as `ClickId` and an `Observe`.
- *Actions*: `read_action` reads the tool call of a model, `tool_schema` describes the tool.
- *Tasks*: the bundled sites and MiniWoB++ are served with `serve_sites` and `serve_miniwob`.

A name is imported when it is first used, so that `import webgym` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webgym.actions.space import Action, ActionError, Viewport
    from webgym.actions.tool_calls import call_schema, read_action, tool_schema
    from webgym.browser.contract.answers import Observe
    from webgym.browser.contract.commands import (
        Back,
        ClickCoords,
        ClickId,
        FillCoords,
        FillId,
        Keypress,
        PageDown,
        PageUp,
        SelectOption,
        Sleep,
        VisitPage,
    )
    from webgym.browser.contract.profile import SessionProfile
    from webgym.client.client import BrowserClient, BrowserSession
    from webgym.client.isolation import IsolatedBrowserClient
    from webgym.client.sync_client import SyncBrowserClient
    from webgym.miniwob.application import serving as serve_miniwob
    from webgym.miniwob.rows import load_tasks as load_miniwob_tasks
    from webgym.miniwob.rows import read_instructions
    from webgym.models.evaluator import Evaluator
    from webgym.models.web_agent import WebAgent
    from webgym.monitor.task_monitor import TaskMonitor
    from webgym.rollout.gym import AsyncWebGym
    from webgym.served import new_session_name as new_site_session
    from webgym.sites.application import serving as serve_sites
    from webgym.sites.tasks.task import load_tasks as load_site_tasks
    from webgym.sites.tasks.task import start_url as site_start_url
    from webgym.sites.tasks.task import verify as verify_site_task
    from webgym.tasks.task import WebTask
    from webgym.trajectory.metrics import calculate_rollout_metrics
    from webgym.trajectory.plain import from_plain, to_plain
    from webgym.trajectory.records import Trajectory
    from webgym.trajectory.torch_file import read_torch_file
    from webgym.utils.blocklist import Blocklist

_MODULES = {
    "webgym.actions.space": "Action ActionError Viewport",
    "webgym.actions.tool_calls": "call_schema read_action tool_schema",
    "webgym.browser.contract.answers": "Observe",
    "webgym.browser.contract.commands": (
        "Back ClickCoords ClickId FillCoords FillId Keypress PageDown PageUp SelectOption Sleep "
        "VisitPage"
    ),
    "webgym.browser.contract.profile": "SessionProfile",
    "webgym.client.client": "BrowserClient BrowserSession",
    "webgym.client.isolation": "IsolatedBrowserClient",
    "webgym.client.sync_client": "SyncBrowserClient",
    "webgym.miniwob.application": "serve_miniwob=serving",
    "webgym.miniwob.rows": "load_miniwob_tasks=load_tasks read_instructions",
    "webgym.models.evaluator": "Evaluator",
    "webgym.models.web_agent": "WebAgent",
    "webgym.monitor.task_monitor": "TaskMonitor",
    "webgym.rollout.gym": "AsyncWebGym",
    "webgym.sites.application": "serve_sites=serving",
    "webgym.served": "new_site_session=new_session_name",
    "webgym.sites.tasks.task": (
        "load_site_tasks=load_tasks site_start_url=start_url verify_site_task=verify"
    ),
    "webgym.tasks.task": "WebTask",
    "webgym.trajectory.metrics": "calculate_rollout_metrics",
    "webgym.trajectory.plain": "from_plain to_plain",
    "webgym.trajectory.records": "Trajectory",
    "webgym.trajectory.torch_file": "read_torch_file",
    "webgym.utils.blocklist": "Blocklist",
}
"""The public names of each module; `name=original` where the module has another name."""
_ORIGIN = {
    public: (module, original or public)
    for module, names in _MODULES.items()
    for public, _, original in (name.partition("=") for name in names.split())
}

__all__ = [
    "Action",
    "ActionError",
    "AsyncWebGym",
    "Back",
    "Blocklist",
    "BrowserClient",
    "BrowserSession",
    "ClickCoords",
    "ClickId",
    "Evaluator",
    "FillCoords",
    "FillId",
    "IsolatedBrowserClient",
    "Keypress",
    "Observe",
    "PageDown",
    "PageUp",
    "SelectOption",
    "SessionProfile",
    "Sleep",
    "SyncBrowserClient",
    "TaskMonitor",
    "Trajectory",
    "Viewport",
    "VisitPage",
    "WebAgent",
    "WebTask",
    "calculate_rollout_metrics",
    "call_schema",
    "from_plain",
    "load_miniwob_tasks",
    "load_site_tasks",
    "new_site_session",
    "read_action",
    "read_instructions",
    "read_torch_file",
    "serve_miniwob",
    "serve_sites",
    "site_start_url",
    "to_plain",
    "tool_schema",
    "verify_site_task",
]


def __getattr__(name: str) -> Any:
    if name not in _ORIGIN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, original = _ORIGIN[name]
    value = globals()[name] = getattr(import_module(module), original)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
