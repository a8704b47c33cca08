"""Starting, watching and finding the servers of a run."""

from rollgym.servers.launch.errors import NoHeadError, ServerLostError, StartError
from rollgym.servers.launch.fleet import START_TIMEOUT, Fleet, started_in_process
from rollgym.servers.launch.head import head_listening
from rollgym.servers.launch.instance_record import InstanceRecord, Status
from rollgym.servers.launch.logs import log_to
from rollgym.servers.launch.remote import (
    RemoteServers,
    check_health,
    connected_to,
    fetch_records,
)
from rollgym.servers.launch.stopping import done_before, stopping_on_signals

__all__ = [
    "START_TIMEOUT",
    "Fleet",
    "InstanceRecord",
    "NoHeadError",
    "RemoteServers",
    "ServerLostError",
    "StartError",
    "Status",
    "check_health",
    "connected_to",
    "done_before",
    "fetch_records",
    "head_listening",
    "log_to",
    "started_in_process",
    "stopping_on_signals",
]
