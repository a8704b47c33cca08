"""The messages between the process of a collection and its workers.

A frame is the length of a message in four bytes, then the message in msgpack. The worker connects
and introduces itself with `Hello`; the driver answers with `Setup`, which may hold credentials, so
it travels here and in no command line. When the worker says `Ready`, it gets attempts.

Times never cross: the clocks of two machines differ, so a deadline travels as the seconds that are
left. The worker encodes a completed attempt as the line of the journal, which the driver checks and
appends; other outcomes travel as JSON. So a result is never decoded on the way.
"""

from struct import Struct

import msgspec

from rollgym.records import Completed, Failed, Omitted, Outcome, Row, Task
from rollgym.records.decoding import JsonDecoder

LENGTH = Struct(">I")
HEADER_SIZE = LENGTH.size
FRAME_LIMIT = 1 << 30
"""The longest message of a worker that is known."""
HELLO_LIMIT = 1 << 12
"""The longest message before that."""


class Hello(msgspec.Struct, array_like=True, tag="hello", gc=False):
    """The first message of a worker. `launch` is the number of this start of a worker."""

    token: str
    version: str
    launch: int
    node: str
    process: int


class Setup(msgspec.Struct, array_like=True, tag="setup"):
    """What the worker is to run: a function `module:name`, called with `options` and the link.

    `search_path` is where the driver finds its modules; folders that the worker's machine has are
    searched too.
    """

    program: str
    options: bytes
    log_level: str
    search_path: list[str]


class Ready(msgspec.Struct, array_like=True, tag="ready", gc=False):
    """The worker can run attempts."""


class Refused(msgspec.Struct, array_like=True, tag="refused", gc=False):
    """The worker cannot start, and ends. A replacement would not start either."""

    error: str


class Work(msgspec.Struct, array_like=True, tag="work", gc=False):
    """An attempt to run. `number` identifies it in this connection.

    `started` is when it began for its record, by the clock of the driver, and `waited` the seconds
    from then until it was sent.
    """

    number: int
    task: int
    repeats: int
    row: bytes
    repeat: int
    seed: int
    attempt: int
    seconds: float
    started: float
    waited: float


class Cancel(msgspec.Struct, array_like=True, tag="cancel", gc=False):
    """Cancel an attempt; its `Ended` follows when it has ended."""

    number: int


class Ended(msgspec.Struct, array_like=True, tag="ended", gc=False):
    """An attempt has ended. Its `record` or its `outcome`, neither where it was cancelled first.

    `seconds` is the time between its arrival and its end. A record is without the `turns`, which
    have no version yet, and comes with what the program has `prepared` of it. `disk_error` says
    that a disk failed, which stops the collection.
    """

    number: int
    outcome: bytes = b""
    seconds: float = 0.0
    record: bytes = b""
    turns: bytes = b""
    prepared: bytes = b""
    disk_error: str = ""


class Call(msgspec.Struct, array_like=True, tag="call", gc=False):
    """A call of a service of the driver, such as storing a screenshot."""

    number: int
    service: str
    body: bytes


class CallResult(msgspec.Struct, array_like=True, tag="answer", gc=False):
    """The answer to a `Call`, or the error of the driver's disk."""

    number: int
    body: bytes
    disk_error: str = ""


class Note(msgspec.Struct, array_like=True, tag="note", gc=False):
    """Something to know that needs no answer: a log line, the progress of an episode.

    A driver sends notes too, such as the new address of a server.
    """

    topic: str
    body: bytes


class Ping(msgspec.Struct, array_like=True, tag="ping", gc=False):
    """The worker's event loop is alive."""


class Bye(msgspec.Struct, array_like=True, tag="bye", gc=False):
    """The collection is over, and the worker is to end."""


Message = (
    Hello | Setup | Ready | Refused | Work | Cancel | Ended | Call | CallResult | Note | Ping | Bye
)
ENCODER = msgspec.msgpack.Encoder()
DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_OUTCOMES = JsonDecoder(Completed | Failed | Omitted)
_ENCODE_OUTCOME = msgspec.json.Encoder().encode


class ProtocolError(Exception):
    """The other side sent bytes that are not a message, or a message out of turn."""


def encode_outcome(outcome: Outcome) -> bytes:
    """Raises what the encoder does for a value that JSON cannot hold."""
    return _ENCODE_OUTCOME(outcome)


def decode_outcome(encoded: bytes) -> Outcome:
    """Raises ValueError where it is not an outcome."""
    outcome: Outcome = _OUTCOMES.decode(encoded)
    return outcome


def task_of(work: Work) -> Task:
    return Task(work.task, Row(work.row), work.repeats)
