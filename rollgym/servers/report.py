"""What an agent reports of an episode beside its row: times, calls of models, turns of the policy.

Between processes the report is in headers of the answer. In one process it is handed over: it is
the mapping of these headers, which are encoded when one is read, and `EpisodeReport.of` returns the
report itself. A header that cannot be read counts as missing, because other programs may send any.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from rollgym.records import ModelUse, Span
from rollgym.records.decoding import JsonDecoder
from rollgym.records.version import PolicyTurn
from rollgym.servers.spans import LONGEST_HEADER, SPANS_HEADER, decode_spans, encode_spans

PHASES_HEADER = "x-rollgym-phases"
MODELS_HEADER = "x-rollgym-models"
TURNS_HEADER = "x-rollgym-turns"
"""The turns of the policy, if a header can have them; else they are in the row."""
SECONDS_HEADER = "x-rollgym-seconds"
"""The duration of the whole episode."""
_SURELY_FIT = 16
_ENCODER = msgspec.json.Encoder()
_PHASES = JsonDecoder(dict[str, float])
_MODELS = JsonDecoder(tuple[ModelUse, ...])
_TURNS = JsonDecoder(tuple[PolicyTurn, ...])


class EpisodeReport(Mapping[str, str]):
    """The report of one episode, and its headers.

    `models` are None where the agent does not say which models it called, and `turns` where the row
    has them. `seconds` is None where the duration of the episode is unknown.
    """

    __slots__ = ("_encoded", "models", "phases", "seconds", "spans", "turns")

    def __init__(
        self,
        phases: Mapping[str, float],
        spans: tuple[Span, ...],
        models: tuple[ModelUse, ...] | None,
        turns: tuple[PolicyTurn, ...] | None,
        seconds: float | None,
    ) -> None:
        self.phases = phases
        self.spans = spans
        self.models = models
        self.turns = turns
        self.seconds = seconds
        self._encoded: dict[str, str] | None = None

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> "EpisodeReport":
        """The report in the headers of an answer."""
        if isinstance(headers, EpisodeReport):
            return headers
        return cls(
            read_phases(headers.get(PHASES_HEADER)),
            read_spans(headers.get(SPANS_HEADER)),
            read_models(headers.get(MODELS_HEADER)),
            read_turns(headers.get(TURNS_HEADER)),
            read_seconds(headers.get(SECONDS_HEADER)),
        )

    def __getitem__(self, name: str) -> str:
        return self._headers()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers())

    def __len__(self) -> int:
        return len(self._headers())

    def _headers(self) -> dict[str, str]:
        if self._encoded is None:
            self._encoded = {
                PHASES_HEADER: _ENCODER.encode(self.phases).decode(),
                SPANS_HEADER: encode_spans(self.spans),
            }
            if self.models is not None:
                self._encoded[MODELS_HEADER] = _ENCODER.encode(self.models).decode()
            if self.turns is not None:
                self._encoded[TURNS_HEADER] = _ENCODER.encode(self.turns).decode()
            if self.seconds is not None:
                self._encoded[SECONDS_HEADER] = f"{self.seconds:.6f}"
        return self._encoded


def fit_in_header(turns: Sequence[PolicyTurn]) -> bool:
    """Whether a header can have these turns: it has a limit, and versions may be any text."""
    if len(turns) <= _SURELY_FIT and not [turn for turn in turns if turn.version or turn.parts]:
        return True
    encoded = _ENCODER.encode(turns)
    return len(encoded) <= LONGEST_HEADER and encoded.isascii()


Sent = str | msgspec.Raw | None
"""A header, or a field of what is kept of an episode that failed; None where there is none."""


def read_phases(sent: Sent) -> dict[str, float]:
    try:
        return {} if sent is None else _PHASES.decode(sent)
    except msgspec.DecodeError:
        return {}


def read_spans(sent: Sent) -> tuple[Span, ...]:
    try:
        return () if sent is None else decode_spans(sent)
    except msgspec.DecodeError:
        return ()


def read_models(sent: Sent) -> tuple[ModelUse, ...] | None:
    try:
        return None if sent is None else _MODELS.decode(sent)
    except msgspec.DecodeError:
        return None


def read_turns(sent: Sent) -> tuple[PolicyTurn, ...] | None:
    try:
        return None if sent is None else _TURNS.decode(sent)
    except msgspec.DecodeError:
        return None


def read_seconds(sent: Sent) -> float | None:
    try:
        return None if sent is None else float(sent if isinstance(sent, str) else bytes(sent))
    except ValueError:
        return None
