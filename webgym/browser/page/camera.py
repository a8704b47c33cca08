"""Pictures of a tab.

Chromium cannot take one while a page is being replaced by another, and says so or says nothing.
Neither is a failure of the page: the picture is taken again when the page has moved on, inside the
deadline.
"""

import asyncio

import msgspec

from webgym.browser.chromium.connection import CallError
from webgym.browser.contract.answers import ImageFormat, Picture
from webgym.browser.page.tab import Tab

TAKEN_WITHIN = 5.0
RETRY_AFTER = 0.1


class _Captured(msgspec.Struct):
    data: bytes


_READ_CAPTURED = msgspec.json.Decoder(_Captured).decode


async def take_picture(
    tab: Tab, image_format: ImageFormat, quality: int, deadline: float
) -> Picture:
    """What the viewport shows. Raises TimeoutError when there was none by the deadline."""
    now = asyncio.get_running_loop().time
    params: dict[str, object] = {"format": image_format, "optimizeForSpeed": image_format == "png"}
    if image_format != "png":
        params["quality"] = quality
    while True:
        try:
            soon = min(deadline, now() + TAKEN_WITHIN)
            answer = await tab.call("Page.captureScreenshot", params, deadline=soon)
            return Picture(f"image/{image_format}", _READ_CAPTURED(answer).data)
        except (CallError, TimeoutError) as error:
            if now() >= deadline:
                raise TimeoutError(f"no screenshot before the deadline: {error}") from error
        await tab.activity.changed(min(RETRY_AFTER, deadline - now()))
