"""How the pages of a session see their browser: size, language, time zone and user agent."""

from collections.abc import Mapping

from webgym.browser.contract.profile import SessionProfile

DevToolsCommand = tuple[str, dict[str, object]]


def tab_commands(profile: SessionProfile) -> list[DevToolsCommand]:
    """The commands that set up a new tab, before it runs."""
    size: dict[str, object] = {
        "width": profile.viewport.width,
        "height": profile.viewport.height,
        "screenWidth": profile.viewport.width,
        "screenHeight": profile.viewport.height,
        "deviceScaleFactor": 1,
        "mobile": False,
    }
    commands: list[DevToolsCommand] = [("Emulation.setDeviceMetricsOverride", size)]
    if profile.locale is not None:
        commands.append(("Emulation.setLocaleOverride", {"locale": profile.locale}))
    if profile.timezone is not None:
        commands.append(("Emulation.setTimezoneOverride", {"timezoneId": profile.timezone}))
    return commands


def identity_of(
    profile: SessionProfile, usual: Mapping[str, object] | None
) -> Mapping[str, object] | None:
    """The parameters of `Emulation.setUserAgentOverride`; None: the browser's own identity.

    A user agent of the client has no client hints, because those of the browser would contradict
    it.
    """
    language = profile.accept_language
    if profile.user_agent is not None:
        identity: dict[str, object] = {"userAgent": profile.user_agent}
    elif language is None:
        return usual
    else:
        identity = dict(usual or {"userAgent": ""})
    return identity if language is None else {**identity, "acceptLanguage": language}
