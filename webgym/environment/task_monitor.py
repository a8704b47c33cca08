"""`TaskMonitor`: the state of every rollout of a run, on a terminal and as JSON."""

from webgym.monitor.snapshot import MonitorSnapshot, TaskState
from webgym.monitor.task_monitor import TaskMonitor

__all__ = ["MonitorSnapshot", "TaskMonitor", "TaskState"]
