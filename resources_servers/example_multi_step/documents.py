"""Long documents, made from a few numbers.

A row carries the recipe: seed, length, and the facts to hide with their places. The text around
them is written from the seed, with facts about other names in between, so a row stays small and
the document is the same wherever it is made.
"""

from random import Random
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from resources_servers.example_multi_step.chains import Decoys
from rollgym.records import derive_seed

SHORTEST = 1_000
LONGEST = 100_000
DECOY_SHARE = 0.05
SENTENCES_PER_PARAGRAPH = 6

# fmt: off
_NOUNS = (
    "archive", "barrel", "bridge", "cellar", "chapel", "chimney", "cliff", "clock", "dune",
    "ferry", "field", "garden", "harbour", "hedge", "kiln", "ladder", "lantern", "ledger", "mill",
    "orchard", "pier", "quarry", "rope", "sail", "shed", "signpost", "tower", "wagon", "wall",
    "well",
)
_ADJECTIVES = (
    "abandoned", "bright", "crooked", "damp", "distant", "familiar", "forgotten", "heavy", "humble",
    "mossy", "narrow", "old", "patient", "quiet", "rusty", "sheltered", "shallow", "steep",
    "sunlit", "weathered",
)
_VERBS = (
    "borders", "conceals", "crosses", "faces", "follows", "guards", "leads past", "leans against",
    "outlasts", "overlooks", "resembles", "shades", "supports", "surrounds",
)
_ENDINGS = (
    "after the rain", "all year round", "as it always has", "at low tide", "before the first frost",
    "in the early light", "more often than not", "on market days", "since the flood",
    "when the wind turns", "while the bells ring", "without anybody noticing",
)
# fmt: on
_THINGS = [f"{adjective} {noun}" for adjective in _ADJECTIVES for noun in _NOUNS]


class Needle(BaseModel):
    """A sentence to hide. `position` is where: 0 the beginning, 1 the end of the document."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    value: str = Field(min_length=1)
    position: float = Field(ge=0, le=1)

    @model_validator(mode="after")
    def _text_tells_value(self) -> Self:
        if self.value not in self.text:
            raise ValueError(f"the needle's text does not hold its value {self.value!r}")
        return self


class DocumentRecipe(BaseModel):
    """All that a document is made from. `length` is in characters and never exceeded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int
    length: int = Field(ge=SHORTEST, le=LONGEST)
    needles: Annotated[tuple[Needle, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _leaves_room_for_hay(self) -> Self:
        needles = sum(len(needle.text) for needle in self.needles)
        if needles > self.length // 2:
            raise ValueError("the needles take more than half of the document's length")
        return self


def write_document(recipe: DocumentRecipe) -> str:
    """The text of a document, one paragraph a line."""
    random = Random(derive_seed(recipe.seed, "document"))  # noqa: S311 - reproducible on purpose
    facts = " ".join(needle.text for needle in recipe.needles)
    room = recipe.length - len(facts)
    sentences: list[str] = []
    decoys = Decoys(facts)
    while True:
        sentence = _sentence(random, decoys)
        room -= len(sentence) + 1
        if room < 0:
            break
        sentences.append(sentence)
    hay = len(sentences)
    # From the end, so that no insertion moves the place of the next one.
    for needle in sorted(recipe.needles, key=lambda needle: needle.position, reverse=True):
        sentences.insert(round(needle.position * hay), needle.text)
    starts = range(0, len(sentences), SENTENCES_PER_PARAGRAPH)
    return "\n".join(
        " ".join(sentences[start : start + SENTENCES_PER_PARAGRAPH]) for start in starts
    )


def _sentence(random: Random, decoys: Decoys) -> str:
    """A piece of hay: mostly nothing, at times a fact about somebody else."""
    if random.random() < DECOY_SHARE and (decoy := decoys.draw(random)):
        return decoy
    first, second = random.choice(_THINGS), random.choice(_THINGS)
    verb, ending = random.choice(_VERBS), random.choice(_ENDINGS)
    match random.randrange(3):
        case 0:
            return f"The {first} {verb} the {second} {ending}."
        case 1:
            return f"{ending.capitalize()}, the {first} {verb} the {second}."
        case _:
            return f"Nobody remembers why the {first} {verb} the {second}."
