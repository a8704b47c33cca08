"""Chains of facts: each fact names the subject of the next question.

A ship leads to its captain, the captain to a town, the town to an inn, the inn to a code. A chain
of n facts consists of the last n links, so every chain ends with a code. The questions contain only
the first name of a chain.
"""

from random import Random
from typing import NamedTuple

# fmt: off
_SHIPS = (
    "Albatross", "Bonaventure", "Calliope", "Dauntless", "Evening Star", "Fulmar", "Guillemot",
    "Halcyon", "Isolde", "Juno", "Kestrel", "Lodestar", "Meridian", "Northern Light", "Orpheus",
    "Petrel", "Resolute", "Sandpiper", "Tern", "Undine",
)
_FIRST_NAMES = (
    "Ada", "Bruno", "Clara", "Dmitri", "Elin", "Farid", "Greta", "Hugo", "Ilse", "Jonas", "Katya",
    "Lorenz", "Mara", "Nils", "Odile", "Pavel", "Rosa", "Stefan", "Tamar", "Viktor",
)
_LAST_NAMES = (
    "Almqvist", "Brandt", "Castellan", "Dorn", "Ekholm", "Ferrow", "Gallo", "Hartwig", "Ivarsen",
    "Jansky", "Keller", "Lindqvist", "Moreau", "Novak", "Ostrander", "Quist", "Renn", "Sorel",
    "Tolland", "Varga",
)
_TOWNS = (
    "Ardmoor", "Brackwater", "Castelrosso", "Dunvik", "Eastmere", "Falkensee", "Grimsholt",
    "Hollowford", "Ivelden", "Karsund", "Lammerby", "Marisol", "Nordhaven", "Oxbridge", "Pellworm",
    "Ravensey", "Skelby", "Tarnvik", "Ulverton", "Westerlo",
)
_INN_COLOURS = (
    "Amber", "Black", "Copper", "Crimson", "Drowsy", "Gilded", "Grey", "Ivory", "Jade", "Merry",
    "Painted", "Scarlet", "Silver", "Spotted", "White",
)
_INN_BEASTS = (
    "Badger", "Bear", "Crane", "Dolphin", "Falcon", "Fox", "Griffin", "Hare", "Heron", "Lynx",
    "Otter", "Pike", "Ram", "Stag", "Wolf",
)
# fmt: on


class ChainLink(NamedTuple):
    """One kind of fact. In both texts {subject} is what the fact is about."""

    question: str
    fact: str


LINKS = (
    ChainLink(
        "Who is the captain of the {subject}?",
        "The captain of the {subject} is {value}.",
    ),
    ChainLink(
        "In which town does {subject} spend every winter?",
        "Every winter {subject} lives in the town of {value}.",
    ),
    ChainLink(
        "At which inn are letters to {subject} left?",
        "Letters to {subject} are left at the inn called {value}.",
    ),
    ChainLink(
        "Which code opens the strongbox at {subject}?",
        "The strongbox at the {subject} opens with the code {value}.",
    ),
)
LONGEST_CHAIN = len(LINKS)
_SUBJECTS = ("ship", "captain", "town", "inn")


class HiddenFact(NamedTuple):
    """A sentence to hide in a document, and the name or code in it."""

    text: str
    value: str


class Chain(NamedTuple):
    """The questions in their order, and the facts that answer them."""

    questions: list[str]
    facts: list[HiddenFact]


def make_chain(random: Random, length: int) -> Chain:
    """A chain of this many facts, at least one and at most `LONGEST_CHAIN`."""
    links = LINKS[-length:]
    names = _names(random)[-length - 1 :]
    facts = [
        HiddenFact(link.fact.format(subject=subject, value=value), value)
        for link, subject, value in zip(links, names[:-1], names[1:], strict=True)
    ]
    subjects = [names[0], *(f"that {kind}" for kind in _SUBJECTS[-length:][1:])]
    questions = [
        link.question.format(subject=subject) for link, subject in zip(links, subjects, strict=True)
    ]
    return Chain(questions, facts)


class Decoys:
    """Facts about other names.

    No name in them occurs in the facts of the task, and no two of them contradict each other.
    """

    def __init__(self, facts: str) -> None:
        self._facts = facts
        self._told: set[str] = set()

    def draw(self, random: Random) -> str | None:
        """Another fact, or None if the random name cannot be used."""
        position = random.randrange(LONGEST_CHAIN)
        subject, value = _names(random)[position : position + 2]
        if subject in self._told or subject in self._facts or value in self._facts:
            return None
        self._told.add(subject)
        return LINKS[position].fact.format(subject=subject, value=value)


def _names(random: Random) -> list[str]:
    """A ship, a person, a town, an inn and a code."""
    return [
        random.choice(_SHIPS),
        f"{random.choice(_FIRST_NAMES)} {random.choice(_LAST_NAMES)}",
        random.choice(_TOWNS),
        f"{random.choice(_INN_COLOURS)} {random.choice(_INN_BEASTS)}",
        f"{random.randrange(10_000):04}-{random.randrange(10_000):04}",
    ]
