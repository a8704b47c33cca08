"""What sampling goes by, for every task of a file, in a few bytes each.

Rows stay on disk; a million of them would not fit where a thousand do.
"""

from array import array

from webgym.tasks.task import WebTask

_HARDEST = 2**32 - 1


class TaskTable:
    """Difficulty, domain and host of each task, by its place in the file, from 0."""

    def __init__(self) -> None:
        self._difficulties = array("I")
        self._domains = _Names()
        self._hosts = _Names()

    def add(self, task: WebTask) -> None:
        self._difficulties.append(min(task.difficulty, _HARDEST))
        self._domains.add(task.domain)
        self._hosts.add(task.host)

    def __len__(self) -> int:
        return len(self._difficulties)

    def difficulty(self, place: int) -> int:
        return self._difficulties[place]

    def domain(self, place: int) -> str:
        return self._domains.of(place)

    def host(self, place: int) -> str:
        return self._hosts.of(place)


class _Names:
    """A column of texts of which there are few different ones."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._column = array("I")

    def add(self, text: str) -> None:
        number = self._numbers.setdefault(text, len(self._texts))
        if number == len(self._texts):
            self._texts.append(text)
        self._column.append(number)

    def of(self, place: int) -> str:
        return self._texts[self._column[place]]
