"""What the documentation says about actions is what there is."""

import re
from pathlib import Path

import pytest

from webgym.actions.space import ACTIONS
from webgym.actions.tool_calls import _parameters, _signature

PAGE = (Path(__file__).parents[4] / "docs/browser-client.md").read_text()


def test_the_guide_lists_every_action_as_it_is_written_in_each_mode() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \|(.*)\| `(.*)` \|$", PAGE.partition("| key |")[2], re.MULTILINE
    )
    assert {key: (coordinates.strip("` "), marks) for key, coordinates, marks in rows} == {
        key: (
            _signature(kind.verbs["coordinates"], _parameters(kind, "coordinates"))
            if "coordinates" in kind.verbs
            else "",
            _signature(kind.verbs["set_of_marks"], _parameters(kind, "set_of_marks")),
        )
        for key, kind in ACTIONS.items()
    }


def test_the_example_of_the_guide_works(capsys: pytest.CaptureFixture[str]) -> None:
    block = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[-1]
    exec(compile(block, "browser-client.md", "exec"), {})
    assert capsys.readouterr().out.startswith("`coordinate` must be [x, y], two numbers")
