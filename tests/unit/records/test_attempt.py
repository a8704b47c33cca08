"""Journal lines: what is written can be read."""

import json
import math
from typing import Any

import msgspec
import pytest

from rollgym.records import (
    SCHEMA_VERSION,
    Attempt,
    ChecksumError,
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Omitted,
    Outcome,
    RecordError,
    SchemaVersionError,
    Span,
    Usage,
    decode_attempt,
    derive_seed,
    encode_attempt,
)
from tests.builders import without_checksums


def attempt_with(outcome: Any) -> Attempt:
    return Attempt(
        task=7,
        repeat=1,
        repeats=2,
        attempt=1,
        final=True,
        seed=11,
        started=1.5,
        seconds=0.25,
        outcome=outcome,
    )


OUTCOMES: list[Outcome] = [
    Completed(0.5, success=True, measures={"steps": 3.0}, usage=Usage(10, 2, 1, 1)),
    Failed(
        Failure.make(FailureKind.TOOL, "broke", retry_after=2.0),
        phases={"tool": 1.5},
        spans=(Span("model", 0.0, 0.25), Span("tool", 0.25, 1.5, "saw")),
    ),
    Omitted(OmitReason.STRAGGLER, "late"),
]


def test_an_attempt_survives_the_journal() -> None:
    for outcome in OUTCOMES:
        line = encode_attempt(attempt_with(outcome))
        assert line.endswith(b"}\n")
        assert line.count(b"\n") == 1
        assert encode_attempt(decode_attempt(line)) == line
    line = encode_attempt(attempt_with(OUTCOMES[0]))
    old = without_checksums(line)
    extended = old.replace(b'"final":true', b'"novel":{"x":[1]},"final":true')
    assert decode_attempt(extended) == decode_attempt(old) == decode_attempt(line)
    line = encode_attempt(attempt_with(OUTCOMES[0])).replace(b'"v":1', b'"v":2')
    with pytest.raises(SchemaVersionError, match="schema version 2.*upgrade rollgym"):
        decode_attempt(line)


def test_a_changed_record_is_recognised_however_it_was_changed() -> None:
    line = encode_attempt(attempt_with(OUTCOMES[0]))
    fields = json.loads(line)
    fields["outcome"]["reward"] = 1.0
    checksum = fields.pop("crc32")
    cases = [
        line.replace(b'"reward":0.5', b'"reward":1.0'),
        line.replace(checksum.encode(), b"00000000"),
        line.replace(b"\n", b"\r\n"),
        json.dumps({**fields, "crc32": checksum}).encode(),
        json.dumps({"crc32": checksum, **fields}).encode() + b"\n",
    ]
    assert decode_attempt(line.rstrip(b"\n")) == decode_attempt(line)
    for changed in cases:
        with pytest.raises(ChecksumError, match="changed after it was written"):
            decode_attempt(changed)


def test_the_line_is_plain_json_with_the_status_in_the_outcome() -> None:
    line = json.loads(encode_attempt(attempt_with(OUTCOMES[1])))
    assert line["v"] == SCHEMA_VERSION
    assert line["outcome"]["status"] == "failed"
    assert line["outcome"]["failure"]["kind"] == "tool"
    assert line["outcome"]["spans"][1] == {
        "phase": "tool",
        "start": 0.25,
        "seconds": 1.5,
        "label": "saw",
    }
    assert "reward" not in line["outcome"]
    assert b"spans" not in encode_attempt(attempt_with(OUTCOMES[0]))


def test_a_result_is_kept_as_it_is_on_one_line() -> None:
    pretty = b'{\n  "text": "a\\nb",\n  "n": 1.0\n}'
    line = encode_attempt(attempt_with(Completed(1.0, result=msgspec.Raw(pretty))))
    assert line.count(b"\n") == 1
    outcome = decode_attempt(line).outcome
    assert bytes(outcome.result) == pretty.replace(b"\n", b" ")


def test_what_could_not_be_read_back_is_not_written() -> None:
    cases: list[Outcome] = [
        Completed(math.nan),
        Completed("1"),  # type: ignore[arg-type]
        Completed(1.0, measures={"steps": math.inf}),
        Completed(1.0, result=msgspec.Raw(b'{"a": NaN}')),
        Completed(1.0, result=msgspec.Raw(b'"cut')),
        Completed(1.0, result=msgspec.Raw(b"1} {")),
        Completed(1.0, result=msgspec.Raw(b'"\xff"')),
        Completed(1.0, result=object()),  # type: ignore[arg-type]
        Failed("no failure"),  # type: ignore[arg-type]
        Omitted("no reason"),  # type: ignore[arg-type]
    ]
    for outcome in cases:
        with pytest.raises(RecordError, match="cannot be written as JSON"):
            encode_attempt(attempt_with(outcome))


def test_success_is_the_verifiers_word_or_a_full_reward() -> None:
    cases: list[tuple[float, bool | None, bool]] = [
        (1.0, None, True),
        (0.99, None, False),
        (0.0, True, True),
        (1.0, False, False),
    ]
    for reward, success, succeeded in cases:
        assert Completed(reward, success=success).succeeded is succeeded


def test_derived_seeds_depend_on_everything_they_are_about() -> None:
    seeds = {
        derive_seed(run, purpose, task, repeat)
        for run in (0, 1)
        for purpose in ("rollout", "retry")
        for task in (0, 1, 11)
        for repeat in (0, 1, 11)
    }
    assert len(seeds) == 2 * 2 * 3 * 3
    assert derive_seed(1, "rollout", 2, 3) == 8722086239634247056
    assert all(0 <= seed < 2**63 for seed in seeds)
