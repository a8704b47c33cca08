"""A run of many rollouts in every state, as a monitor would tell it."""

from random import Random

from webgym.monitor.snapshot import OVERDUE_MARK, PHASES, LiveTask, MonitorSnapshot, TaskState

TITLE = "train iteration 5"
SHARES = {
    TaskState.SUCCESS: 0.34,
    TaskState.FAILURE: 0.22,
    TaskState.BLOCKED: 0.04,
    TaskState.FAILED: 0.03,
    TaskState.OMITTED: 0.01,
    TaskState.RUNNING: 0.06,
    TaskState.WAITING: 0.01,
}


def crowd(expected: int = 1000, *, finished: bool = False) -> MonitorSnapshot:
    """The states of the first rollouts are mixed; the rest has not started."""
    random = Random(expected)
    states = [state for state, share in SHARES.items() for _ in range(int(share * expected))]
    random.shuffle(states)
    states += [TaskState.NOT_STARTED] * (expected - len(states))
    marks = [state.mark for state in states]
    live: list[LiveTask] = []
    for cell, state in enumerate(states):
        if state not in (TaskState.RUNNING, TaskState.WAITING):
            continue
        overdue = state is TaskState.RUNNING and len(live) == 7
        if overdue:
            marks[cell] = OVERDUE_MARK
        live.append(
            LiveTask(
                cell=cell,
                task=cell,
                repeat=cell % 3,
                state=state,
                phase=random.choice(PHASES) if state is TaskState.RUNNING else "browser",
                step=random.randrange(1, 31) if state is TaskState.RUNNING else 0,
                attempt=1 + (cell % 5 == 0),
                seconds=random.uniform(1, 700),
                phase_seconds=random.uniform(0, 40),
                overdue=overdue,
                label=f"shop.test: Find the cheapest of {cell} teas [bold]and[/bold] 茶 buy it",
            )
        )
    live.sort(
        key=lambda task: (not task.overdue, task.state is not TaskState.RUNNING, -task.seconds)
    )
    running = [task for task in live if task.state is TaskState.RUNNING]
    return MonitorSnapshot(
        title=TITLE,
        time=1_700_000_000.0,
        elapsed=723.0,
        finished=finished,
        expected=expected,
        resumed=expected // 10,
        counts={state: states.count(state) for state in TaskState},
        phases={phase: sum(task.phase == phase for task in running) for phase in PHASES},
        failures={"browser": 31, "timeout": 12, "model_unavailable": 9},
        retried=27,
        timeouts=12,
        overdue=1,
        in_flight_limit=64,
        steps=9_000,
        rollouts_per_minute=51.3,
        remaining_seconds=420.0,
        stopping="asked to stop",
        cells="".join(marks),
        live=tuple(live),
    )
