"""Find facts in a long document, each of which names what to look for next.

The document is made when the session begins and stays here: the model sees of it only what the
tools give back. The reward is the share of the facts that the final answer holds.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from resources_servers.example_multi_step.answers import found_values, read_answers
from resources_servers.example_multi_step.documents import DocumentRecipe, write_document
from resources_servers.example_multi_step.search import Document, telling_words
from rollgym.servers import (
    ResourcesConfig,
    ResourcesServer,
    Response,
    TaskRow,
    ToolRejection,
    Verdict,
    tool,
)
from rollgym.store import Setting

LONGEST_QUERY = 200
LONGEST_READING = 2_000


class MultiStepConfig(ResourcesConfig):
    """`cached_documents` are kept for further rollouts of the same task."""

    cached_documents: Annotated[int, Setting.TIMING] = Field(default=32, ge=1)


class MultiStepTask(TaskRow):
    """`document` is the recipe of the document; its needles are what the answer must hold."""

    document: DocumentRecipe


@dataclass(slots=True)
class Reading:
    """The document of a session, and how often it was searched."""

    document: Document
    searches: int = 0


class MultiStepServer(ResourcesServer[MultiStepTask, Reading]):
    """Needles in a haystack."""

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
        if not telling_words(query):
            raise ToolRejection(f"the query {query!r} has no words to search for")
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


def _open(recipe: DocumentRecipe) -> Document:
    return Document(write_document(recipe))
