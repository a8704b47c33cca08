"""What a process and everything below it has cost, while it still runs (Linux).

The times of processes that have ended are in those of the parent that reaped them, so the sum over
the living ones, own and inherited times, counts each second once.
"""

import os
from pathlib import Path

import msgspec

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Costs(msgspec.Struct, frozen=True):
    """CPU seconds; bytes that the processes hold for themselves; how many there are."""

    cpu: float
    memory: int
    processes: int


def tree_costs(root: int) -> Costs:
    """Of the process `root` and its descendants."""
    cpu, memory, count = 0.0, 0, 0
    for pid in descendants(root):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
        except OSError:
            continue  # it has ended just now
        cpu += sum(map(int, fields[11:15])) / _TICKS
        memory += (int(resident) - int(shared)) * _PAGE
        count += 1
    return Costs(cpu, memory, count)


def descendants(root: int) -> list[int]:
    """The process `root` and all processes below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended just now
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def own_cpu(process: int) -> float:
    """The CPU seconds of one process, without those below it; 0 where it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / _TICKS
