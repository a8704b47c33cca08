"""What a class of resources servers says of itself."""

import asyncio
from typing import Any, Generic, TypeVar

import msgspec
import pytest
from pydantic import ConfigDict, Field, model_validator

from rollgym.records import EnvironmentSessionError, RolloutError, TaskError, VerifierError
from rollgym.servers import (
    CookieJar,
    ResourcesConfig,
    ResourcesServer,
    Response,
    Server,
    ServerConfig,
    TaskRow,
    Verdict,
    connect,
)
from tests.cases import for_each

T = TypeVar("T", bound=TaskRow)
S = TypeVar("S")
K = TypeVar("K")
V = TypeVar("V")


class CityTask(TaskRow):
    city: str


class Echo(ResourcesServer[T, S]):
    """Adds to the row what was read of it."""

    async def verify(self, task: T, response: Response, state: S) -> Verdict:
        return Verdict(1.0, task=task, state=state)


class Stateless(Echo[CityTask, None]):
    pass


class Stateful(Echo[CityTask, list[int]]):
    async def seed_session(self, task: CityTask) -> list[int]:
        return [1, 2]


class Derived(Stateful):
    pass


class Table(Generic[K, V]):
    pass


class Mixed(Table[int, str], Echo[CityTask, None]):
    pass


class MixedBehind(Echo[CityTask, None], Table[int, str]):
    pass


def made(server: type[Server], **settings: Any) -> Any:
    return server("name", server.config_type().model_validate(settings))


def verified(server: type[ResourcesServer[Any, Any]], **fields: Any) -> dict[str, Any]:
    """What the server read of a row, and the state it kept."""

    async def scenario() -> dict[str, Any]:
        client, jar = connect(made(server)), CookieJar()
        await client.post("/seed_session", fields, jar)
        answer = await client.post("/verify", {**fields, "response": {}}, jar)
        assert answer.ok, answer.text
        row: dict[str, Any] = msgspec.json.decode(answer.body)
        return {name: row[name] for name in ("task", "state")}

    return asyncio.run(scenario())


@for_each(
    ("server", "state"),
    [
        (Stateless, None),
        (Stateful, [1, 2]),
        (Derived, [1, 2]),
        (Mixed, None),
        (MixedBehind, None),
    ],
)
def test_a_class_says_what_its_rows_and_its_states_are(
    server: type[ResourcesServer[Any, Any]], state: object
) -> None:
    assert verified(server, city="Rome", colour="red") == {"task": {"city": "Rome"}, "state": state}
    with pytest.raises(
        TaskError, match="the row does not match `CityTask` of name: city: Field required"
    ):
        verified(server, town="Rome")


class Renamed(TaskRow):
    city: str = Field(alias="town")


class Open(TaskRow):
    model_config = ConfigDict(extra="allow")


class Closed(TaskRow):
    model_config = ConfigDict(extra="forbid")

    city: str


class Computed(TaskRow):
    letters: int

    @model_validator(mode="before")
    @classmethod
    def count(cls, row: Any) -> Any:
        return {"letters": len(row["city"])}


class Checked(TaskRow):
    city: str

    @model_validator(mode="after")
    def has_letters(self) -> "Checked":
        if not self.city:
            raise ValueError("a city has letters")
        return self


def test_a_row_is_read_as_its_type_says() -> None:
    class WithRenamed(Echo[Renamed, None]):
        pass

    class WithOpen(Echo[Open, None]):
        pass

    class WithComputed(Echo[Computed, None]):
        pass

    class WithChecked(Echo[Checked, None]):
        pass

    class WithClosed(Echo[Closed, None]):
        pass

    assert verified(WithRenamed, town="Rome")["task"] == {"city": "Rome"}
    assert verified(WithOpen, city="Rome")["task"]["city"] == "Rome"
    assert verified(WithComputed, city="Rome", colour="red")["task"] == {"letters": 4}
    assert verified(WithChecked, city="Rome")["task"] == {"city": "Rome"}
    with pytest.raises(TaskError, match="a city has letters"):
        verified(WithChecked, city="")
    with pytest.raises(TaskError, match="colour: Extra inputs are not permitted"):
        verified(WithClosed, city="Rome", colour="red")


def failing(server: type[ResourcesServer[Any, Any]], path: str) -> RolloutError:
    async def scenario() -> RolloutError:
        with pytest.raises(RolloutError) as raised:
            await connect(made(server)).post(path, {"response": {}})
        return raised.value

    return asyncio.run(scenario())


def test_what_an_author_forgot_is_named() -> None:
    class Forgetful(ResourcesServer[TaskRow, list[int]]):
        pass

    class Silent(ResourcesServer[TaskRow, None]):
        pass

    seeding = failing(Forgetful, "/seed_session")
    assert isinstance(seeding, EnvironmentSessionError)
    assert "Forgetful has a state, but no seed_session" in str(seeding)
    verifying = failing(Silent, "/verify")
    assert isinstance(verifying, VerifierError)
    assert "Silent has no verify" in str(verifying)


def test_a_verifier_must_give_a_verdict() -> None:
    class Vague(ResourcesServer[TaskRow, None]):
        async def verify(self, task: TaskRow, response: Response, state: None) -> Any:
            return 1.0

    error = failing(Vague, "/verify")
    assert isinstance(error, VerifierError)
    assert "'float' object" in str(error)


class WeatherConfig(ResourcesConfig):
    unit: str = "c"


class WithSettings(Echo[CityTask, None]):
    config: WeatherConfig


def test_a_class_names_its_settings() -> None:
    assert WithSettings.config_type() is WeatherConfig
    assert Stateless.config_type() is ResourcesConfig
    assert Server.config_type() is ServerConfig


@for_each(
    "settings",
    [
        {"unknown": 1},
        {"request_timeout": 0},
        {"max_request_bytes": 0},
        {"session_lifetime": -1},
        {"max_sessions": 0},
        {"processes": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        made(Stateless, **settings)


def test_a_server_that_stands_alone_knows_no_other() -> None:
    with pytest.raises(KeyError):
        made(Stateless).directory.client("model")


def test_names_of_servers_make_names_of_cookies() -> None:
    async def scenario() -> str:
        server = Stateful("my server;ü", Stateful.config_type()())
        answer = await connect(server).post("/seed_session", {"city": "Rome"})
        (name,) = answer.cookies
        return name

    assert asyncio.run(scenario()) == "session_my_server__"
