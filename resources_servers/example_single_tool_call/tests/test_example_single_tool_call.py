"""The weather environment, through its real server."""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resources_servers.example_single_tool_call.app import (
    CITIES,
    CONDITIONS,
    WeatherServer,
    report_of,
)
from resources_servers.example_single_tool_call.generate import main
from rollgym.records import TaskError
from rollgym.servers import (
    ResourcesConfig,
    ServerClient,
    tool_schemas,
)
from rollgym.servers.config.loading import load_config
from rollgym.servers.config.plugins import load_server_class, load_settings
from rollgym.servers.testing import reached

FOLDER = Path(__file__).parents[1]
COLD = next(city for city in CITIES if report_of(city).temperature_celsius < 0)
WARM = next(city for city in CITIES if report_of(city).temperature_celsius > 10)
TRANSPORTS = pytest.mark.parametrize("transport", ["in process", "HTTP"])
Json = dict[str, Any]


def weather(transport: str = "in process") -> AbstractAsyncContextManager[ServerClient]:
    return reached(WeatherServer("weather", ResourcesConfig()), over_http=transport == "HTTP")


def call(city: str) -> Json:
    arguments = msgspec.json.encode({"city": city}).decode()
    return {
        "type": "function_call",
        "call_id": "1",
        "name": "get_weather",
        "arguments": arguments,
    }


def say(text: str) -> Json:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content}


def answer_for(city: str) -> str:
    report = report_of(city)
    return f"In {city} it is {report.condition} at {report.temperature_celsius} degrees."


def judge(city: str, *output: Json, transport: str = "in process") -> Json:
    async def ask() -> Json:
        async with weather(transport) as client:
            row = {"expected_city": city, "mine": 1, "response": {"output": output}}
            answer = await client.post("/verify", row)
            verified: Json = msgspec.json.decode(answer.body)
            return verified

    return asyncio.run(ask())


@TRANSPORTS
def test_the_tool_reports_the_same_weather_however_the_city_is_written(transport: str) -> None:
    async def ask() -> None:
        async with weather(transport) as client:
            for name in ("La Paz", "la paz", "  LA   PAZ "):
                answer = await client.post("/get_weather", {"city": name})
                assert msgspec.json.decode(answer.body) == report_of("La Paz").model_dump()

    asyncio.run(ask())


def test_a_city_without_a_weather_station_is_refused_with_a_reason() -> None:
    async def ask() -> None:
        async with weather() as client:
            answer = await client.post("/get_weather", {"city": "Atlantis"})
            assert answer.status == 400
            assert "no weather station in 'Atlantis'" in answer.text

    asyncio.run(ask())


@TRANSPORTS
def test_a_call_for_the_city_and_a_faithful_answer_earn_the_reward(transport: str) -> None:
    verified = judge(WARM, call(WARM), say(answer_for(WARM)), transport=transport)
    assert (verified["reward"], verified["success"]) == (1.0, True)
    assert verified["called_tool"]
    assert verified["mine"] == 1


def test_a_right_answer_without_the_call_earns_nothing() -> None:
    verified = judge(WARM, say(answer_for(WARM)))
    assert (verified["reward"], verified["called_tool"]) == (0.0, False)
    assert verified["mentioned_temperature"]


def test_a_call_of_something_else_is_not_the_call() -> None:
    cases: Iterable[Json] = [
        call(COLD),
        call("Atlantis"),
        {**call(WARM), "name": "get_time"},
        {**call(WARM), "arguments": "{"},
        {**call(WARM), "arguments": '{"town":"x"}'},
    ]
    for other in cases:
        assert judge(WARM, other, say(answer_for(WARM)))["called_tool"] is False


def test_an_answer_must_have_both_the_condition_and_the_temperature() -> None:
    report = report_of(WARM)
    verified = judge(WARM, call(WARM), say(f"It is {report.condition}."))
    assert (verified["mentioned_condition"], verified["mentioned_temperature"]) == (True, False)
    assert verified["reward"] == 0.0
    verified = judge(WARM, call(WARM), say(f"It is {report.temperature_celsius} degrees."))
    assert (verified["mentioned_condition"], verified["mentioned_temperature"]) == (False, True)
    assert verified["reward"] == 0.0


