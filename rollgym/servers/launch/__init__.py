"""Starting, watching and finding the servers of a run."""

from rollgym.servers.launch.fleet import START_TIMEOUT, Fleet, started_in_process
from rollgym.servers.launch.head import (
    check_health,
    connected_to,
    fetch_records,
    head_listening,
)
from rollgym.servers.launch.logs import log_to
from rollgym.servers.launch.records import (
    InstanceRecord,
    NoHeadError,
    ServerLostError,
    ServerStatus,
    StartError,
)

__all__ = [
    "START_TIMEOUT",
    "Fleet",
    "InstanceRecord",
    "NoHeadError",
    "ServerLostError",
    "ServerStatus",
    "StartError",
    "check_health",
    "connected_to",
    "fetch_records",
    "head_listening",
    "log_to",
    "started_in_process",
]
