"""The command line and the environment that every Chromium of the server is started with.

*No calls home.* Chromium contacts servers for updates, lists, models and statistics. All of that is
off here. The headless shell then opens no connection of its own. A full Chromium still tries a few,
and only finds the proxy of the guard's flags, which does not exist.

*Reproducible screenshots.* They should not depend on the machine: language, colours, text rendering
and window size are fixed, scroll bars are hidden, and pages are asked to reduce animation.

*Cost.* No GPU and no emulation of one. Frames of other sites share the process of their page;
sessions never share a process. A page keeps its frame when it navigates, which saves a fifth of the
CPU of a step. Background pages are not throttled, because all pages are in the background. Running
the GPU or network service inside the browser process saves no CPU and at most some ten megabytes
per browser, and a crash of it would end all sessions; without a zygote a session takes a third more
memory.

*Safety.* The sandbox stays on wherever it works. On Linux it needs either a helper that is setuid
root, or user namespaces, which root inside many containers and some distributions do not have;
without them Chromium only starts when the sandbox is switched off. Chromium itself refuses a
sandbox to root. User namespaces are tried out in a separate process, because no setting reports
them reliably: the filter of a container may forbid them, and some systems allow one but no rights
inside it. Permission requests are denied. A script that takes too much memory ends its page and no
other. Crash reporting cannot be switched off completely: with `--disable-crashpad-for-testing` the
pages of a full Chromium do not start.

*Environment.* The variables of the server hold tokens and keys, and a browser runs foreign code. So
it inherits only what a program needs to run. Its home is its own folder, without the certificates,
settings and caches of the user.

*Identity.* A headless Chromium presents itself like one with a window. There are two sources: the
user agent, one line of text, and its successor, the *client hints*, a list of brands and a few
facts that a page reads as `navigator.userAgentData` and a server in `Sec-CH-UA` headers. A flag
changes only the first; in the second the headless shell still calls itself headless. So every page
of a headless shell gets both by DevTools before it runs. A full Chromium or Chrome reports good
brands by itself. One of the brands is made up, and differs with each version, so that servers do
not rely on the list. It is computed here as Chromium does it: any other would be recognisable.
"""

import functools
import os
import platform
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from webgym.browser.chromium.executable import Browser
from webgym.browser.guard.guard import GUARDED_FLAGS

WINDOW = (1280, 768)
LANGUAGE = "en-US"
LANGUAGES = "en-US,en"
SCRIPT_HEAP_MEGABYTES = 512
SMALLEST_SHARED_MEMORY = 2**30
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Chromium puts bitmaps, not we

_OPERATION = (
    "--remote-debugging-pipe",
    "--no-startup-window",
    f"--window-size={WINDOW[0]},{WINDOW[1]}",
    f"--screen-info={{{WINDOW[0]}x{WINDOW[1]}}}",
    f"--js-flags=--max-old-space-size={SCRIPT_HEAP_MEGABYTES}",
)
_NO_CALLS_HOME = (
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-sync",
    "--dns-prefetch-disable",
    "--metrics-recording-only",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
    "--no-service-autorun",
)
_A_MOUSE = "primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"
"""The pointing device that pages see: it can hover and is precise. Menus depend on it."""
_REPRODUCIBLE = (
    "--disable-lcd-text",
    "--disable-smooth-scrolling",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--force-prefers-reduced-motion",
    "--hide-scrollbars",
    f"--lang={LANGUAGE}",
    f"--accept-lang={LANGUAGES}",
    f"--blink-settings={_A_MOUSE}",
)
_COST = (
    "--disable-gpu",
    "--disable-gpu-compositing",
    "--disable-software-rasterizer",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-site-isolation-trials",
    "--mute-audio",
)
_NO_PROMPTS = (
    "--allow-pre-commit-input",
    "--deny-permission-prompts",
    "--disable-hang-monitor",
    "--disable-prompt-on-repost",
    "--disable-search-engine-choice-screen",
    "--password-store=basic",
    "--use-mock-keychain",
)
_FEATURES_OFF = (
    # Cost.
    "BackForwardCache",
    "IsolateOrigins",
    "PaintHolding",
    "Prerender2",
    "RenderDocument",
    "SpareRendererForSitePerProcess",
    "site-per-process",
    # Cost: parts of the window of a full Chromium that take a process in every session.
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxPopup",
    # No calls home.
    "AutofillServerCommunication",
    "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider",
    "InterestFeedContentSuggestions",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "Translate",
    # Features that show dialogs to a user or change the address of a page.
    "FedCm",
    "GlobalMediaControls",
    "HardwareMediaKeyHandling",
    "HttpsUpgrades",
    "LensOverlay",
)


