"""The exact tokens of a rollout for the viewer: its branches by their lengths, ids on request.

`rollgym.records.branches` says what a branch is. There all of its ids are in one list; here a
branch knows only where the pieces of each turn are, and which other branch it begins with.
Lengths follow from the lengths of the packed texts, so a rollout with millions of tokens is opened
without unpacking any, and a portion unpacks only the turns that it shows.
"""

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from rollgym.records.packing import TokenError, packed_count, unpack_ids, unpack_numbers
from rollgym.records.tokens import TokenTurn
from rollgym.records.version import UNKNOWN, TurnVersion
from rollgym.rollouts.token_rows import RolloutTokens
from rollgym.viewer.documents.conversation import version_words
from rollgym.viewer.documents.texts import short
from rollgym.viewer.view import (
    RolloutDocument,
    TokenBranchView,
    TokenKind,
    TokenRun,
    TokensView,
)

MOST_BRANCHES = 1_000
MOST_VERSIONS = 8
LONGEST_PORTION = 2_048
_LONGEST_TEXT = 60
_EXACT = 2**53
"""Larger ids are sent as texts, because browsers would round them."""

TextsOf = Callable[[TokenTurn], Sequence[str] | None]


class _Piece:
    """The prompt or the sampled ids of a turn in a branch; `start` is its place there."""

    __slots__ = ("count", "sampled", "start", "turn")

    def __init__(self, turn: int, start: int, count: int, *, sampled: bool) -> None:
        self.turn = turn
        self.start = start
        self.count = count
        self.sampled = sampled


class _Branch:
    """Its first `keep` ids are those of the parent; the pieces follow."""

    __slots__ = ("first", "keep", "length", "parent", "pieces", "sampled", "starts", "turns")

    def __init__(self, first: TokenTurn, parent: "_Branch | None", keep: int) -> None:
        self.first = first
        self.parent = parent
        self.keep = self.length = keep
        self.pieces: list[_Piece] = []
        self.starts: list[int] = []
        self.turns: list[int] = []
        self.sampled = 0

    def extend(self, number: int, turn: TokenTurn) -> None:
        self.turns.append(number)
        for text, sampled in ((turn.prompt, False), (turn.sampled, True)):
            count = packed_count(text)
            if count:
                self.pieces.append(_Piece(number, self.length, count, sampled=sampled))
                self.starts.append(self.length)
                self.length += count
        self.sampled += 0 if turn.problem else packed_count(turn.sampled)

    def own(self, start: int, end: int) -> Iterator[tuple[_Piece, int, int]]:
        """The pieces of a range that are not the parent's, with the part of the range in each."""
        first = max(0, bisect_right(self.starts, start) - 1)
        for piece in islice(self.pieces, first, None):
            if piece.start >= end:
                return
            begins, ends = max(start, piece.start), min(end, piece.start + piece.count)
            if begins < ends:
                yield piece, begins, ends

    def between(self, start: int, end: int) -> Iterator[tuple["_Branch", _Piece, int, int]]:
        """The pieces of a range, with the branch of each and the part of the range in it."""
        found: list[tuple[_Branch, _Piece, int, int]] = []
        branch: _Branch | None = self
        while branch is not None and start < end:
            own = [(branch, *each) for each in branch.own(start, end)]
            found = own + found
            end = min(end, branch.keep)
            branch = branch.parent
        yield from found


