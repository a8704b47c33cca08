"""`python -m webgym.browser.chromium`: find the browser, start it, and print its path.

The set-up script runs this to learn whether the browser that it found or downloaded works here.
"""

import asyncio
import sys

from webgym.browser.chromium.executable import Browser, NoBrowserError, find_browser
from webgym.browser.chromium.process import Chromium, LaunchError

LAUNCH_SECONDS = 60.0


async def start(browser: Browser) -> None:
    """Start the browser and close it again. Raises LaunchError."""
    deadline = asyncio.get_running_loop().time() + LAUNCH_SECONDS
    chromium = await Chromium.launch(browser, deadline)
    await chromium.close()


def main() -> int:
    try:
        browser = find_browser()
        asyncio.run(start(browser))
    except (NoBrowserError, LaunchError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{browser.path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
