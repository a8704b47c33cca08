"""Searching a document: sentences ranked by the rare words they share with the query."""

import math
import re
from array import array
from collections import defaultdict
from typing import NamedTuple

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
    """A sentence and where it begins, in characters."""

    position: int
    text: str


class Document:
    """A text that can be searched."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = array("I")
        self._sentences_with: dict[str, array[int]] = {}
        for number, sentence in enumerate(_SENTENCE.finditer(text)):
            self._starts.append(sentence.start())
            for word in telling_words(sentence[0]):
                self._sentences_with.setdefault(word, array("I")).append(number)

    def search(self, query: str, limit: int) -> list[Passage]:
        """The best sentences for the words of a query, the best first.

        A word counts the more, the fewer sentences have it; of equals the earlier one comes first.
        """
        scores: defaultdict[int, float] = defaultdict(float)
        for word in sorted(telling_words(query)):
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


def telling_words(text: str) -> set[str]:
    """The words that say what a text is about, in lower case."""
    return set(_WORD.findall(text.lower())) - _STOP_WORDS
