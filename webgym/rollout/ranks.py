"""The ranks that share an iteration: their numbers, weights, resources and files.

*Numbers.* Ranks are started by the user, and do not communicate while they run. A rank gets its
number and the number of ranks from the settings, or from `RANK` and `WORLD_SIZE`, or from SLURM's
`SLURM_PROCID` and `SLURM_NTASKS`, in this order.

*Weights* decide which tasks a rank has, and its share of every resource. They are the same on all
ranks. `rank_weights` names all of them. With `rank_load_weight` alone, each rank announces its own
weight in a file of the iteration and waits for the others. A rank that does not come in time counts
with the weight that is left for it by `total_load_weight`, or with 1. The first rank that draws the
sample stores the weights there, and they stay.

*Suffixes.* The files of a rank end with `_rank_N`, or with the suffix that the user gives, which
the rank announces too, so that rank 0 finds them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat

import msgspec

from rollgym.records.decoding import JsonDecoder
from rollgym.store import IdentityError, RefusedError, write_derived
from rollgym.store.errors import storage_error
from webgym.rollout.environment_settings import EnvironmentSettings, HttpPools
from webgym.rollout.iteration import IterationPaths, rank_suffix
from webgym.utils.rollout_sampler import divide

_VARIABLES = ("RANK", "WORLD_SIZE")
_SLURM_VARIABLES = ("SLURM_PROCID", "SLURM_NTASKS")
_SETTINGS = ("multinode_rank", "multinode_total_workers")
POLL_SECONDS = 0.2

ReportLine = Callable[[str], object]


class RankError(RefusedError):
    """The settings of ranks are invalid or contradict each other."""


class Rank(msgspec.Struct, frozen=True):
    """One of `count` ranks, counted from 0. `weights` are the weights of all ranks.

    `is_known` is False while only the rank's own weight is known. `own_suffix` is the suffix that
    the user gave.
    """

    index: int = 0
    count: int = 1
    weights: tuple[float, ...] = (1.0,)
    is_known: bool = True
    own_suffix: str | None = None

    @property
    def suffix(self) -> str:
        """The suffix of its file names."""
        return self.own_suffix or rank_suffix(self.index, self.count)

    @property
    def is_master(self) -> bool:
        """Whether this is the rank that aggregates the files of all."""
        return self.index == 0

    def sessions(self, server_size: int) -> int:
        """The number of browser sessions of this rank.

        Raises RankError where a rank would have tasks and no browser session.
        """
        parts = divide(server_size, self.weights)
        for index, (part, weight) in enumerate(zip(parts, self.weights, strict=True)):
            if weight and not part:
                raise RankError(
                    f"server_size={server_size} divided by the weights {_joined(self.weights)} "
                    f"leaves rank {index} without a browser: raise server_size, or use fewer ranks"
                )
        return parts[self.index]

    def share(self, total: int) -> int:
        """The part of this rank in a limit of all ranks together; at least 1."""
        return max(1, divide(total, self.weights)[self.index])

    def resources(self, settings: EnvironmentSettings) -> EnvironmentSettings:
        """The settings with this rank's part of every limit but the browsers."""
        pools = {name: self.share(size) for name, size in settings.http_pools.plain.items()}
        tokens, cost = settings.max_tokens, settings.max_cost
        part = self.weights[self.index] / (sum(self.weights) or 1.0)
        return settings.model_copy(
            update={
                "http_pools": HttpPools(**pools),
                "max_vllm_sessions": self.share(settings.max_vllm_sessions),
                "evaluation_workers": self.share(settings.evaluation_workers),
                "max_tokens": tokens and self.share(tokens),
                "max_cost": cost and (cost * part or cost),
            }
        )

    def with_weights(self, weights: Sequence[float]) -> "Rank":
        """The rank with the weights of all. Raises IdentityError where its own differs."""
        own = self.weights[self.index]
        if len(weights) == self.count and weights[self.index] != own and not self.is_known:
            raise IdentityError(
                f"rank_load_weight={own:g}: the iteration was divided with the weights "
                f"{_joined(weights)}, where rank {self.index} has {weights[self.index]:g}. Start "
                "another iteration, with all ranks at the same time or with rank_weights"
            )
        return msgspec.structs.replace(self, weights=tuple(weights), is_known=True)


def find_rank(settings: EnvironmentSettings, environment: Mapping[str, str]) -> Rank:
    """The rank of this process, by its settings and environment variables. Raises RankError."""
    index, count = _number_and_count(settings, environment)
    if count < 1 or not 0 <= index < count:
        raise RankError(
            f"rank {index} of {count} does not exist: give a rank from 0 to {max(count, 1) - 1}, "
            "or correct the number of ranks"
        )
    given = _weights(settings.rank_weights, count)
    _check_own_weight(settings, index, given)
    return Rank(
        index,
        count,
        given or _weights_beside(settings, index, count),
        is_known=given is not None or count == 1 or settings.rank_load_weight is None,
        own_suffix=settings.multinode_rank_suffix or None,
    )