class TokenMap:
    """The branches of a rollout. Raises TokenError for tokens that cannot be read."""

    def __init__(self, tokens: RolloutTokens, texts_of: TextsOf | None = None) -> None:
        """`texts_of` gives the texts of the sampled tokens of a turn, where they are known."""
        self._turns, self._versions = tokens.turns, tokens.versions
        self._texts_of = texts_of
        self._branches: list[_Branch] = []
        of_turn: dict[int, tuple[_Branch, int]] = {}
        for number, turn in enumerate(tokens.turns):
            if not turn.prompt and not turn.sampled and turn.after is None:
                continue
            branch = self._branch_of(turn, number, of_turn)
            branch.extend(number, turn)
            of_turn[number] = branch, branch.length
        if not tokens.versions:
            self._versions = _inherited(tokens.turns)

    def view(self) -> TokensView:
        """All branches without their ids."""
        shown = self._branches[:MOST_BRANCHES]
        return TokensView(
            branches=tuple(self._branch_view(branch, n) for n, branch in enumerate(shown)),
            left_out=len(self._branches) - len(shown),
        )

    def portion(self, branch: int, start: int, count: int) -> list[TokenRun]:
        """At most `count` tokens of a branch. Raises KeyError for an unknown one, TokenError."""
        if not 0 <= branch < len(self._branches):
            raise KeyError(branch)
        chosen = self._branches[branch]
        end = min(chosen.length, start + min(count, LONGEST_PORTION))
        return [
            run
            for owner, piece, begins, ends in chosen.between(start, end)
            for run in self._runs(piece, begins, ends, repeated=owner is not chosen)
        ]

    def _branch_of(
        self, turn: TokenTurn, number: int, of_turn: dict[int, tuple[_Branch, int]]
    ) -> _Branch:
        if turn.after is None:
            branch = _Branch(turn, None, 0)
        elif turn.after not in of_turn:
            raise TokenError(f"turn {number} follows turn {turn.after}, which has no tokens")
        else:
            parent, length = of_turn[turn.after]
            if turn.keep is None and length == parent.length:
                return parent
            keep = length if turn.keep is None else turn.keep
            if not 0 <= keep <= length:
                raise TokenError(f"turn {number} keeps {keep} of {length} ids")
            branch = _Branch(turn, parent, keep)
        self._branches.append(branch)
        return branch

    def _branch_view(self, branch: _Branch, number: int) -> TokenBranchView:
        turns = [self._turns[each] for each in branch.turns]
        names = dict.fromkeys(
            part.version
            for each in branch.turns
            for part in self._version(each).parts or (self._version(each),)
        )
        return TokenBranchView(
            index=number,
            tokens=branch.length,
            sampled=branch.sampled,
            first_turn=branch.turns[0],
            turns=len(branch.turns),
            reason=short(branch.first.reason),
            left_at=branch.keep,
            versions=_shown([short(name) for name in names if name]),
            problems=tuple(dict.fromkeys(short(each.problem) for each in turns if each.problem)),
            has_logprobs=any(each.logprobs for each in turns),
        )

    def _version(self, turn: int) -> TurnVersion:
        return self._versions[turn] if turn < len(self._versions) else UNKNOWN

    def _runs(self, piece: _Piece, start: int, end: int, *, repeated: bool) -> Iterator[TokenRun]:
        """The tokens of a piece from `start` to `end`, one run for each policy version."""
        turn = self._turns[piece.turn]
        a, b = start - piece.start, end - piece.start
        if not piece.sampled:
            ids = unpack_ids(turn.prompt)[a:b]
            yield TokenRun(start, piece.turn, TokenKind.PROMPT, _sent(ids))
            return
        ids, logprobs = unpack_ids(turn.sampled), unpack_numbers(turn.logprobs)
        texts = self._texts_of(turn) if self._texts_of else None
        known = len(logprobs) == len(ids)
        kind = TokenKind.SAMPLED
        if repeated or turn.problem:
            kind = TokenKind.REPEATED if repeated else TokenKind.UNUSED
        for begins, ends, version in self._version_spans(piece.turn, len(ids)):
            first, last = max(a, begins), min(b, ends)
            if first < last:
                yield TokenRun(
                    piece.start + first,
                    piece.turn,
                    kind,
                    _sent(ids[first:last]),
                    logprobs=logprobs[first:last] if known else [],
                    texts=[text[:_LONGEST_TEXT] for text in texts[first:last]]
                    if texts is not None and len(texts) == len(ids)
                    else [],
                    version=short(version),
                )

    def _version_spans(self, turn: int, sampled: int) -> Iterator[tuple[int, int, str]]:
        """Which version sampled which ids of a turn; all of them together if that is unknown."""
        version = self._version(turn).checked(sampled)
        if not version.parts or version.parts[0].tokens is None:
            yield 0, sampled, version_words(version.version, version.parts)
            return
        start = 0
        for part in version.parts:
            yield start, start + (part.tokens or 0), part.version
            start += part.tokens or 0


def _shown(versions: Sequence[str]) -> tuple[str, ...]:
    """The versions, of many the first and the last ones."""
    if len(versions) <= MOST_VERSIONS:
        return tuple(versions)
    return (*versions[: MOST_VERSIONS // 2], "\N{HORIZONTAL ELLIPSIS}", versions[-1])


def _inherited(turns: Sequence[TokenTurn]) -> list[TurnVersion]:
    """The versions in tokens of earlier versions of rollgym."""
    found, latest = [], ""
    for turn in turns:
        latest = turn.version or latest
        found.append(TurnVersion(latest))
    return found


def _sent(ids: Sequence[int]) -> list[int | str]:
    return [each if each < _EXACT else str(each) for each in ids]


class TokenDocument(RolloutDocument):
    """A record with exact tokens, whose class makes their map when it is first needed."""

    @property
    @abstractmethod
    def token_map(self) -> TokenMap: ...

    def tokens(self) -> TokensView:
        return self.token_map.view()

    def token_runs(self, branch: int, start: int, count: int) -> list[TokenRun]:
        return self.token_map.portion(branch, start, count)