def test_frost_may_be_written_in_several_ways() -> None:
    cases: Iterable[str] = ["-", "\N{MINUS SIGN}", "minus ", "Minus "]
    for sign in cases:
        degrees = abs(report_of(COLD).temperature_celsius)
        verified = judge(
            COLD, call(COLD), say(f"{sign}{degrees}°C and {report_of(COLD).condition}")
        )
        assert verified["reward"] == 1.0


def test_other_numbers_are_not_the_temperature() -> None:
    degrees = report_of(WARM).temperature_celsius
    for text in (f"-{degrees}", f"{degrees}1", f"{degrees}.5", f"1{degrees}"):
        assert not judge(WARM, call(WARM), say(text))["mentioned_temperature"], text


def test_naming_every_possible_answer_earns_nothing() -> None:
    report = report_of(WARM)
    conditions, degrees = ", ".join(CONDITIONS), report.temperature_celsius
    everything = " ".join(f"{number}°C" for number in range(-12, 37))
    cases: Iterable[tuple[str, bool, bool]] = [
        (f"{conditions} {everything}", False, False),
        (f"{report.condition}, {everything}", True, False),
        (f"{conditions}, {degrees} degrees", False, True),
        (f"{report.condition} {degrees} {degrees + 1}", True, False),
        (f"{report.condition}, {degrees - 2}–{degrees} °C", True, False),  # noqa: RUF001
        (f"{report.condition}, 1, 2, 3 or {degrees} °C", True, False),
    ]
    for text, condition, temperature in cases:
        verified = judge(WARM, call(WARM), say(text))
        named = (verified["mentioned_condition"], verified["mentioned_temperature"])
        assert named == (condition, temperature), text
        assert verified["reward"] == 0.0


def test_a_helpful_answer_names_one_weather() -> None:
    report = report_of(WARM)
    degrees = report.temperature_celsius
    cases: Iterable[str] = [
        f"<think>Sunny? Rainy? 3 or 4?</think>{report.condition.title()} and {degrees}°C.",
        f"{degrees} degrees Celsius ({degrees * 9 // 5 + 32}°F), {report.condition}; 2 layers do.",
        f"{report.condition}, {degrees}, yes {degrees}.",
    ]
    for text in cases:
        assert judge(WARM, call(WARM), say(text))["reward"] == 1.0, text


def test_only_the_final_message_is_the_answer() -> None:
    verified = judge(WARM, say(answer_for(WARM)), call(WARM), say("I do not know."))
    assert verified["reward"] == 0.0


def test_a_row_that_asks_for_an_unknown_city_cannot_be_run() -> None:
    with pytest.raises(TaskError, match="no weather station in 'Atlantis'"):
        judge("Atlantis", say("Hm."))


def test_the_example_rows_are_what_the_generator_writes(tmp_path: Path) -> None:
    main(["--count", "5", "--seed", "0", "--output", str(tmp_path / "new" / "rows.jsonl")])
    written = (tmp_path / "new" / "rows.jsonl").read_bytes()
    assert written == (FOLDER / "data" / "example.jsonl").read_bytes()
    for line in written.splitlines():
        row = msgspec.json.decode(line)
        assert row["responses_create_params"]["tools"] == tool_schemas(WeatherServer)
        assert row["expected_city"] in row["responses_create_params"]["input"][-1]["content"]


def test_the_configuration_with_a_model_makes_three_servers(tmp_path: Path) -> None:
    scripted = "responses_api_models/scripted_model/configs/scripted_model.yaml"
    config = "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml"
    run = load_config([f"+config_paths=[{scripted},{config}]"], tmp_path, listening=False)
    assert [instance.name for instance in run.instances] == [
        "policy_model",
        "example_single_tool_call_resources_server",
        "example_single_tool_call_simple_agent",
    ]
    for instance in run.instances:
        load_settings(instance, load_server_class(instance))
    assert load_server_class(run.instances[1]) is WeatherServer


def test_a_call_that_is_nested_too_deeply_or_is_no_object_asked_for_no_city() -> None:
    for arguments in ('{"city":' * 5000 + "1" + "}" * 5000, "[" * 100_000, '"Oslo"', '{"city": 1}'):
        odd = {**call("Oslo"), "arguments": arguments}
        assert judge("Oslo", odd, say(answer_for("Oslo")))["called_tool"] is False
