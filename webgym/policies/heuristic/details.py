"""What a task gives to be filled in: names, addresses, dates, numbers, as people write them.

`Details.of` finds them by their form, and `value_for` says which of them belongs into a field by
what the field's label means on any web page: an address of email is for the field called so.
"""

import re
from collections.abc import Iterator
from datetime import date, timedelta

import msgspec

from webgym.policies.heuristic.words import plain, stem, stems, with_kin, words

NUMERALS = (
    "zero", "one", "two", "three", "four", "five", "six",
    "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_MONTH = f"({'|'.join(_MONTHS)})"
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_PHONE = re.compile(r"(?:phone|telephone|mobile|call)\D{0,12}(\+?\d[\d /-]{4,}\d)", re.IGNORECASE)
_CODE = re.compile(r"\b[A-Z]{2,}-?\d+\b")
_PERIOD = re.compile(rf"(\d{{1,2}})(?: {_MONTH})? (?:to|until|till) (\d{{1,2}}) {_MONTH} (\d{{4}})")
_DAY = re.compile(rf"(\d{{1,2}}) {_MONTH} (\d{{4}})")
_NIGHTS = re.compile(rf"(\d+|{'|'.join(NUMERALS)}) nights")
_CAPITALISED = r"[A-Z][\w'-]*"
_ADDRESS = re.compile(
    rf"({_CAPITALISED}(?: {_CAPITALISED})+), ({_CAPITALISED}(?: [\w'-]+)* \d+\w?), "
    rf"(\d{{3,6}}) ({_CAPITALISED}(?: {_CAPITALISED})*)(?:, ({_CAPITALISED}(?: {_CAPITALISED})*))?"
)
_PERSON = re.compile(rf"({_CAPITALISED} {_CAPITALISED}), {_EMAIL.pattern}")
_LAST_NAME = re.compile(rf"name of ({_CAPITALISED})(?: ({_CAPITALISED}))?")
_CEILING = re.compile(r"(?:less than|under|below|at most|cheaper than)\s+[$€£]?(\d+(?:\.\d+)?)")
_COUNTED_WORDS = 4
_UNITS = [[unit] for unit in ("mm", "cm", "m", "km", "g", "kg", "ml", "l", "litres", "inch")]


class Count(msgspec.Struct, frozen=True):
    """So many of something, whose words are `of`."""

    number: int
    of: frozenset[str]


class Details(msgspec.Struct, frozen=True):
    """Empty where the task does not say it. Dates are as forms take them."""

    email: str = ""
    phone: str = ""
    person: str = ""
    street: str = ""
    postcode: str = ""
    city: str = ""
    country: str = ""
    first_day: str = ""
    last_day: str = ""
    ceiling: str = ""
    codes: tuple[str, ...] = ()
    counts: tuple[Count, ...] = ()

    @classmethod
    def of(cls, task: str) -> "Details":
        first_day, last_day = _days(task)
        address = _ADDRESS.search(task)
        person, street, postcode, city, country = (
            address.groups("") if address else ("", "", "", "", "")
        )
        return cls(
            email=_first(_EMAIL, task),
            phone=_first(_PHONE, task),
            person=person or _first(_PERSON, task) or _last_name(task),
            street=street,
            postcode=postcode,
            city=city,
            country=country,
            first_day=first_day,
            last_day=last_day,
            ceiling=_first(_CEILING, task),
            codes=tuple(_CODE.findall(task)),
            counts=tuple(_counts(task)),
        )

    def value_for(self, label: str, context: str = "") -> str:
        """What belongs into the field of this label; `context` is what its page is about."""
        said = plain(label)
        for pattern, value in self._by_label():
            if re.search(pattern, said):
                return value
        if "quantity" in said or "amount" in said:
            return self._count_of(stems(f"{label} {context}"))
        return ""

    def count_named(self, label: str) -> str:
        """How many, of what the label names: guests, adults, seats."""
        return self._count_of(stems(label))

    def _count_of(self, about: list[str]) -> str:
        wanted = with_kin(about)
        shared = [(len(count.of & wanted), count.number) for count in self.counts]
        most = max(shared, default=(0, 0), key=lambda each: each[0])
        return str(most[1]) if most[0] else ""

    def _by_label(self) -> tuple[tuple[str, str], ...]:
        """From the particular to the general; the first that fits is taken."""
        first, _, last = self.person.rpartition(" ")
        code = self.codes[0] if self.codes else ""
        return (
            (r"e-?mail", self.email),
            (r"phone|mobile", self.phone),
            (r"first name|given name|forename", first),
            (r"last name|surname|family name", last),
            (r"street|address line|^address", self.street),
            (r"post ?code|zip", self.postcode),
            (r"city|town", self.city),
            (r"country", self.country),
            (r"time", ""),
            (r"arriv|check-?in|^from\b|start date|first day", self.first_day),
            (r"depart|check-?out|^(to|until)\b|end date|last day", self.last_day),
            (r"highest price|max(imum)?\b.*price|price.*(to|max|up to)", self.ceiling),
            (r"reference|discount|coupon|promo|voucher|\bcode\b", code),
            (r"full name|your name|^name\b", self.person if first else ""),
        )


def number_of(word: str) -> int | None:
    """Of a word or digits."""
    if word.isdecimal():
        return int(word)
    return NUMERALS.index(word) if word in NUMERALS else None


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return "" if found is None else (found[1] if found.re.groups else found[0])


def _last_name(task: str) -> str:
    found = _LAST_NAME.search(task)
    return "" if found is None else " ".join(each for each in found.groups() if each)


def _days(task: str) -> tuple[str, str]:
    period = _PERIOD.search(task)
    if period is not None:
        first, month, last, last_month, year = period.groups()
        return _iso(first, month or last_month, year), _iso(last, last_month, year)
    day = _DAY.search(task)
    if day is None:
        return "", ""
    first_day, nights = _iso(*day.groups()), _NIGHTS.search(task)
    if nights is None or not first_day:
        return first_day, ""
    later = timedelta(days=number_of(nights[1]) or 0)
    return first_day, (date.fromisoformat(first_day) + later).isoformat()


def _iso(day: str, month: str, year: str) -> str:
    try:
        return date(int(year), _MONTHS.index(month) + 1, int(day)).isoformat()
    except ValueError:
        return ""


def _counts(task: str) -> Iterator[Count]:
    """Each number with the words after it, to the next number or the end of the part."""
    for part in re.split(r"[,;:.?!]\s|\b(?:with|from|in|into|and|for)\b", task):
        said = list(words(part))
        for place, word in enumerate(said):
            number = number_of(word)
            if number and said[place + 1 : place + 2] not in _UNITS:
                counted = said[place + 1 : place + 1 + _COUNTED_WORDS]
                yield Count(number, frozenset(map(stem, counted)))
