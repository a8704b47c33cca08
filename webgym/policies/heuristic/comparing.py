"""Superlatives: which row or card of a page has the most or the least of something."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from webgym.policies.heuristic.passages import Passage
from webgym.policies.heuristic.words import plain, stems, with_kin

_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
_PRICE = re.compile(r"[$€£]\s*(\d[\d,]*(?:\.\d+)?)")
_RATING = re.compile(r"(?:rated|rating|stars?)\D{0,10}(\d(?:\.\d+)?)")
_ORDINALS = {"second": 2, "third": 3, "fourth": 4, "fifth": 5}
_AT_LEAST = re.compile(r"rated (?:at least )?(\d(?:\.\d+)?)(?: or (?:better|more|higher)| and up)?")
_BELOW = re.compile(r"(?:less than|under|below|at most)\s+[$€£](\d+(?:\.\d+)?)")
_MEASURES: tuple[tuple[str, str, bool], ...] = (
    (r"cheapest|lowest price|least expensive", "price", False),
    (r"most expensive|highest price|dearest", "price", True),
    (r"(?:highest|best|top)[- ]rated", "rating", True),
    (r"(?:lowest|worst)[- ]rated", "rating", False),
    (r"lightest|weighs? the least", "weight", False),
    (r"heaviest|weighs? the most", "weight", True),
    (r"longest", "length", True),
    (r"shortest", "length", False),
    (r"highest|tallest", "height", True),
    (r"largest|biggest", "size", True),
    (r"smallest", "size", False),
)


class Superlative(msgspec.Struct, frozen=True):
    """The `rank`-th by a measure, from the most down or from the least up."""

    measure: str
    most: bool
    rank: int = 1
    at_least: float = 0.0
    below: float = float("inf")
    in_stock: bool = False

    @classmethod
    def of(cls, task: str) -> "Superlative | None":
        """What the task wants, if it compares at all."""
        said = plain(task)
        for pattern, measure, most in _MEASURES:
            found = re.search(rf"(?:(\w+) )?(?:{pattern})", said)
            if found is None:
                continue
            rated, below = _AT_LEAST.search(said), _BELOW.search(said)
            return cls(
                measure,
                most,
                rank=_ORDINALS.get(found[1] or "", 1),
                at_least=float(rated[1]) if rated else 0.0,
                below=float(below[1]) if below else float("inf"),
                in_stock="in stock" in said,
            )
        return None

    def choose(self, passages: Sequence[Passage]) -> Passage | None:
        """The passage that has it, of the largest group that can be compared."""
        groups: dict[tuple[int, str], list[tuple[float, Passage]]] = defaultdict(list)
        for passage in passages:
            value = self._value(passage)
            if value is not None and self._is_allowed(passage):
                groups[passage.group, passage.kind].append((value, passage))
        largest = max(groups.values(), key=len, default=[])
        if len(largest) < self.rank:
            return None
        ranked = sorted(largest, key=lambda each: -each[0] if self.most else each[0])
        return ranked[self.rank - 1][1]

    def _is_allowed(self, passage: Passage) -> bool:
        said = plain(passage.text)
        rating = _RATING.search(said)
        prices = [float(each.replace(",", "")) for each in _PRICE.findall(said)]
        return not (
            (self.in_stock and "out of stock" in said)
            or (rating and float(rating[1]) < self.at_least)
            or (prices and prices[0] >= self.below)
        )

    def _value(self, passage: Passage) -> float | None:
        if passage.kind == "sentence":
            return None
        said = plain(passage.text)
        if self.measure in ("price", "rating"):
            found = (_PRICE if self.measure == "price" else _RATING).search(said)
            return float(found[1].replace(",", "")) if found else None
        return next(self._in_columns(passage), None)

    def _in_columns(self, passage: Passage) -> Iterator[float]:
        wanted = with_kin(stems(self.measure))
        for cell in passage.cells:
            number = _NUMBER.search(cell.text)
            if number and wanted & set(stems(cell.column)):
                yield float(number[0].replace(",", ""))
