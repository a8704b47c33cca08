from collections.abc import Sequence

import msgspec

from rollgym.viewer.documents.difference import PORTION, FirstDifference, first_difference
from rollgym.viewer.documents.row_document import RowDocument
from rollgym.viewer.summary import EntryStatus, RecordSummary
from rollgym.viewer.view import TEXT_LIMIT, StepView, Text
from tests.unit.viewer.documents.records import Surroundings


class Stepping(RowDocument):
    """A rollout with steps."""

    def __init__(self, repeat: int, steps: Sequence[StepView]) -> None:
        summary = RecordSummary(status=EntryStatus.COMPLETED, repeat=repeat)
        super().__init__(b"{}", Surroundings(), summary)
        self._steps = steps

    def steps(self, start: int, count: int) -> list[StepView]:
        return list(self._steps[start : start + count])


def repeats(*outputs: Sequence[object]) -> list[RowDocument]:
    return [
        RowDocument(
            msgspec.json.encode({"output": output}),
            Surroundings(),
            RecordSummary(status=EntryStatus.COMPLETED, task=0, repeat=repeat),
        )
        for repeat, output in enumerate(outputs)
    ]


def said(text: str) -> dict[str, object]:
    return {"role": "assistant", "content": text}


def called(name: str, arguments: str = "{}", id_: str = "c") -> dict[str, object]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": id_, "function": function}]}


def answered(text: str, id_: str = "c") -> dict[str, object]:
    return {"role": "tool", "tool_call_id": id_, "content": text}


def test_ids_make_no_difference() -> None:
    one = [called("search", id_="c1"), answered("found", "c1"), said("it")]
    other = [called("search", id_="c2"), answered("found", "c2"), said("it")]
    assert first_difference(repeats(one, other)) == FirstDifference("turn", None, "")


def test_the_first_difference_is_reported_in_a_line() -> None:
    for one, other, words in [
        ([called("f")], [said("a")], "repeat 0 calls f, repeat 1 answers"),
        ([said("a")], [said("b")], "repeat 0 answers, repeat 1 too, but in other words"),
        (
            [called("f")],
            [called("f", '{"a":1}')],
            "repeat 0 calls f, repeat 1 too, but with other arguments",
        ),
        ([answered("a")], [said("a")], "repeat 0 gets a result of a tool, repeat 1 answers"),
        ([], [said("a")], "repeat 0 has ended, repeat 1 answers"),
    ]:
        same = [said(str(n)) for n in range(PORTION + 1)]
        found = first_difference(repeats([*same, *one], [*same, *other, said("z")]))
        assert found == FirstDifference("turn", PORTION + 1, words)


def test_the_rest_of_a_text_that_was_cut_counts() -> None:
    long = "x" * (2 * TEXT_LIMIT)
    found = first_difference(repeats([said(f"{long}a")], [said(f"{long}b")]))
    assert found.index == 0
    assert first_difference(repeats([said(long)], [said(long)])).index is None


def test_the_one_that_differs_is_named_among_many() -> None:
    found = first_difference(repeats([said("a")], [said("a")], [called("f")]))
    assert found.words == "repeat 0 answers, repeat 2 calls f"


def test_steps_are_compared_where_there_are_any() -> None:
    response = Text("I click.", 8)
    steps = [StepView(n, "", action="click", url="u", response=response) for n in range(3)]
    typed = StepView(1, "", action="type", url="u", response=response)
    elsewhere = StepView(1, "", action="click", url="v", response=response)
    one = Stepping(0, steps)
    assert first_difference([one, Stepping(1, steps)]) == FirstDifference("step", None, "")
    found = first_difference([one, Stepping(1, [steps[0], typed])])
    assert found == FirstDifference("step", 1, "repeat 0 does click, repeat 1 does type")
    found = first_difference([one, Stepping(0, [steps[0], elsewhere])])
    words = "rollout 1 does click, rollout 2 too, but on another page or with another response"
    assert found == FirstDifference("step", 1, words)
    assert first_difference([one, Stepping(1, steps[:2])]).index == 2


def test_one_rollout_differs_from_nothing() -> None:
    assert first_difference(repeats([said("a")])).index is None
    assert first_difference([]).index is None
