"""Rollout collection for language-model agents.

These names are the public interface; the packages behind them may change.

- *Collecting*: `open_run` makes or continues a run of `Task`s, `collect` runs a worker over it with
  a `Policy`, and `run` runs the event loop. A worker returns `Completed`, `Failed` or `Omitted`, or
  raises a `RolloutError`. A `Control` changes a collection while it runs.
- *Environments*: a `ResourcesServer` has `@tool` methods and a `verify` method that returns a
  `Verdict`; `connect` calls a server in a test.
- *Agents and models*: an `AgentServer` works through an `Episode`; a `ModelServer` answers
  requests.
- *Exact tokens*: `read_branches` reads what a trainer needs of completed rollouts;
  `agent_loop_output` and `trl_rollouts` give it in the form of verl and of TRL.
- *Settings* of servers are subclasses of `ServerConfig`; `Setting` marks those that do not belong
  to the identity of a run, and `NoEffect` those that are only known from other programs.

A name is imported when it is first used, so that `import rollgym` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollgym.engine import (
        Adaptive,
        Backoff,
        Control,
        Coverage,
        ExitStatus,
        Fixed,
        Policy,
        RetryPolicy,
        RetryRule,
        Worker,
        WorkItem,
        collect,
        run,
    )
    from rollgym.export.branches import (
        RolloutBranch,
        agent_loop_output,
        read_branches,
        trl_rollouts,
    )
    from rollgym.metrics.aggregate import accuracy, pass_majority_metrics
    from rollgym.pool import (
        DeliveredGroup,
        OnPolicyChange,
        PoolSettings,
        RolloutPool,
        serve_rollouts,
    )
    from rollgym.records import (
        Completed,
        Failed,
        FailureKind,
        ModelRateLimitError,
        OmitReason,
        Omitted,
        Outcome,
        RolloutError,
        RolloutKey,
        Row,
        Task,
        TaskError,
        ToolError,
        VerifierError,
        boundary,
    )
    from rollgym.servers import (
        AgentConfig,
        AgentServer,
        CookieJar,
        Episode,
        ModelServer,
        NoEffect,
        ResourcesConfig,
        ResourcesServer,
        Response,
        ServerConfig,
        ServerDirectory,
        TaskRow,
        ToolImage,
        ToolRejection,
        Verdict,
        connect,
        tool,
        tool_schemas,
    )
    from rollgym.servers.isolation import IsolatedWorkers
    from rollgym.store import (
        EVERY_RECORD,
        RefusedError,
        Setting,
        Shard,
        Status,
        StorageError,
        SyncPolicy,
        open_run,
        read_rows,
    )

__version__ = "0.1.0"

_PACKAGES = (
    *("rollgym.records", "rollgym.store", "rollgym.engine", "rollgym.metrics.aggregate"),
    *("rollgym.servers", "rollgym.servers.isolation", "rollgym.export.branches", "rollgym.pool"),
)
"""The packages that export these names; each imports those before it anyway."""

__all__ = [
    "EVERY_RECORD",
    "Adaptive",
    "AgentConfig",
    "AgentServer",
    "Backoff",
    "Completed",
    "Control",
    "CookieJar",
    "Coverage",
    "DeliveredGroup",
    "Episode",
    "ExitStatus",
    "Failed",
    "FailureKind",
    "Fixed",
    "IsolatedWorkers",
    "ModelRateLimitError",
    "ModelServer",
    "NoEffect",
    "OmitReason",
    "Omitted",
    "OnPolicyChange",
    "Outcome",
    "Policy",
    "PoolSettings",
    "RefusedError",
    "ResourcesConfig",
    "ResourcesServer",
    "Response",
    "RetryPolicy",
    "RetryRule",
    "RolloutBranch",
    "RolloutError",
    "RolloutKey",
    "RolloutPool",
    "Row",
    "ServerConfig",
    "ServerDirectory",
    "Setting",
    "Shard",
    "Status",
    "StorageError",
    "SyncPolicy",
    "Task",
    "TaskError",
    "TaskRow",
    "ToolError",
    "ToolImage",
    "ToolRejection",
    "Verdict",
    "VerifierError",
    "WorkItem",
    "Worker",
    "accuracy",
    "agent_loop_output",
    "boundary",
    "collect",
    "connect",
    "open_run",
    "pass_majority_metrics",
    "read_branches",
    "read_rows",
    "run",
    "serve_rollouts",
    "tool",
    "tool_schemas",
    "trl_rollouts",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        for package in map(import_module, _PACKAGES):
            if name in package.__all__:
                value = globals()[name] = getattr(package, name)
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
