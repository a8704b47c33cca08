"""The viewer's branches of tokens are those that trainers get, without reading all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.records.packing import TokenError, pack_ids, pack_numbers, packed_count
from rollgym.records.tokens import TokenLog, TokenSample, TokenTurn
from rollgym.records.version import TurnVersion, VersionPart
from rollgym.rollouts.token_rows import RolloutTokens
from rollgym.viewer.documents.token_map import TokenMap
from rollgym.viewer.view import TokenKind

IDS = st.lists(st.integers(0, 3), min_size=1, max_size=6)


@given(ids=st.lists(st.integers(0, 2**63), max_size=20), numbers=st.lists(st.floats(-9, 0)))
def test_a_packed_text_says_how_many_numbers_it_has(ids: list[int], numbers: list[float]) -> None:
    assert packed_count(pack_ids(ids)) == len(ids)
    assert packed_count(pack_numbers(numbers)) == len(numbers)


@given(turns=st.lists(st.tuples(st.booleans(), IDS, IDS), max_size=8), size=st.integers(1, 7))
def test_the_branches_are_those_of_an_export(
    turns: list[tuple[bool, list[int], list[int]]], size: int
) -> None:
    log, whole = TokenLog(), list[int]()
    for continues, added, sampled in turns:
        prompt = [*whole, *added] if continues else added
        log.add(TokenSample(prompt=prompt, sampled=sampled, logprobs=[-0.5] * len(sampled)))
        whole = prompt + sampled
    tokens = RolloutTokens(log.turns, [TurnVersion(str(n)) for n in range(len(log.turns))])
    found, expected = TokenMap(tokens), tokens.branches()
    views = found.view().branches
    assert [(each.tokens, each.sampled, each.left_at, each.reason) for each in views] == [
        (len(each.input_ids), sum(each.loss_mask), each.left_at, each.reason) for each in expected
    ]
    for view, branch in zip(views, expected, strict=True):
        runs = [
            run
            for start in range(0, view.tokens, size)
            for run in found.portion(view.index, start, size)
        ]
        assert [each for run in runs for each in run.ids] == branch.input_ids
        in_loss = [int(run.kind is TokenKind.SAMPLED) for run in runs for _ in run.ids]
        assert in_loss == branch.loss_mask
        said = {
            run.start + at: run.version
            for run in runs
            for at in range(len(run.ids))
            if run.kind is TokenKind.SAMPLED
        }
        ranges = branch.version_ranges
        assert said == {at: each.version for each in ranges for at in range(each.start, each.end)}


def test_tokens_that_cannot_be_read_are_an_error_and_what_is_unused_is_marked() -> None:
    sampled = pack_ids([1, 2])
    parts = (VersionPart("7"), VersionPart("8"))
    unused = RolloutTokens([TokenTurn(sampled=sampled, problem="odd")], [TurnVersion("8", parts)])
    (run,) = TokenMap(unused).portion(0, 0, 9)
    assert (run.kind, run.version) == (TokenKind.UNUSED, "7 \N{RIGHTWARDS ARROW} 8")
    assert TokenMap(unused).view().branches[0].problems == ("odd",)
    for turn in (TokenTurn(sampled="xAAA"), TokenTurn(after=3, sampled=sampled)):
        with pytest.raises(TokenError):
            TokenMap(RolloutTokens([turn], []))
    with pytest.raises(KeyError):
        TokenMap(unused).portion(1, 0, 1)
