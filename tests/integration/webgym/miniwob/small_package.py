"""A package like `miniwob`, with a few pages of our own."""

from pathlib import Path

from webgym.miniwob.package import Package

PAGE = """<!DOCTYPE html>
<html><head><title>{name}</title>
<script src="../core/core.js"></script>
<script>window.onload = function () {{ core.startEpisode(); }}</script>
</head><body><div id="query">Do it.</div></body></html>
"""
SOURCE = '''
class ClickEnv(MiniWoBEnvironment):
    """
    ## Description

    Click on a
    button.

    ## Example utterances

    * Click.
    """

    subdomain = "click-button"


class ClickSlowlyEnv(MiniWoBEnvironment):
    """
    ## Description

    [click-button] Taking one's time.

    ## Utterance fields
    """

    subdomain = "click-slowly"


class UndescribedEnv(MiniWoBEnvironment):
    subdomain = "circle-center"
'''
NAMES = ("circle-center", "click-button", "click-slowly", "drag-cube", "stock-market")


def make_package(folder: Path) -> Package:
    for part in ("html/miniwob", "html/core", "html/common/special", "envs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / "html/miniwob" / f"{name}.html").write_text(PAGE.format(name=name))
    (folder / "html/core/core.js").write_text("var core = {};")
    (folder / "html/common/ui_utils.js").write_text("var ui_utils = {};")
    (folder / "envs/miniwob_envs.py").write_text("from nothing import *\n" + SOURCE)
    (folder / "secret.txt").write_text("not to be served")
    return Package(folder)