def command_line(browser: Browser, profile: Path) -> list[str]:
    """The browser's path and all its flags, for use over the pipe at descriptors 3 and 4."""
    headless = "--headless" if browser.kind == "headless-shell" else "--headless=new"
    line = [str(browser.path), headless, f"--user-data-dir={profile}"]
    line += [*_OPERATION, *_NO_CALLS_HOME, *_REPRODUCIBLE, *_COST, *_NO_PROMPTS, *GUARDED_FLAGS]
    line.append(f"--disable-features={','.join(_FEATURES_OFF)}")
    if browser.version:
        line.append(f"--user-agent={user_agent(browser.version)}")
    if not sandbox_is_possible(browser.path):
        line.append("--no-sandbox")
    if _shared_memory_is_small():
        line.append("--disable-dev-shm-usage")
    return line


def _shared_memory_is_small() -> bool:
    """Containers often have 64 MiB, and a page that runs out of it crashes."""
    try:
        found = os.statvfs(SHARED_MEMORY)
    except OSError:
        return sys.platform == "linux"
    return found.f_frsize * found.f_bavail < SMALLEST_SHARED_MEMORY


_HELPERS = ("chrome-sandbox", "chrome_sandbox")
_PROBE_TIMEOUT = 10.0
_PROBE = """
import ctypes, sys
NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
library = ctypes.CDLL(None)
sys.exit(library.unshare(NEW_USER) != 0 or library.unshare(NEW_NETWORK) != 0)
"""


def sandbox_is_possible(browser: Path) -> bool:
    """Whether this browser can run with its sandbox, as this user on this machine."""
    if sys.platform != "linux":
        return True
    if os.geteuid() == 0:
        return False
    return _has_helper(browser) or _has_user_namespaces()


def _has_helper(browser: Path) -> bool:
    for name in _HELPERS:
        helper = browser.resolve().parent / name
        if helper.exists():
            found = helper.stat()
            return found.st_uid == 0 and bool(found.st_mode & stat.S_ISUID)
    return False


@functools.cache
def _has_user_namespaces() -> bool:
    probe = subprocess.run(  # noqa: S603 - a constant
        [sys.executable, "-I", "-c", _PROBE],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_PROBE_TIMEOUT,
        check=False,
    )
    return probe.returncode == 0


_INHERITED = re.compile("PATH|LANG|LANGUAGE|LC_.*|TZ|FONTCONFIG_.*|LD_LIBRARY_PATH")


def browser_environment(inherited: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The environment variables of a browser with this folder."""
    kept = {name: value for name, value in inherited.items() if _INHERITED.fullmatch(name)}
    return kept | {"HOME": str(folder), "TMPDIR": str(folder)}


_GREASE = " (:-./);=?_"
_GREASE_VERSIONS = ("8", "99", "24")


def user_agent(version: str) -> str:
    """The user agent. As in Chromium, it has only the first number of the version."""
    system = (
        "Macintosh; Intel Mac OS X 10_15_7" if sys.platform == "darwin" else "X11; Linux x86_64"
    )
    return (
        f"Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) "
        f"Chrome/{_major(version)}.0.0.0 Safari/537.36"
    )


def identity(browser: Browser) -> Mapping[str, object] | None:
    """User agent and client hints for `Emulation.setUserAgentOverride`; None for a full browser."""
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


def _brands(version: str, shown: str) -> list[dict[str, str]]:
    """`shown` is the full version or its first number; the made-up brand uses the same form."""
    seed = _major(version)
    brand = f"Not{_GREASE[seed % len(_GREASE)]}A{_GREASE[(seed + 1) % len(_GREASE)]}Brand"
    number = _GREASE_VERSIONS[seed % len(_GREASE_VERSIONS)]
    made_up = {"brand": brand, "version": f"{number}.0.0.0" if "." in shown else number}
    real = {"brand": "Chromium", "version": shown}
    return [real, made_up] if seed % 2 else [made_up, real]


def _major(version: str) -> int:
    return int(version.partition(".")[0])
