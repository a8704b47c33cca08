"""A typed failure as it is shown, from whatever a row says under `failure`."""

import msgspec

from rollgym.records import TRAITS
from rollgym.rollouts.fields import FAILURE_CLASS
from rollgym.viewer.documents.pointer import child
from rollgym.viewer.documents.texts import json_text, short, string_text
from rollgym.viewer.values import Fields, fields_of, flag_of, is_present, items_of, text_of
from rollgym.viewer.view import FIELD_TEXT_LIMIT, FailureView, Text

FAILURE = "failure"
MOST_CAUSES = 20
_CAUSE_LIMIT = 1_000
_MEANINGS = {str(kind): traits.meaning for kind, traits in TRAITS.items()}


def meaning_of(kind: str) -> str:
    """What a kind of failure means; empty for one that rollgym does not know."""
    return _MEANINGS.get(kind, "")


def failure_of(row: Fields) -> FailureView | None:
    """The failure of a row; None where there is none."""
    failure = fields_of(row.get(FAILURE))
    named = text_of(row.get(FAILURE_CLASS))
    if failure is None and named is None:
        return None
    failure = failure or {}
    kind = text_of(failure.get("kind")) or named or ""
    return FailureView(
        kind=short(kind),
        detail=_text(failure, "detail") or Text("", 0),
        meaning=meaning_of(kind),
        retryable=flag_of(failure.get("retryable")),
        causes=_causes(failure.get("causes")),
        traceback=_text(failure, "traceback"),
    )


def _text(failure: Fields, name: str) -> Text | None:
    raw, path = failure.get(name), child(f"/{FAILURE}", name)
    if raw is None or not is_present(raw):
        return None
    return string_text(raw, FIELD_TEXT_LIMIT, path) or json_text(raw, FIELD_TEXT_LIMIT, path)


def _causes(raw: msgspec.Raw | None) -> tuple[tuple[str, str], ...]:
    causes = [fields_of(cause) or {} for cause in (items_of(raw) or ())[:MOST_CAUSES]]
    return tuple(
        (short(text_of(cause.get("type"))), short(text_of(cause.get("message")), _CAUSE_LIMIT))
        for cause in causes
    )
