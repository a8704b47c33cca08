"""A promise that does not hold."""


class Violation(AssertionError):  # noqa: N818 - a finding about another program, no error of ours
    """Names the promise, by its number, and what was seen."""

    def __init__(self, promise: int, seen: str) -> None:
        super().__init__(f"promise {promise}: {seen}")
        self.promise = promise


def require(holds: bool, promise: int, seen: str) -> None:
    if not holds:
        raise Violation(promise, seen)
