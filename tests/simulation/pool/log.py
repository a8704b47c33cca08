"""What trainers got from a pool and were answered, over all its lives."""

from typing import NamedTuple

from rollgym.pool import DeliveredGroup


class Delivery(NamedTuple):
    """A group that reached a trainer."""

    life: int
    at: float
    trainer: str
    group: DeliveredGroup


class Acknowledged(NamedTuple):
    """A group whose acknowledgement was answered."""

    life: int
    at: float
    id: str


class Made(NamedTuple):
    """A reward that a worker returned, and the versions at its start and its end."""

    life: int
    task: int
    repeat: int
    reward: float
    versions: tuple[str, str]


class PoolLog:
    """The events, in their order. `endings` says how each life ended."""

    def __init__(self) -> None:
        self.events: list[Delivery | Acknowledged] = []
        self.made: dict[float, Made] = {}
        self.endings: list[str] = []
        self.finished_before_last: set[int] = set()
        self.versions = 0

    @property
    def deliveries(self) -> list[Delivery]:
        return [event for event in self.events if isinstance(event, Delivery)]

    @property
    def acknowledged(self) -> set[str]:
        return {event.id for event in self.events if isinstance(event, Acknowledged)}
