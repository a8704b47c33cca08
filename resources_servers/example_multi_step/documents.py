"""Long documents that follow from a small recipe, and searching them.

A row contains the recipe: a seed, a length, and the facts to hide with their positions. The text
around them follows from the seed, with facts about other names in between. So a row stays small and
the document is the same on every machine. A search ranks sentences by the rare words that they
share with the query.
"""

import math
import re
from array import array
from collections import defaultdict
from random import Random
from typing import Annotated, NamedTuple, Self

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
    """A sentence to hide. `position` is between 0, the start, and 1, the end of the document."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    value: str = Field(min_length=1)
    position: float = Field(ge=0, le=1)

    @model_validator(mode="after")
    def _text_tells_value(self) -> Self:
        if self.value not in self.text:
            raise ValueError(f"the text of the needle does not contain its value {self.value!r}")
        return self


class DocumentRecipe(BaseModel):
    """Everything that a document follows from. `length` is its maximum, in characters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int
    length: int = Field(ge=SHORTEST, le=LONGEST)
    needles: Annotated[tuple[Needle, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _leaves_space_for_text(self) -> Self:
        needles = sum(len(needle.text) for needle in self.needles)
        if needles > self.length // 2:
            raise ValueError("the needles take more than half of the document's length")
        return self


def write_document(recipe: DocumentRecipe) -> str:
    """The text of a document, one paragraph a line."""
    random = Random(derive_seed(recipe.seed, "document"))  # noqa: S311 - reproducible on purpose
    facts = " ".join(needle.text for needle in recipe.needles)
    free = recipe.length - len(facts)
    sentences: list[str] = []
    decoys = Decoys(facts)
    while True:
        sentence = _sentence(random, decoys)
        free -= len(sentence) + 1
        if free < 0:
            break
        sentences.append(sentence)
    written = len(sentences)
    # From the end, so that no insertion moves the position of the next.
    for needle in sorted(recipe.needles, key=lambda needle: needle.position, reverse=True):
        sentences.insert(round(needle.position * written), needle.text)
    starts = range(0, len(sentences), SENTENCES_PER_PARAGRAPH)
    return "\n".join(
        " ".join(sentences[start : start + SENTENCES_PER_PARAGRAPH]) for start in starts
    )


def _sentence(random: Random, decoys: Decoys) -> str:
    """A sentence without a fact of the task; some tell a fact about another name."""
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


_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"\S.*?(?:\.(?=\s)|$)", re.MULTILINE)
# fmt: off
_STOP_WORDS = frozenset({
    "a", "an", "and", "are", "as", "at", "by", "called", "does", "for", "from", "in", "is", "it",
    "of", "on", "or", "that", "the", "this", "to", "was", "what", "when", "where", "which", "who",
    "why", "with",
})
# fmt: on


class Passage(NamedTuple):
    """A sentence and the position of its first character."""

    position: int
    text: str


class SearchableDocument:
    """A text that can be searched."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = array("I")
        self._sentences_with: dict[str, array[int]] = {}
        for number, sentence in enumerate(_SENTENCE.finditer(text)):
            self._starts.append(sentence.start())
            for word in search_words(sentence[0]):
                self._sentences_with.setdefault(word, array("I")).append(number)

    def search(self, query: str, limit: int) -> list[Passage]:
        """The best sentences for the words of a query, the best first.

        A word counts more if fewer sentences contain it. Of equal sentences the earlier comes
        first.
        """
        scores: defaultdict[int, float] = defaultdict(float)
        for word in sorted(search_words(query)):
            sentences = self._sentences_with.get(word, ())
            for sentence in sentences:
                scores[sentence] += math.log(1 + len(self._starts) / len(sentences))
        best = sorted(scores, key=lambda sentence: (-scores[sentence], sentence))[:limit]
        return [self._passage(sentence) for sentence in best]

    def read(self, position: int, length: int) -> str:
        return self.text[position : position + length]

    def _passage(self, number: int) -> Passage:
        start = self._starts[number]
        sentence = _SENTENCE.match(self.text, start)
        return Passage(start, sentence[0] if sentence else "")


def search_words(text: str) -> set[str]:
    """The words of a text in lower case, without very common words."""
    return set(_WORD.findall(text.lower())) - _STOP_WORDS
