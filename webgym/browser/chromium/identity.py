"""What a browser says of itself: the same as if it had a window.

There are two ways to ask: the user agent, one line of text, and its successor, the *client hints*,
a list of brands and a few facts that a page reads as `navigator.userAgentData` and a server in
`Sec-CH-UA` headers. The command line changes the first only; in the second the headless shell still
calls itself headless. So each of its pages is told both before it runs, and both say the same. A
full Chromium or Chrome names its brands well without help.

One of the brands is made up, another for each version, so that servers do not rely on the list. It
is made here the way that Chromium makes it: any other would be a mark of its own.
"""

import platform
import sys
from collections.abc import Mapping

from webgym.browser.chromium.executable import Browser

_GREASE = " (:-./);=?_"
_GREASE_VERSIONS = ("8", "99", "24")


def user_agent(version: str) -> str:
    """The line of text. Beyond the first number of the version it tells nothing, as in Chromium."""
    system = (
        "Macintosh; Intel Mac OS X 10_15_7" if sys.platform == "darwin" else "X11; Linux x86_64"
    )
    return (
        f"Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) "
        f"Chrome/{_major(version)}.0.0.0 Safari/537.36"
    )


def identity(browser: Browser) -> Mapping[str, object] | None:
    """Both, as `Emulation.setUserAgentOverride` takes them; None for one that needs no help."""
    version = browser.version
    if browser.kind != "headless-shell" or not version:
        return None
    on_mac = sys.platform == "darwin"
    return {
        "userAgent": user_agent(version),
        "userAgentMetadata": {
            "brands": _brands(version, str(_major(version))),
            "fullVersionList": _brands(version, version),
            "fullVersion": version,
            "platform": "macOS" if on_mac else "Linux",
            "platformVersion": platform.mac_ver()[0],
            "architecture": "arm" if on_mac and platform.machine() == "arm64" else "x86",
            "bitness": "64",
            "model": "",
            "mobile": False,
            "wow64": False,
            "formFactors": ["Desktop"],
        },
    }


def _brands(version: str, told: str) -> list[dict[str, str]]:
    """The version told is a whole one or its first number; the made-up brand follows suit."""
    seed = _major(version)
    brand = f"Not{_GREASE[seed % len(_GREASE)]}A{_GREASE[(seed + 1) % len(_GREASE)]}Brand"
    number = _GREASE_VERSIONS[seed % len(_GREASE_VERSIONS)]
    made_up = {"brand": brand, "version": f"{number}.0.0.0" if "." in told else number}
    real = {"brand": "Chromium", "version": told}
    return [real, made_up] if seed % 2 else [made_up, real]


def _major(version: str) -> int:
    return int(version.partition(".")[0])
