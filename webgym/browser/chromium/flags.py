"""The command line that every Chromium of the server is started with.

*Silence.* A browser calls home for updates, lists, models, statistics. All of that is off here. The
headless shell then makes no connection of its own; a full Chromium still tries a few, and finds
only the proxy of the guard's flags, which leads nowhere.

*Sameness.* Screenshots should not depend on the machine: fixed language, colours, text rendering
and window; no scroll bars; no animation where a page asks first.

*Cost.* No GPU and no emulation of one. Frames of other sites share their page's process; sessions
never share one. A page keeps its frame when it goes on to the next, which saves a fifth of the CPU
of a step. Pages in the background are not slowed down, since all pages are in the background:
nobody looks. Doing the GPU's or the network's work in the browser's process saves no CPU and at
most some ten megabytes a browser, and its crash would be everybody's; without a zygote a session
takes a third more memory.

*Safety.* The sandbox stays on wherever it can be (`sandbox`). Nobody is there to be asked: requests
for permissions are refused. A script that takes too much memory ends its page and no other.

Crash reporting cannot be turned off altogether: with `--disable-crashpad-for-testing` the pages of
a full Chromium do not start.
"""

import os
import sys
from pathlib import Path

from webgym.browser.chromium.executable import Browser
from webgym.browser.chromium.identity import user_agent
from webgym.browser.chromium.sandbox import sandbox_is_possible
from webgym.browser.guard.flags import GUARDED_FLAGS

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
_SILENCE = (
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
"""What pages are told of the pointing device: it can hover and is precise. Menus depend on it."""
_SAMENESS = (
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
_NOBODY_THERE = (
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
    # Silence.
    "AutofillServerCommunication",
    "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider",
    "InterestFeedContentSuggestions",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "Translate",
    # What would show itself to a user, or change a page's address behind our back.
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
    line += [*_OPERATION, *_SILENCE, *_SAMENESS, *_COST, *_NOBODY_THERE, *GUARDED_FLAGS]
    line.append(f"--disable-features={','.join(_FEATURES_OFF)}")
    if browser.version:
        line.append(f"--user-agent={user_agent(browser.version)}")
    if not sandbox_is_possible(browser.path):
        line.append("--no-sandbox")
    if _shared_memory_is_small():
        line.append("--disable-dev-shm-usage")
    return line


def _shared_memory_is_small() -> bool:
    """Containers often have 64 MiB of it, and a page that finds no more crashes."""
    try:
        found = os.statvfs(SHARED_MEMORY)
    except OSError:
        return sys.platform == "linux"
    return found.f_frsize * found.f_bavail < SMALLEST_SHARED_MEMORY
