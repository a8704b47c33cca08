"""Records as lines, and what is made of them without any inputs."""

from typing import Any

import msgspec

from rollgym.records import Attempt, encode_attempt
from rollgym.viewer.formats.rows import JOURNAL, ROLLOUTS
from rollgym.viewer.source import FactsOf
from rollgym.viewer.summary import RecordSummary


def no_facts(_: int) -> None:
    return None


def row(**fields: Any) -> RecordSummary:
    return ROLLOUTS.summary(msgspec.json.encode(fields), no_facts)


def journal(attempt: Attempt, facts_of: FactsOf = no_facts) -> RecordSummary:
    return JOURNAL.summary(encode_attempt(attempt), facts_of)
