"""Find facts in a long document, each of which names what to look for next.

The document is written when a session starts, and the model gets only the passages that the tools
return. The final answer is the last line `Answer: first; second; …`, and the reward is the share of
the facts in it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Annotated

from pydantic import Field

from resources_servers.example_multi_step.documents import (
    DocumentRecipe,
    SearchableDocument,
    search_words,
    write_document,
)
from rollgym.servers import (
    ResourcesConfig,
    ResourcesServer,
    Response,
    TaskRow,
    ToolRejection,
    Verdict,
    tool,
)
from rollgym.servers.final_answer import answer_text, last_lines_with
from rollgym.store import Setting

_LINE = re.compile(r"[^\w\n]{0,8}answers?[^\w\n:]{0,8}:(.*)", re.IGNORECASE)
MOST_ENTRIES = 1_000
_NUMBERING = re.compile(r"^\(?\d{1,2}[.):]\s+")


def read_answers(text: str) -> list[str]:
    """The entries of the last answer line; empty without such a line."""
    lines = map(_LINE.match, last_lines_with("answer", answer_text(text)))
    line = next((found[1] for found in lines if found), "")
    entries = islice(line.split(";"), MOST_ENTRIES)
    return [entry.strip() for entry in entries if entry.strip()]


def found_values(expected: Sequence[str], answers: Sequence[str]) -> list[str]:
    """The expected values that are among the answers, in any order.

    If there are more answers than questions, they are guesses and none counts.
    """
    if len(answers) > len(expected):
        return []
    given = {_plain(answer) for answer in answers}
    return [value for value in expected if _plain(value) in given]


def _plain(entry: str) -> str:
    """Remove numbering, emphasis, quotes, a leading article and capital letters."""
    bare = _NUMBERING.sub("", entry.strip(" \t*_`\"'")).strip(" \t*_`\"'.").casefold()
    return " ".join(bare.removeprefix("the ").split())


LONGEST_QUERY = 200
LONGEST_READING = 2_000


class MultiStepConfig(ResourcesConfig):
    """`cached_documents` is the number of documents kept for other rollouts of their tasks."""

    cached_documents: Annotated[int, Setting.TIMING] = Field(default=32, ge=1)


class MultiStepTask(TaskRow):
    """`document` is the recipe of the document; the answer must contain its needles."""

    document: DocumentRecipe


@dataclass(slots=True)
class Reading:
    """The document of a session, and how often it was searched."""

    document: SearchableDocument
    searches: int = 0


class MultiStepServer(ResourcesServer[MultiStepTask, Reading]):
    """Serves a document that can be searched and read in pieces."""

    config: MultiStepConfig

    async def start(self) -> None:
        await super().start()
        self._open = lru_cache(self.config.cached_documents)(_open)

    async def seed_session(self, task: MultiStepTask) -> Reading:
        return Reading(self._open(task.document))

    @tool
    async def search_document(
        self,
        state: Reading,
        query: Annotated[str, Field(max_length=LONGEST_QUERY)],
        max_results: Annotated[int, Field(ge=1, le=10)] = 3,
    ) -> str:
        """Search the document for sentences that share words with a query.

        Args:
            query: A few words, such as a name and what you want to know about it.
            max_results: How many sentences to return at most.
        """
        if not search_words(query):
            raise ToolRejection(f"the query {query!r} contains no words to search for")
        state.searches += 1
        passages = state.document.search(query, max_results)
        if not passages:
            return f"Nothing found for {query!r}. Try other words."
        return "\n".join(f"Found at {place}: {text}" for place, text in passages)

    @tool
    async def read_passage(
        self,
        state: Reading,
        position: Annotated[int, Field(ge=0)],
        length: Annotated[int, Field(ge=1, le=LONGEST_READING)] = 500,
    ) -> str:
        """Read a piece of the document.

        Args:
            position: Where to begin, in characters, as a search gives it.
            length: How many characters to read.
        """
        passage = state.document.read(position, length)
        if not passage:
            raise ToolRejection(f"the document ends at position {len(state.document.text)}")
        return passage

    async def verify(self, task: MultiStepTask, response: Response, state: Reading) -> Verdict:
        expected = [needle.value for needle in task.document.needles]
        answers = read_answers(response.text)
        found = found_values(expected, answers)
        share = len(found) / len(expected)
        return Verdict(
            reward=share,
            success=len(found) == len(expected),
            verification_score=share,
            extracted_answers=answers,
            missing_values=[value for value in expected if value not in found],
            searches=state.searches,
        )


def _open(recipe: DocumentRecipe) -> SearchableDocument:
    return SearchableDocument(write_document(recipe))
