"""A task as its JSONL row has it: the fields that all web tasks have, and how to check the end.

`website` begins with `{sites}` in the files; loading puts the address of the served sites there.
"""

from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from yarl import URL

from webgym.sites.errors import SitesError
from webgym.sites.names import DEFAULT_BASE, PARAMETER, is_name
from webgym.sites.tasks.checks import Check

PLACEHOLDER = "{sites}"
Split: TypeAlias = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")
_FOLDER = Path(__file__).parent


class FactGroup(msgspec.Struct, frozen=True):
    """A part of the rubric: what is asked for, and the facts that show it was done."""

    description: str
    facts: tuple[str, ...]


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task. `blocked` marks those that end at a wall, which nobody can get past.

    `verifier` tells whoever runs it that the sites know the truth about it.
    """

    task_id: str
    task_name: str
    website: str
    domain: str
    subdomain: str
    difficulty: int
    evaluator_reference: tuple[FactGroup, ...]
    definite_answer: str | None
    verifier: Literal["sites"]
    truth: tuple[Check, ...]
    blocked: bool = False


def load_tasks(split: Split, base_url: str = DEFAULT_BASE) -> list[Task]:
    """The tasks of a split, to be done on the sites at `base_url`. Raises SitesError."""
    if split not in SPLITS:
        raise SitesError(f"there is no split {split!r}: it is one of {', '.join(SPLITS)}")
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise SitesError(f"{base_url!r} is no base URL: give one such as {DEFAULT_BASE}")
    base = base_url.rstrip("/")
    decoder = msgspec.json.Decoder(Task)
    rows = (_FOLDER / f"{split}.jsonl").read_bytes().splitlines()
    return [_placed(decoder.decode(row), base) for row in rows]


def start_url(task: Task, session: str) -> str:
    """Where to begin, so that `/_truth/SESSION` tells what was done. Raises SitesError."""
    if not is_name(session):
        raise SitesError(f"{session!r} is no session: give 1 to 64 letters and digits")
    return str(URL(task.website).update_query({PARAMETER: session}))


def _placed(task: Task, base: str) -> Task:
    return msgspec.structs.replace(task, website=task.website.replace(PLACEHOLDER, base, 1))
