"""What sources are called, so that no two of them are called the same.

Files of checkpoints often have one name in several folders. Those are told apart by the nearest
folders in which they differ: `a/rollouts.jsonl` and `b/rollouts.jsonl`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from rollgym.viewer.source import Source

_Folders = tuple[str, ...]


def distinct_titles(sources: Iterable[Source]) -> Mapping[str, str]:
    """The titles of all sources by their ids; one that no other has stays as it is."""
    same: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        same[source.title].append(source)
    titles = {
        source.id: "/".join((*folders, title))
        for title, alike in same.items()
        for source, folders in zip(alike, _told_apart(alike), strict=True)
    }
    counts = Counter(titles.values())
    return {
        identity: title if counts[title] == 1 else f"{title} ({identity})"
        for identity, title in titles.items()
    }


def _told_apart(alike: Sequence[Source]) -> list[_Folders]:
    """For each source the fewest folders that no other one has; none where there is one source."""
    if len(alike) == 1:
        return [()]
    paths = [source.path.parent.resolve().parts[1:] for source in alike]
    levels = zip(*(reversed(path) for path in paths), strict=False)
    common = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, levels))
    ends = [path[: len(path) - common] for path in paths]
    return [_nearest(end, ends) for end in ends]


def _nearest(folders: _Folders, all_folders: Sequence[_Folders]) -> _Folders:
    for count in range(1, len(folders)):
        own = folders[-count:]
        if sum(other[-count:] == own for other in all_folders) == 1:
            return own
    return folders
