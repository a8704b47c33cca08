"""Servers that somebody else runs: known by their URL, called over HTTP like any other.

`<name>: {<kind>: {<any name>: {url: http://host:port}}}`; a list of URLs where it has several
processes. There is no code of it here, so nothing is started.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from rollgym.servers.config.drafts import Draft
from rollgym.servers.config.problems import Problems
from rollgym.servers.config.sources import Settings, Source, Sources
from rollgym.servers.server import ServerKind

URL = "url"


class ExternalServer(msgspec.Struct, frozen=True):
    """One such server. `settings` is everything that its description says."""

    name: str
    kind: ServerKind
    implementation: str
    urls: list[str]
    settings: Settings
    source: Source


def split_external(
    drafts: Sequence[Draft], sources: Sources, problems: Problems
) -> tuple[list[ExternalServer], list[Draft]]:
    """The servers that are elsewhere, and those that are to be started."""
    external = [draft for draft in drafts if URL in draft.settings]
    own = [draft for draft in drafts if URL not in draft.settings]
    return [server for draft in external for server in _read(draft, sources, problems)], own


def _read(draft: Draft, sources: Sources, problems: Problems) -> list[ExternalServer]:
    where = sources.of((*draft.path, URL))
    given = draft.settings[URL]
    urls = given if isinstance(given, list) else [given]
    if "entrypoint" in draft.settings:
        what = f"{draft.name}: it has a `url` and an `entrypoint`"
        problems.add(where, what, "keep `url` for a server that runs elsewhere, or `entrypoint`")
        return []
    wrong = [url for url in urls if not _is_url(url)]
    if wrong or not urls:
        what = f"{draft.name}: `url` is {wrong[0] if wrong else given!r}"
        problems.add(where, what, "give one such as http://127.0.0.1:8000, or a list of them")
        return []
    return [
        ExternalServer(
            name=draft.name,
            kind=draft.kind,
            implementation=draft.implementation,
            urls=[str(url).rstrip("/") for url in urls],
            settings=draft.settings,
            source=sources.of((draft.name,)),
        )
    ]


def _is_url(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and port != 0
