"""Many cases in one test: a table that is checked row by row.

`@for_each("text, expected", [...])` is written like `pytest.mark.parametrize`, but the rows are one
test. The first row that fails is named in a note of the error. Fixtures are shared by all rows.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any


def for_each(
    names: str | Sequence[str], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test once for each row of values."""
    given = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    table = list(rows)
    assert table, "a test needs at least one row"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @wraps(test)
        def run(**fixtures: Any) -> None:
            for row in table:
                values = (row,) if len(given) == 1 else row
                arguments = dict(zip(given, values, strict=True))
                try:
                    test(**arguments, **fixtures)
                except BaseException as error:
                    error.add_note(f"in the case {arguments}")
                    raise

        left = [each for each in signature.parameters.values() if each.name not in given]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        # Otherwise pytest would look at the parameters of the test itself.
        del run.__wrapped__
        return run

    return decorate
