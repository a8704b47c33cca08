"""What the index keeps of one record: enough for lists, filters, charts and tables.

A record is one line of a file, or one trajectory of an archive. Its summary is made once, when the
record is first read. Everything else that a page shows is read from the record itself.
"""

from enum import StrEnum

import msgspec

TITLE_LIMIT = 200
DETAIL_LIMIT = 300
FIELD_LIMIT = 60
MOST_FIELDS = 16
MOST_TOOLS = 64
MOST_VERSIONS = 64

Scalar = str | int | float | bool


class EntryStatus(StrEnum):
    """The state of a rollout according to one record.

    `RETRIED` is an attempt that failed and was followed by another; `INPUT` is a task that has not
    been run; `UNREADABLE` is a line that is not a record.
    """

    COMPLETED = "completed"
    FAILED = "failed"
    OMITTED = "omitted"
    RETRIED = "retried"
    INPUT = "input"
    UNREADABLE = "unreadable"


class TaskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a task without running it.

    `key` is the same for the same task in any file: it is made from its `task_id`, or else from its
    prompt. `title` is the beginning of the prompt in one line.
    """

    key: str = ""
    title: str = ""
    agent: str = ""
    domain: str = ""
    difficulty: int | None = None


NO_FACTS = TaskFacts()


class RecordSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers and names of one record, each None or empty where the record has none.

    `steps` counts the model's turns, or the steps of a web rollout. `tools` counts calls by name,
    or the actions of a web rollout. `success` is None where it is unknown, as for a web rollout
    that a page blocked. `kind` and `cause` belong to a failure: `cause` is its message without the
    parts that differ from one rollout to the next (numbers, quoted names, addresses). `ending` says
    in a word why the rollout ended. `signs` count what deserves a look, and `versions` the turns of
    each policy version, by name. `fields` are short values of the verifier or the task, by name.
    `detail` is a line for the list: the final answer, the failure, or why a line is unreadable.
    """

    status: EntryStatus
    task: int | None = None
    repeat: int | None = None
    attempt: int | None = None
    reward: float | None = None
    success: bool | None = None
    kind: str = ""
    cause: str = ""
    steps: int | None = None
    tool_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float | None = None
    started: float | None = None
    model: str = ""
    ending: str = ""
    facts: TaskFacts = NO_FACTS
    detail: str = ""
    tools: dict[str, int] = {}
    signs: dict[str, int] = {}
    versions: dict[str, int] = {}
    fields: dict[str, Scalar] = {}