class RankAnnouncement(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank says of itself to the others. `weight` is None where all weights are known."""

    rank: int
    world_size: int
    suffix: str
    weight: float | None = None


_ANNOUNCEMENT = JsonDecoder(RankAnnouncement)


def announce(paths: IterationPaths, rank: Rank) -> None:
    """Write the announcement of a rank, if the others need one.

    Raises RankError where another rank has the same suffix, StorageError.
    """
    if rank.is_known and not rank.own_suffix:
        return
    for other in range(rank.count):
        known = read_announcement(paths, other)
        if known is not None and other != rank.index and known.suffix == rank.suffix:
            raise RankError(
                f"multinode_rank_suffix={rank.suffix!r} is that of rank {other} already: give each "
                "rank its own suffix, or none"
            )
    announcement = RankAnnouncement(
        rank=rank.index,
        world_size=rank.count,
        suffix=rank.suffix,
        weight=None if rank.is_known else rank.weights[rank.index],
    )
    line = msgspec.json.encode(announcement) + b"\n"
    write_derived(paths.announcement(rank.index), (line,))


def read_announcement(paths: IterationPaths, rank: int) -> RankAnnouncement | None:
    """The announcement of a rank; None where there is none. Raises RankError, StorageError."""
    path = paths.announcement(rank)
    try:
        return _ANNOUNCEMENT.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path, "reading the announcement of a rank") from error
    except ValueError as error:
        raise RankError(
            f"{path} is not the announcement of a rank ({error}): remove it and start rank {rank} "
            "again"
        ) from error


def paths_of_rank(paths: IterationPaths, rank: int, count: int) -> IterationPaths:
    """The paths of one of `count` ranks. Raises RankError, StorageError."""
    found = read_announcement(paths, rank)
    return paths.with_suffix(found.suffix if found else rank_suffix(rank, count))


def meet(
    paths: IterationPaths,
    rank: Rank,
    *,
    timeout: float,
    report: ReportLine = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Rank:
    """The rank with the weights that all ranks announce within `timeout` seconds.

    Call `announce` first. Raises RankError, StorageError.
    """
    deadline, reported = clock() + timeout, False
    while not rank.is_known:
        found = {index: read_announcement(paths, index) for index in range(rank.count)}
        late = [index for index, each in found.items() if each is None or each.weight is None]
        left = deadline - clock()
        if late and left > 0:
            if not reported:
                report(f"waiting up to {left:.0f} s for the weights of {_named(late)}")
                reported = True
            sleep(min(POLL_SECONDS, left))
            continue
        announced = {i: each.weight for i, each in found.items() if each and each.weight}
        weights = tuple(announced.get(i, weight) for i, weight in enumerate(rank.weights))
        if late:
            report(
                f"note: {_named(late)} announced no rank_load_weight: the weights are "
                f"{_joined(weights)}"
            )
        return rank.with_weights(weights)
    return rank


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _weights_beside(settings: EnvironmentSettings, index: int, count: int) -> tuple[float, ...]:
    """All weights where only the rank's own may be known: the others share the rest."""
    own, total = settings.rank_load_weight, settings.total_load_weight
    if own is None:
        return tuple(repeat(1.0, count))
    if total is not None and total < own:
        raise RankError(f"total_load_weight={total:g} is less than rank_load_weight={own:g}")
    other = (total - own) / (count - 1) if total is not None and count > 1 else 1.0
    return tuple(own if each == index else other for each in range(count))


def _number_and_count(
    settings: EnvironmentSettings, environment: Mapping[str, str]
) -> tuple[int, int]:
    return (
        _both(_SETTINGS, (settings.multinode_rank, settings.multinode_total_workers))
        or _both(_VARIABLES, tuple(_whole_number(environment, name) for name in _VARIABLES))
        or _from_slurm(environment)
        or (0, 1)
    )


def _from_slurm(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """`srun` makes the ranks: the script of a job has both variables too, and no step."""
    if environment.get("SLURM_JOB_ID") and not environment.get("SLURM_STEP_ID"):
        return None
    if not all(environment.get(name) for name in _SLURM_VARIABLES):
        return None
    index, count = (_whole_number(environment, name) for name in _SLURM_VARIABLES)
    return (index, count) if index is not None and count is not None else None


def _whole_number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise RankError(f"the variable {name} is {text!r}: give a whole number")
    return int(text)


def _both(names: tuple[str, str], values: tuple[int | None, ...]) -> tuple[int, int] | None:
    """The rank and the number of ranks; None if neither is set. Raises RankError if one is."""
    match values:
        case (int() as index, int() as count):
            return index, count
        case (None, None):
            return None
    given, missing = names if values[1] is None else reversed(names)
    raise RankError(
        f"{given} is set and {missing} is not: a rank needs its number and the number of ranks; "
        f"set {missing} too, or neither"
    )


def _weights(written: str | None, count: int) -> tuple[float, ...] | None:
    if written is None:
        return None
    weights = tuple(map(float, written.split(",")))
    if not any(weights):
        raise RankError(f"rank_weights={written}: at least one weight must be above 0")
    if len(weights) != count:
        raise RankError(
            f"rank_weights={_joined(weights)} has {len(weights)} weight(s) for {count} rank(s): "
            "give one weight for each rank"
        )
    return weights


def _check_own_weight(
    settings: EnvironmentSettings, index: int, weights: tuple[float, ...] | None
) -> None:
    """Check the weight of this rank alone against the weights of all, where those are given."""
    own, total = settings.rank_load_weight, settings.total_load_weight
    if weights is None:
        return
    if own is not None and own != weights[index]:
        raise RankError(
            f"rank_load_weight={own:g} contradicts rank_weights={_joined(weights)}, where rank "
            f"{index} has {weights[index]:g}: remove rank_load_weight"
        )
    if total is not None and total != sum(weights):
        raise RankError(
            f"total_load_weight={total:g} contradicts rank_weights={_joined(weights)}, whose sum "
            f"is {sum(weights):g}: remove total_load_weight"
        )


def _joined(weights: Sequence[float]) -> str:
    return ",".join(f"{weight:g}" for weight in weights)
