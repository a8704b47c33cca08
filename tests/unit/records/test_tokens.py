"""The tokens of a rollout: stored once, and read as branches."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.records.branches import Branch, SampledRange, branches_of
from rollgym.records.packing import (
    TokenError,
    as_ids,
    pack_each,
    pack_ids,
    pack_numbers,
    unpack_ids,
    unpack_numbers,
)
from rollgym.records.tokens import (
    BreakReason,
    TokenLog,
    TokenSample,
    TokenTurn,
    TurnKind,
)
from rollgym.records.version import TurnVersion, body_version

IDS = st.lists(st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1)), max_size=30)


@given(parts=st.lists(IDS, max_size=5))
def test_ids_are_packed_together_as_each_alone(parts: list[list[int]]) -> None:
    assert pack_each([*map(as_ids, parts)]) == [*map(pack_ids, parts)]
    for ids, text in zip(parts, map(pack_ids, parts), strict=True):
        fewest = max(2, *((number.bit_length() + 7) // 8 for number in ids)) if ids else ""
        assert text[:1] == str(fewest)


@given(ids=IDS, numbers=st.lists(st.floats(allow_nan=False), max_size=30))
def test_packed_numbers_come_back_as_they_were(ids: list[int], numbers: list[float]) -> None:
    assert unpack_ids(pack_ids(ids)) == ids
    assert unpack_numbers(pack_numbers(numbers)) == numbers


def test_packed_numbers_take_as_few_bytes_as_is_exact() -> None:
    assert [pack_ids([1, top])[0] for top in (65535, 65536, 1 << 24, 1 << 63)] == list("2348")
    assert pack_numbers([-0.5, -1.25])[0] == "4"
    assert pack_numbers([-0.1])[0] == "8"
    for text in ("2A", "x", "9AAAA", "2AAAA", "0"):
        with pytest.raises(TokenError):
            unpack_ids(text)


def sample(prompt: list[int], sampled: list[int], **more: object) -> TokenSample:
    logprobs = [-0.5 * each for each in sampled]
    return msgspec.convert(
        {"prompt": prompt, "sampled": sampled, "logprobs": logprobs, **more}, TokenSample
    )


def test_a_conversation_that_continues_is_one_branch_and_each_token_is_stored_once() -> None:
    log = TokenLog()
    log.add(sample([1, 2], [3, 4]))
    log.add(sample([1, 2, 3, 4, 5], [6]))
    log.add(sample([1, 2, 3, 4, 5, 6, 7], [8]))
    assert [len(unpack_ids(turn.prompt)) for turn in log.turns] == [2, 1, 1]
    turns = msgspec.json.decode(msgspec.json.encode(log.turns), type=list[TokenTurn])
    versions = [TurnVersion.of(["v1", "v2"]), TurnVersion("v2"), TurnVersion()]
    assert branches_of(turns, versions) == [
        Branch(
            input_ids=[1, 2, 3, 4, 5, 6, 7, 8],
            loss_mask=[0, 0, 1, 1, 0, 1, 0, 1],
            logprobs=[0, 0, -1.5, -2.0, 0, -3.0, 0, -4.0],
            turns=(0, 1, 2),
            versions=("v1", "v2"),
            # Which of two versions sampled which token is unknown, and so is the last turn.
            version_ranges=(
                SampledRange(2, 4, ""),
                SampledRange(5, 6, "v2"),
                SampledRange(7, 8, ""),
            ),
        )
    ]


def test_a_server_can_say_which_version_sampled_which_tokens() -> None:
    log = TokenLog()
    log.add(sample([1, 2], [3, 4, 5]))
    log.skip_to(2)  # a turn without tokens
    log.add(sample([1, 2, 3, 4, 5, 6], [7, 8]))
    told = body_version({"policy_versions": [[7, 1], ["8", 2]]})
    wrong = body_version({"policy_versions": [[8, 1], [9, 5]]})
    (branch,) = branches_of(log.turns, [told, TurnVersion("1"), wrong])
    assert branch.turns == (0, 2)
    assert branch.versions == ("7", "8", "9")
    ranges = [(2, 3, "7"), (3, 5, "8"), (6, 8, "")]  # six tokens are not two
    assert [(each.start, each.end, each.version) for each in branch.version_ranges] == ranges


def test_rows_of_earlier_versions_have_the_versions_in_their_tokens() -> None:
    turns = [
        TokenTurn(prompt=pack_ids([1]), sampled=pack_ids([2]), version="m"),
        TokenTurn(after=0, prompt=pack_ids([3]), sampled=pack_ids([4])),
    ]
    (branch,) = branches_of(turns)
    assert [each.version for each in branch.version_ranges] == ["m", "m"]


@pytest.mark.parametrize(
    ("prompt", "kind", "reason", "kept"),
    [
        ([1, 9, 3, 4, 5, 6, 7], TurnKind(), BreakReason.PROMPT, 1),
        ([9], TurnKind(), BreakReason.PROMPT, 0),
        ([1, 2, 9], TurnKind(reasoning=True, tool_calls=True), BreakReason.REASONING, 2),
        ([1, 2, 3, 4, 5, 6, 9], TurnKind(reasoning=True), BreakReason.TEXT, 6),
        ([1, 2, 3, 4, 9], TurnKind(tool_calls=True), BreakReason.TOOL_CALL, 4),
        ([1, 2, 3, 4, 5, 6, 7, 10, 11], TurnKind(tool_calls=True), BreakReason.END, 7),
    ],
)
def test_a_break_says_where_and_why_and_nothing_is_in_the_loss_twice(
    prompt: list[int], kind: TurnKind, reason: BreakReason, kept: int
) -> None:
    log = TokenLog()
    log.add(sample([1, 2], [3, 4, 5, 6, 7, 8]), kind)
    log.add(sample(prompt, [20]))
    first, second = branches_of(log.turns)
    assert first.loss_mask == [0, 0, 1, 1, 1, 1, 1, 1]
    assert (second.reason, second.left_at) == (reason, kept)
    assert second.input_ids == [*prompt, 20]
    assert second.loss_mask == [0] * len(prompt) + [1]


CHAINS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 12), IDS, IDS.filter(bool)), max_size=12
)


@given(chains=CHAINS)
def test_every_turn_comes_back_from_the_branches(
    chains: list[tuple[int, int, list[int], list[int]]],
) -> None:
    log, whole = TokenLog(), [list[int]()]
    for back, dropped, said, sampled in chains:
        start = whole[-min(back, len(whole) - 1) - 1]
        prompt = [*start[: len(start) - dropped], *said]
        log.add(sample(prompt, sampled))
        whole.append(prompt + sampled)
        if dropped % 2:  # asking in between changes nothing
            assert len(log.turns) == len(whole) - 1
    branches = branches_of(log.turns)
    ends = {turn: branch for branch in branches for turn in branch.turns}
    for number, ids in enumerate(whole[1:]):
        assert ends[number].input_ids[: len(ids)] == ids
    assert sum(sum(branch.loss_mask) for branch in branches) == sum(len(x[3]) for x in chains)


def test_tokens_that_do_not_fit_together_are_marked_and_not_in_the_loss() -> None:
    fields = {"prompt_token_ids": [1], "generation_token_ids": [2, 3]}
    log = TokenLog()
    for logprobs in ([-0.5, None], "?", [-0.5]):
        bad = TokenSample.of({**fields, "generation_log_probs": logprobs})
        assert bad is not None
        assert bad.problem
        assert ([*bad.sampled], bad.logprobs) == ([2, 3], None)
        if logprobs == [-0.5]:
            log.add(bad)
    log.add(sample([1, 2, 3, 4], [5]))
    (branch,) = branches_of(log.turns)
    assert branch.loss_mask == [0, 0, 0, 0, 1]
    assert branch.logprobs == [0, 0, 0, 0, -2.5]
    assert len(branch.problems) == 1
    for ids in ([0.5], [-1], [2**64], None, "?"):
        worse = TokenSample.of({**fields, "generation_token_ids": ids})
        assert worse is not None
        assert (worse.sampled, bool(worse.problem)) == ((), True)
    assert TokenSample.of({}) is None


def test_log_probabilities_that_are_unknown_leave_the_ids_in_the_loss() -> None:
    log = TokenLog()
    log.add(sample([1], [2], logprobs=None))
    (branch,) = branches_of(log.turns)
    assert (branch.loss_mask, branch.logprobs) == ([0, 1], None)


@pytest.mark.parametrize(
    "turns",
    [
        [TokenTurn(after=0, prompt=pack_ids([1]))],
        [TokenTurn(prompt=pack_ids([1])), TokenTurn(after=0, keep=2, sampled=pack_ids([1]))],
        [TokenTurn(sampled=pack_ids([1]), logprobs=pack_numbers([0.5, 1]))],
    ],
)
def test_turns_that_cannot_be_read_are_named(turns: list[TokenTurn]) -> None:
    with pytest.raises(TokenError, match=f"the tokens of turn {len(turns) - 1} cannot be read"):
        branches_of(turns)
