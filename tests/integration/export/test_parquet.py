import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from rollgym.export.export import export
from rollgym.export.formats import FORMATS
from rollgym.export.parquet import GROUP_ROWS
from rollgym.export.source import ExportError
from tests.integration.export.rollouts import group, read, row, write
from tests.integration.export.test_export import PICTURE

CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q":1}'}}


def decoded(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, with columns of JSON decoded and nulls left out."""
    table = pyarrow.parquet.read_table(path)
    kinds = {field.name: str(field.type) for field in table.schema}

    def value(name: str, given: Any) -> Any:
        if "json" not in kinds[name] or given is None:
            return given
        return [*map(json.loads, given)] if isinstance(given, list) else json.loads(given)

    return [
        {name: value(name, given) for name, given in row.items() if given is not None}
        for row in table.to_pylist()
    ]


@pytest.mark.parametrize("into", FORMATS)
def test_a_parquet_file_has_the_rows_of_the_lines(tmp_path: Path, into: str) -> None:
    calls = {"role": "assistant", "tool_calls": [CALL]}
    odd = row(5, 0, 1.0, output=[calls, {"role": "tool", "tool_call_id": "c1", "content": "x"}])
    del odd["responses_create_params"]["tools"]
    rows = [*group(0, 1.0, 0.0), odd, row(5, 1, 0.0, output=odd["output"])]
    rows[3]["responses_create_params"] = odd["responses_create_params"]
    source = write(tmp_path / "rollouts.jsonl", rows)
    reports = [export(source, tmp_path / f"out.{kind}", into) for kind in ("jsonl", "parquet")]
    assert reports[0] == reports[1]
    assert decoded(tmp_path / "out.parquet") == read(tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.parquet.card.json").read_bytes())["format"] == into


def test_many_rows_are_written_in_groups_and_images_are_embedded(tmp_path: Path) -> None:
    shown = {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}
    asked = {"input": [{"role": "user", "content": [shown]}]}
    pictured = row(0, 0, 1.0, responses_create_params=asked)
    source = write(tmp_path / "rollouts.jsonl", [pictured, *group(1, *[1.0] * GROUP_ROWS)])
    export(source, tmp_path / "out.parquet", "sft")
    file = pyarrow.parquet.ParquetFile(tmp_path / "out.parquet")
    assert [file.metadata.row_group(n).num_rows for n in range(2)] == [GROUP_ROWS, 1]
    assert file.schema_arrow.metadata[b"huggingface"]
    first, *others = file.read().to_pylist()
    (image,) = first["images"]
    assert image["bytes"].startswith(b"\x89PNG")
    assert image["path"].endswith(".png")
    assert {other["images"] for other in others} == {None}
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".jsonl", ".parquet"]


def test_without_pyarrow_the_way_to_install_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path / "rollouts.jsonl", group(0, 1.0))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ExportError, match=r'pip install "rollgym\[parquet\]"'):
        export(source, tmp_path / "out.parquet", "sft")
    assert [path.name for path in tmp_path.iterdir()] == ["rollouts.jsonl"]
