"""Options written as flags, `--limit 4`, beside Hydra's overrides, `+limit=4`.

Every setting of a command has a flag, which is its name with dashes unless its declaration names
another one. A flag is translated into the override of the same setting, so its value is read and
checked by the same code. Flags and overrides can be mixed; the last of two for one setting counts.

The flags of an agent that other people wrote, such as `--command`, are for `found_configs`, which
describes that agent. The flags of the model set the variables that the config files of models use,
such as `policy_base_url`. A key is better named by its environment variable than written into a
command.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rollgym.cli.options import AS_OVERRIDES, OptionNames, flag_names, is_switch, negated
from rollgym.cli.rollout_settings import SettingsError
from rollgym.suggestions import advice

MODEL_TYPE = "--model-type"
API_KEY = "policy_api_key"
_BEFORE_QUOTES = re.compile(r"(\\*)(?='|$)")
_INDENT: Any = {"initial_indent": "      ", "subsequent_indent": "      "}
_FLAG = re.compile(r"--?[A-Za-z]")


class Flag(NamedTuple):
    """One way to write an option. `kind` says what its value is."""

    names: tuple[str, ...]
    key: str
    kind: Literal["text", "value", "list", "true", "false", "variable", "model_type", "agent"]
    description: str

    @property
    def takes_value(self) -> bool:
        return self.kind not in ("true", "false")


MODEL_FLAGS = (
    Flag(("--model-url",), "policy_base_url", "text", "address of the model, ending in /v1"),
    Flag(("--model", "-m"), "policy_model_name", "text", "name of the model"),
    Flag(("--api-key-env",), API_KEY, "variable", "environment variable that has the model's key"),
    Flag(
        ("--model-api-key",),
        API_KEY,
        "text",
        "key of the model, which other users of this machine can see here",
    ),
    Flag(
        (MODEL_TYPE,),
        "",
        "model_type",
        "model server: openai_model (Responses API) or vllm_model (chat completions); without it, "
        "the first for api.openai.com and the second for other addresses",
    ),
)
COMMAND = "--command"
AGENT_URL = "--agent-url"
RESOURCES_SERVER = "--resources-server"
AGENT_FLAGS = (
    Flag((COMMAND,), "", "agent", "command of an agent, which works on one task at a time"),
    Flag((AGENT_URL,), "", "agent", "address of an agent's service, which gets each task by POST"),
    Flag(
        (RESOURCES_SERVER,),
        "",
        "agent",
        "environment that scores these agents; without it, the one that the input belongs to",
    ),
)
PARAMETER_FLAGS = tuple(
    Flag((f"--{name.replace('_', '-')}",), f"responses_create_params.{name}", "value", description)
    for name, description in (
        ("temperature", "sampling temperature"),
        ("top_p", "nucleus sampling"),
        ("max_output_tokens", "most tokens of a reply"),
    )
)


class FlagArguments(NamedTuple):
    """The arguments of a command as overrides, and what only flags can say."""

    overrides: list[str]
    used: Mapping[str, str]
    model_type: str | None
    agent: Mapping[str, str] = {}
    """The values of `AGENT_FLAGS` by their names."""

    def names(self, model: type[BaseModel]) -> OptionNames:
        """How messages name the settings: as the command does."""
        if not self.used:
            return AS_OVERRIDES
        own = {name: flag_names(name, field)[0] for name, field in model.model_fields.items()}
        return OptionNames({**own, **self.used})

    @property
    def names_model(self) -> bool:
        """Whether flags describe the model."""
        return self.model_type is not None or any(flag.key in self.used for flag in MODEL_FLAGS)

    @property
    def names_servers(self) -> bool:
        """Whether flags describe the model or the agent, so that this command runs the servers."""
        return bool(self.agent) or self.names_model


def flags_of(model: type[BaseModel]) -> list[Flag]:
    """The flags of a command, by its settings."""
    flags = [flag for name, field in model.model_fields.items() for flag in _flags(name, field)]
    asks_a_model = "responses_create_params" in model.model_fields
    return [*flags, *PARAMETER_FLAGS, *MODEL_FLAGS, *AGENT_FLAGS] if asks_a_model else flags


def model_help() -> list[str]:
    """The flags that set no setting of the command, for `--help`."""
    lines = []
    for title, flags in (
        ("parameters of every request", PARAMETER_FLAGS),
        ("the model, for a command that runs the servers itself", MODEL_FLAGS),
        ("an agent that other people wrote", AGENT_FLAGS),
    ):
        lines += ["", f"{title}:"]
        for flag in flags:
            meaning = f", +{flag.key}=…" if flag.key else ""
            lines.append(f"  {', '.join(flag.names)} VALUE{meaning}")
            lines.append(fill(flag.description, 80, **_INDENT))
    return lines


def read_flags(model: type[BaseModel], arguments: Sequence[str]) -> FlagArguments:
    """Translate the flags among the arguments. Raises SettingsError with every problem."""
    known = {name: flag for flag in flags_of(model) for name in flag.names}
    reader = _FlagReader(known)
    left = iter(arguments)
    for argument in left:
        if _FLAG.match(argument):
            reader.add(argument, left)
        else:
            reader.overrides.append(argument)
    if reader.problems:
        raise SettingsError("\n".join(["the command cannot be run:", *reader.problems]))
    return FlagArguments(reader.overrides, reader.used, reader.model_type, reader.agent)


class _FlagReader:
    def __init__(self, known: Mapping[str, Flag]) -> None:
        self._known = known
        self._lists: dict[str, list[str]] = {}
        self.overrides: list[str] = []
        self.used: dict[str, str] = {}
        self.problems: list[str] = []
        self.model_type: str | None = None
        self.agent: dict[str, str] = {}

    def add(self, argument: str, following: Iterator[str]) -> None:
        name, has_value, value = argument.partition("=")
        flag = self._known.get(name)
        if flag is None:
            self.problems.append(_unknown(name, self._known))
            return
        if flag.key:
            self.used[flag.key] = name
        if flag.takes_value and not has_value:
            value = next(following, "")
            if not value or value.startswith(("--", "+")):
                self.problems.append(f"  {name} needs a value: {flag.description}")
                return
        elif not flag.takes_value and has_value:
            self.problems.append(f"  {name} takes no value")
            return
        self.overrides += self._translated(flag, name, value)

    def _translated(self, flag: Flag, name: str, value: str) -> Iterable[str]:
        match flag.kind:
            case "true" | "false":
                yield f"+{flag.key}={flag.kind}"
            case "text":
                yield f"+{flag.key}={quoted(value)}"
            case "value":
                yield f"+{flag.key}={value}"
            case "list":
                listed = self._lists.setdefault(flag.key, [])
                listed.append(quoted(value))
                yield f"+{flag.key}=[{','.join(listed)}]"
            case "variable":
                if value not in os.environ:
                    self.problems.append(f"  {name}: the environment has no variable {value}")
                yield f"+{flag.key}=${{oc.env:{value}}}"
            case "model_type":
                self.model_type = value
            case "agent":
                self.agent[name] = value


def quoted(text: str) -> str:
    """A text as Hydra reads it back unchanged."""
    escaped = _BEFORE_QUOTES.sub(r"\1\1", text).replace("'", r"\'")
    return f"'{escaped}'"


def _flags(name: str, field: FieldInfo) -> Iterator[Flag]:
    names, description = flag_names(name, field), field.description or ""
    if is_switch(field):
        yield Flag(names, name, "true", description)
        yield Flag((negated(names[0]),), name, "false", description)
        return
    types: Any = getattr(field.annotation, "__args__", (field.annotation,))
    if any(getattr(each, "__origin__", None) is list for each in types):
        yield Flag(names, name, "list", description)
    else:
        is_text = not set(types) - {str, Path, type(None)}
        yield Flag(names, name, "text" if is_text else "value", description)


def _unknown(name: str, known: Iterable[str]) -> str:
    meant = advice(name, known, "`--help` lists the options")
    return f"  {name}: there is no such option; {meant}"
