"""What the index keeps of one record: enough for lists, filters, charts and tables.

A record is one line of a file, or one trajectory of an archive. Its summary is made once, when the
record is first read; whatever else a page shows is read from the record itself.
"""

from enum import StrEnum

import msgspec

TITLE_LIMIT = 200
DETAIL_LIMIT = 300
FIELD_LIMIT = 60
MOST_FIELDS = 16
MOST_TOOLS = 64

Scalar = str | int | float | bool


class EntryStatus(StrEnum):
    """What a record says of its rollout.

    `RETRIED` is an attempt that failed and was followed by another; `INPUT` a task that has not
    been run; `UNREADABLE` a line that is no record.
    """

    COMPLETED = "completed"
    FAILED = "failed"
    OMITTED = "omitted"
    RETRIED = "retried"
    INPUT = "input"
    UNREADABLE = "unreadable"


class TaskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a task without running it.

    `key` is the same for the same task in any file: made from its `task_id`, or else from what the
    agent is asked. `title` is how the task begins, in one line.
    """

    key: str = ""
    title: str = ""
    agent: str = ""
    domain: str = ""
    difficulty: int | None = None


NO_FACTS = TaskFacts()


class RecordSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers and names of one record, each None or empty where the record has none.

    `steps` are the model's turns, of a web rollout its steps. `tools` counts calls by name; of a
    web rollout the actions. `success` is None where nobody can say, as before a page that blocks
    the agent. `kind` and `cause` belong to a failure: `cause` is its message with whatever differs
    from one rollout to the next (numbers, names in quotes, addresses) left out. `ending` says in a
    word why there was no further step. `fields` are short values that the verifier or the task
    brought along, by name. `detail` is a line for the list: the final answer, or what failed, or
    what is wrong with a line that is no record.
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
    fields: dict[str, Scalar] = {}
