"""The arguments of actions: their types, what is allowed, and how prompts describe them."""

from typing import Annotated, Literal

from msgspec import Meta

from webgym.actions.base import FULL_SCALE
from webgym.browser.contract.commands import FILE_NAME, LONGEST_SLEEP

Text = Annotated[str, Meta(max_length=100_000, description="a text")]
Option = Annotated[str, Meta(max_length=1_000, description="the text of an option of the list")]
Time = Annotated[
    float, Meta(ge=0, le=LONGEST_SLEEP, description=f"seconds, from 0 to {LONGEST_SLEEP:g}")
]
Url = Annotated[
    str,
    Meta(
        pattern=r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/]",
        max_length=8_192,
        description="a whole address, such as https://example.org/page",
    ),
]
Keys = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=32)], ...],
    Meta(
        min_length=1,
        max_length=8,
        description='a list of keys to press together, such as ["Enter"] or ["Control", "a"]',
    ),
]
UpOrDown = Annotated[Literal["up", "down"], Meta(description="up or down")]
Direction = Annotated[
    Literal["up", "down", "left", "right"], Meta(description="up, down, left or right")
]
PressEnter = Annotated[bool, Meta(description="false to type without pressing Enter after it")]
Offset = Annotated[
    tuple[Annotated[float, Meta(ge=-FULL_SCALE, le=FULL_SCALE)], ...],
    Meta(
        min_length=2,
        max_length=2,
        description="[right, down], two numbers in thousandths of the screen's width and "
        "height; negative ones are left and up",
    ),
]
Value = Annotated[float, Meta(ge=-1e12, le=1e12, description="a number")]
TabNumber = Annotated[int, Meta(ge=1, le=10**6, description="the number of a tab")]
FileName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        pattern=FILE_NAME,
        description="the name of one of the task's files",
    ),
]
