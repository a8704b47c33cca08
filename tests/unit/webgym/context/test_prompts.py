from typing import get_args

import msgspec
import pytest
from pydantic import ValidationError

from webgym.actions.space import TOOLS
from webgym.actions.tool_calls import actions_of, tool_schema
from webgym.browser.contract.commands import InteractionMode
from webgym.context.formats import ObservationKind
from webgym.context.parsers import parse_reply
from webgym.context.prompts import example_reply, system_prompt
from webgym.context.settings import ContextSettings

EVERY = [
    ContextSettings(interaction_mode=mode, prompt_version=version, observation=observation)
    for mode in get_args(InteractionMode)
    for version in ("complete", "vanilla")
    for observation in get_args(ObservationKind)
]


def test_the_prompt_has_the_whole_tool_and_only_that_of_its_mode() -> None:
    for settings in EVERY:
        prompt = system_prompt(settings)
        mode = settings.interaction_mode
        (line,) = [line for line in prompt.split("\n") if line.startswith('{"type":"function"')]
        assert msgspec.json.decode(line) == tool_schema(mode)
        assert all(verb in prompt for verb in actions_of(mode))
        assert not any(tool in prompt for other, tool in TOOLS.items() if other != mode)


def test_the_example_is_a_reply_once_its_placeholders_are_replaced() -> None:
    for settings in EVERY:
        example = example_reply(settings)
        assert system_prompt(settings).endswith(example)
        copied = parse_reply(example, settings)
        assert copied.action is None
        assert "cannot be read" in (copied.failure or "")
        reply = parse_reply(example.replace("[X,Y]", "[3,4]").replace(":N}", ":3}"), settings)
        assert reply.action is not None
        assert reply.tolerances == ()
        complete = {"memory", "progress", "intention", "action"}
        assert set(reply.fields) == (
            complete if settings.prompt_version == "complete" else {"action"}
        )


def test_the_prompt_describes_only_what_is_shown() -> None:
    for settings in EVERY:
        prompt = system_prompt(settings)
        assert ("<page>" in prompt) == settings.shows_text
        assert ("screenshot" in prompt.lower()) == settings.shows_image
        assert ("Memory" in prompt) == (settings.prompt_version == "complete")


def test_unknown_settings_are_rejected() -> None:
    for wrong in ({"window": -1}, {"observation": "smell"}, {"windows": 4}, {"prompt_version": ""}):
        with pytest.raises(ValidationError):
            ContextSettings.model_validate(wrong)
