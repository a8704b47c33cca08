"""The calls of each model over all attempts, summed exactly."""

from collections.abc import Iterable

from rollgym.metrics.distribution import NAME_LIMIT
from rollgym.metrics.exact import ExactSum, rounded
from rollgym.records import NO_USAGE, ModelRole, ModelUse

_Key = tuple[str, ModelRole]


class _Totals:
    """The sums of one model."""

    __slots__ = ("calls", "cost", "first_token", "queued", "seconds", "timed", "usage")

    def __init__(self) -> None:
        self.calls = 0
        self.timed = 0
        self.usage = NO_USAGE
        self.cost: int | None = None
        self.seconds = ExactSum()
        self.queued = ExactSum()
        self.first_token = ExactSum()

    def add(self, use: ModelUse) -> None:
        self.calls += use.calls
        self.timed += use.timed
        self.usage += use.usage
        if use.cost is not None:
            self.cost = (self.cost or 0) + use.cost
        self.seconds.add(use.seconds)
        if use.queued:
            self.queued.add(use.queued)
        if use.first_token:
            self.first_token.add(use.first_token)


class ModelTotals:
    """Sums for each of the models whose names come first in the alphabet, as in `ByName`."""

    __slots__ = ("_by_model",)

    def __init__(self) -> None:
        self._by_model: dict[_Key, _Totals] = {}

    def add(self, uses: Iterable[ModelUse]) -> None:
        for use in uses:
            key = (use.model, use.role)
            totals = self._by_model.get(key)
            if totals is None:
                totals = self._by_model[key] = _Totals()
                if len(self._by_model) > NAME_LIMIT:
                    del self._by_model[max(self._by_model)]
            totals.add(use)

    def summary(self) -> tuple[ModelUse, ...]:
        """The models in the order of their names."""
        return tuple(
            ModelUse(
                model=model,
                role=role,
                calls=totals.calls,
                usage=totals.usage,
                seconds=rounded(totals.seconds.value),
                queued=rounded(totals.queued.value),
                first_token=rounded(totals.first_token.value),
                timed=totals.timed,
                cost=totals.cost,
            )
            for (model, role), totals in sorted(self._by_model.items())
        )
