"""Which paths `ng_viewer` is told."""

from pathlib import Path

import pytest

from rollgym.cli.view import _read
from rollgym.servers.config.problems import ConfigError


def paths(*overrides: str) -> list[str]:
    return [str(path) for path in _read(overrides).paths]


def test_paths_stand_by_themselves_or_after_their_name_or_both() -> None:
    assert paths("a.jsonl", "b") == ["a.jsonl", "b"]
    assert paths("+jsonl_fpath=a.jsonl") == ["a.jsonl"]
    assert paths("+jsonl_fpath=[a.jsonl,b]") == ["a.jsonl", "b"]
    assert paths("c", "+jsonl_fpath=[a.jsonl,b]") == ["a.jsonl", "b", "c"]
    assert paths("c", "+jsonl_fpath=a.jsonl") == ["a.jsonl", "c"]


def test_a_path_that_is_there_may_look_like_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lr=0.1").mkdir()
    assert paths("lr=0.1") == ["lr=0.1"]
    with pytest.raises(ConfigError, match="no option"):
        paths("lr=0")


@pytest.mark.parametrize("overrides", [(), ("+jsonl_fpath=",)], ids=["none", "empty"])
def test_without_a_path_it_is_told_how_to_name_one(overrides: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="`jsonl_fpath` is missing"):
        _read(overrides)
