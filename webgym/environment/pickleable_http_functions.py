"""HTTP operations on the browser server that can be sent to worker processes."""

from webgym.client.operations import (
    OperationResult,
    ServerAddress,
    SessionAddress,
    ViewportSize,
    accessibility_tree,
    allocate,
    execute,
    metadata,
    navigate,
    page_metadata,
    perform,
    release,
    screenshot,
    step,
)

__all__ = [
    "OperationResult",
    "ServerAddress",
    "SessionAddress",
    "ViewportSize",
    "accessibility_tree",
    "allocate",
    "execute",
    "metadata",
    "navigate",
    "page_metadata",
    "perform",
    "release",
    "screenshot",
    "step",
]
