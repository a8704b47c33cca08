"""A cluster in virtual time: real admission, retries and completion, simulated machines.

What decides is the product's own code: `rollgym.engine.collect` with its journal, the client of
model endpoints with its slots, cooldowns and retries (`EndpointPool`), and the queue for browser
sessions. What it decides about is simulated: nodes and their losses (`cluster_nodes`), an endpoint
that saturates (`saturating_model`), and attempts, which are steps of a browser and calls of the
model (`cluster_attempts`). The seed decides all of it. The clock jumps to the next timer, so hours
take a minute.

*Waste* is the time in slots that led to no completed rollout, by what ended the attempt.
"""

import resource
import sys
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.cluster_attempts import COMPLETED, Attempts
from benchmarks.cluster_nodes import Nodes
from benchmarks.cluster_settings import Cluster
from benchmarks.saturating_model import SaturatingEndpoint
from rollgym.engine import Coverage, Fixed, Policy, Stop, collect
from rollgym.records import Row, Task, derive_seed
from rollgym.store import open_run
from tests.simulation.disk import SimulatedDisk
from tests.simulation.loop import SimulatedLoop
from tests.simulation.storage import Storage

EPOCH = 1_700_000_000.0
SYNC_SECONDS = 0.01
MOST_TURNS = 1_000_000_000
HORIZON = 1e8


class Simulated(msgspec.Struct, frozen=True):
    """What came of it. `slot_seconds` are by what ended the attempts.

    The tail begins when the last rollout starts: from then on slots may be free.
    """

    coverage: Coverage
    wall: float
    tail_at: float
    busy_at_tail: float
    slots: int
    slot_seconds: dict[str, float]
    failed_attempts: dict[str, int]
    lost_nodes: int
    waited_for_sessions: float
    requests: int
    rejected_requests: int
    endpoint_busy: float
    tokens: float
    useful_tokens: float
    cpu: float
    memory: float

    @property
    def retries(self) -> int:
        return self.coverage.attempts - self.coverage.expected

    @property
    def tokens_wasted(self) -> float:
        """The share of the sampled tokens that are in no completed rollout."""
        return 1 - self.useful_tokens / self.tokens if self.tokens else 0.0

    @property
    def completed_per_hour(self) -> float:
        return self.coverage.completed / self.wall * 3600

    @property
    def busy_before_tail(self) -> float:
        """As `busy`, while there were rollouts for all slots."""
        whole = self.slots * self.tail_at
        return self.busy_at_tail / whole if whole else self.busy

    @property
    def busy(self) -> float:
        """The share of the slots' time in which they had an attempt."""
        return sum(self.slot_seconds.values()) / (self.slots * self.wall)

    @property
    def wasted(self) -> dict[str, float]:
        """The shares of the busy time that were lost, by cause."""
        whole = sum(self.slot_seconds.values())
        return {
            cause: seconds / whole
            for cause, seconds in sorted(self.slot_seconds.items())
            if cause != COMPLETED
        }


def simulate(cluster: Cluster) -> Simulated:
    """Collect all rollouts on the cluster, in virtual time. The same for the same settings."""
    loop = SimulatedLoop(MOST_TURNS, HORIZON)
    with TemporaryDirectory(prefix="rollgym-cluster-") as folder:
        return loop.run(_collect(cluster, loop, Path(folder) / "run"))


async def _collect(cluster: Cluster, loop: SimulatedLoop, directory: Path) -> Simulated:
    cpu = time.process_time()
    slots = cluster.slots or cluster.nodes * cluster.sessions
    row = Row.of({"question": "What is the answer?"})
    tasks = (Task(index, row) for index in range(cluster.rollouts))
    policy = Policy(
        concurrency=Fixed(slots),
        attempt_timeout=cluster.attempt_timeout,
        rollout_timeout=10 * cluster.attempt_timeout,
        completion_threshold=cluster.completion_threshold,
        completion_grace_period=cluster.grace_period,
    )
    model = SaturatingEndpoint(cluster.endpoint_slots, cluster.slot_tokens, cluster.endpoint_queue)
    disk = SimulatedDisk(Storage(directory), sync_seconds=SYNC_SECONDS)
    worker = Attempts(cluster, loop, model)
    with open_run(directory, tasks, seed=cluster.seed, disk=disk) as store:
        _schedule_losses(cluster, loop, worker.nodes)
        coverage = await collect(
            store.inputs, worker, store, policy, stop=Stop(), wall_clock=lambda: EPOCH + loop.time()
        )
    wall = worker.last_end
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return Simulated(
        coverage=coverage,
        wall=wall,
        tail_at=worker.tail_at,
        busy_at_tail=worker.busy_at_tail,
        slots=slots,
        slot_seconds=dict(worker.slot_seconds),
        failed_attempts=dict(worker.failed),
        lost_nodes=worker.nodes.lost,
        waited_for_sessions=worker.waited,
        requests=model.requests,
        rejected_requests=model.rejected,
        endpoint_busy=model.seconds / (model.slots * wall),
        tokens=model.tokens,
        useful_tokens=worker.useful_tokens,
        cpu=time.process_time() - cpu,
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit,
    )


def _schedule_losses(cluster: Cluster, loop: SimulatedLoop, nodes: Nodes) -> None:
    random = Random(derive_seed(cluster.seed, "losses"))

    def lose(number: int) -> None:
        nodes.lose(number, cluster.notice_seconds, cluster.repair_seconds)

    def lose_some() -> None:
        lose(random.randrange(cluster.nodes))
        loop.call_later(random.expovariate(cluster.losses_per_hour / 3600), lose_some)

    for at, number in cluster.losses:
        loop.call_at(at, lose, number)
    if cluster.losses_per_hour:
        loop.call_later(random.expovariate(cluster.losses_per_hour / 3600), lose_some)
