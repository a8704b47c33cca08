r"""The tasks of reasoning-gym, scored by their own datasets.

*Answers.* The answer is in `<answer>…</answer>`, else in `\boxed{…}`, else it is the last line. A
tag that is not closed extends to the end of the text, because many models are served with the
closing tag as a stop sequence.

*Isolation.* Scorers parse, simulate and simplify the model's answer. They run in worker processes
with a limit on their processor time, and cannot run Python from an answer.

*Who caused a failure.* If a scorer fails or takes too long, the entry's own answer is scored as a
control. If that works, the model's answer was the cause: reward 0. If not, the task is defective,
and there is no reward. A worker that crashes, is not available or does not answer in time is a
failure of the verifier, and there is no reward either.

*Partial credit.* The reward is what the scorer gives, and many scorers give a little for any text.
The verdict says where a reward is partial credit, and what the scorer gives for an empty answer.
"""

from importlib.util import find_spec
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator

from rollgym.records import TaskError, VerifierError
from rollgym.servers import ResourcesConfig, ResourcesServer, Response, TaskRow, Verdict
from rollgym.servers.final_answer import last_boxed, without_thinking
from rollgym.servers.isolation import CallFailedError, CpuTimeExceededError, IsolatedWorkers
from rollgym.servers.server import ServerConfig, ServerDirectory
from rollgym.store import Setting

OPENING = "<answer>"
CLOSING = "</answer>"


class PuzzleAnswer(NamedTuple):
    """The text of an answer, and where in the response it was found."""

    text: str
    source: Literal["tag", "box", "line"]


def find_answer(response: str) -> PuzzleAnswer | None:
    """The final answer; None if the response or its last answer is empty."""
    text = without_thinking(response)
    _, tag, tagged = text.rpartition(OPENING)
    if tag:
        return _found(tagged.partition(CLOSING)[0], "tag")
    boxed = last_boxed(text)
    if boxed is not None:
        return _found(boxed, "box")
    return _found(text.rstrip().rpartition("\n")[2], "line")


def _found(text: str, source: Literal["tag", "box", "line"]) -> PuzzleAnswer | None:
    return PuzzleAnswer(text.strip(), source) if text.strip() else None


EXCERPT = 1_000
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class PuzzleEntry(BaseModel):
    """An entry of a dataset as reasoning-gym makes it. Some entries have no answer."""

    model_config = ConfigDict(extra="allow", frozen=True)

    question: str
    answer: str | None
    metadata: dict[str, Any]


class ReasoningTask(TaskRow):
    """`dataset` is the name of a dataset, `dataset_config` its settings other than the defaults.

    In a row of NeMo Gym the parts of the entry are fields of the row, and
    `metadata.source_dataset` is the dataset.
    """

    dataset: str = Field(min_length=1)
    dataset_config: dict[str, Any] = Field(default_factory=dict)
    entry: PuzzleEntry
    question: str | None = None
    answer: str | None = None
    metadata: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_entry(cls, row: dict[str, Any]) -> dict[str, Any]:
        match row:
            case {"question": _, "answer": _, "metadata": {"source_dataset": str(dataset)}}:
                entry = {name: row[name] for name in ("question", "answer", "metadata")}
                return {"dataset": dataset, "entry": entry, **row}
            case _:
                return row


class ReasoningConfig(ResourcesConfig):
    """Limits of the scoring: processes, seconds of processor time and wall time, memory."""

    workers: Annotated[int, Setting.TIMING] = Field(default=2, ge=1)
    cpu_seconds: float = Field(default=20.0, gt=0)
    wall_seconds: float = Field(default=300.0, gt=0)
    memory_bytes: int | None = Field(default=4 << 30, gt=0)


class ReasoningServer(ResourcesServer[ReasoningTask, None]):
    """The reward is the score, between 0 and 1; a score of 1 is a success."""

    config: ReasoningConfig

    def __init__(
        self, name: str, config: ServerConfig, directory: ServerDirectory | None = None
    ) -> None:
        super().__init__(name, config, directory)
        self._workers = IsolatedWorkers(
            "resources_servers.reasoning_gym.scoring:score",
            workers=self.config.workers,
            memory_bytes=self.config.memory_bytes,
            environment=_ONE_THREAD,
        )

    async def start(self) -> None:
        if find_spec("reasoning_gym") is None:
            raise ModuleNotFoundError(
                f"{self.name} scores with the package reasoning-gym, which is not installed. Run "
                "pip install 'rollgym[reasoning-gym]'"
            )
        await super().start()

    async def close(self) -> None:
        await self._workers.close()
        await super().close()

    async def verify(self, task: ReasoningTask, response: Response, state: None) -> Verdict:
        answer = find_answer(response.text)
        if answer is None:
            return _verdict(0.0, None, empty_score=await self._empty_score(task))
        try:
            score = await self._score(task, answer.text)
        except CpuTimeExceededError:
            await self._check_task(task)
            return _verdict(0.0, answer, timed_out=True)
        except CallFailedError as error:
            await self._check_task(task)
            return _verdict(0.0, answer, scorer_error=_reason(error)[:EXCERPT])
        empty_score = await self._empty_score(task) if 0 < score < 1 else None
        return _verdict(score, answer, empty_score=empty_score)

    async def _empty_score(self, task: ReasoningTask) -> float | None:
        """What the dataset gives for an empty answer; None if it cannot score one."""
        try:
            return await self._score(task, "")
        except (CallFailedError, CpuTimeExceededError):
            return None

    async def _check_task(self, task: ReasoningTask) -> None:
        """Raise TaskError if the task's own answer cannot be scored."""
        try:
            await self._score(task, task.entry.answer or "")
        except (CallFailedError, CpuTimeExceededError) as error:
            raise TaskError(
                f"the dataset {task.dataset!r} cannot score its own answer to this entry; remove "
                f"the row: {_reason(error)}"
            ) from error

    async def _score(self, task: ReasoningTask, answer: str) -> float:
        score: float = await self._workers.call(
            task.dataset,
            msgspec.json.encode(task.dataset_config).decode(),
            task.entry.model_dump_json(),
            answer,
            timeout=self.config.wall_seconds,
            cpu_timeout=self.config.cpu_seconds,
        )
        if not 0 <= score <= 1:
            raise VerifierError(f"the scorer of {task.dataset} gave {score}, not a score in [0, 1]")
        return score


def _reason(error: CallFailedError | CpuTimeExceededError) -> str:
    if isinstance(error, CallFailedError):
        return f"{error.error_type}: {error.error_message}"
    return str(error)


def _verdict(
    score: float,
    answer: PuzzleAnswer | None,
    *,
    timed_out: bool = False,
    scorer_error: str | None = None,
    empty_score: float | None = None,
) -> Verdict:
    return Verdict(
        reward=score,
        success=score >= 1,
        extracted_answer=answer.text[:EXCERPT] if answer else None,
        answer_source=answer.source if answer else None,
        no_answer=answer is None,
        partial_credit=0 < score < 1,
        empty_answer_score=empty_score,
        timed_out=timed_out,
        scorer_error=scorer_error,
    )
