"""The town register, through its real server."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resources_servers.example_town_register.app import (
    RegisterServer,
    RegisterTask,
    mayor_of,
    people_in,
    phone_of,
)
from resources_servers.example_town_register.generate import generate_rows, main
from rollgym.servers import ResourcesConfig, tool_schemas
from rollgym.servers.config.loading import load_config
from rollgym.servers.config.plugins import load_server_class, load_settings
from rollgym.servers.testing import reached

FOLDER = Path(__file__).parents[1]
Json = dict[str, Any]
TOWN = "Tarnwick"
MAYOR = mayor_of(TOWN)


def call(tool: str, **arguments: str) -> Json:
    made = {"type": "function_call", "call_id": tool, "name": tool}
    return {**made, "arguments": msgspec.json.encode(arguments).decode()}


def say(text: str) -> Json:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content}


def judge(question: str, subject: str, *output: Json) -> Json:
    async def ask() -> Json:
        server = RegisterServer("register", ResourcesConfig())
        async with reached(server, over_http=False) as client:
            row = {"question": question, "subject": subject, "response": {"output": output}}
            answer = await client.post("/verify", row)
            verified: Json = msgspec.json.decode(answer.body)
            return verified

    return asyncio.run(ask())


def test_the_needed_call_is_half_of_the_reward_and_the_answer_the_rest() -> None:
    asked, said = call("count_people", town=" tarnwick "), say(f"{people_in(TOWN):,} people.")
    whole = judge("people", TOWN, asked, said)
    assert (whole["reward"], whole["success"]) == (1.0, True)
    half = judge("people", TOWN, asked, say("Many people."))
    assert (half["reward"], half["success"]) == (0.5, False)


def test_an_answer_without_all_its_calls_earns_nothing_for_the_answer() -> None:
    phone = phone_of(MAYOR)
    assert judge("people", TOWN, say(str(people_in(TOWN))))["reward"] == 0.0
    first = call("find_mayor", town=TOWN)
    assert judge("mayor_phone", TOWN, first, say(phone))["reward"] == 0.25
    second = call("find_phone", person=MAYOR)
    found = judge("mayor_phone", TOWN, first, second, say(f"It is {phone}."))
    assert (found["reward"], found["calls_needed"], found["calls_made"]) == (1.0, 2, 2)


@pytest.mark.parametrize("text", ["{} or 1234", "{}0", "It is x{}.{}", "{}" + " " * 400 + "."])
def test_an_answer_must_say_the_one_number_and_nothing_long(text: str) -> None:
    asked, number = call("find_phone", person=MAYOR), phone_of(MAYOR)
    said = text.replace("{}", number, 1).replace("{}", "7")
    assert judge("phone", MAYOR, asked, say(said))["reward"] == 0.5


def test_a_call_with_another_name_or_tool_is_not_the_call() -> None:
    right = say(f"{MAYOR} is the mayor.")
    for other in (call("find_mayor", town="Holford"), call("find_phone", person=TOWN)):
        assert judge("mayor", TOWN, other, right)["reward"] == 0.0
    assert judge("mayor", TOWN, call("find_mayor", town=TOWN), right)["reward"] == 1.0


def test_rows_of_even_and_odd_seeds_have_no_subject_in_common() -> None:
    subjects = [{row["subject"] for row in generate_rows(400, seed)} for seed in (2, 4, 7)]
    assert subjects[0] & subjects[1]
    assert not (subjects[0] | subjects[1]) & subjects[2]


def test_rows_need_the_asked_number_of_calls_and_their_answers_are_accepted() -> None:
    for calls in (1, 2):
        for row in generate_rows(12, seed=3, calls=calls):
            task = RegisterTask(question=row["question"], subject=row["subject"])
            assert len(task.needed_calls) == calls
            made = [call(tool, **{name: value}) for tool, name, value in task.needed_calls]
            found = judge(task.question, task.subject, *made, say(f"{task.answer}."))
            assert found["reward"] == 1.0


def test_the_example_rows_are_those_of_the_generator(tmp_path: Path) -> None:
    main(["--output", str(tmp_path / "rows.jsonl")])
    assert (tmp_path / "rows.jsonl").read_bytes() == (
        FOLDER / "data" / "example.jsonl"
    ).read_bytes()
    row = msgspec.json.decode((tmp_path / "rows.jsonl").read_bytes().splitlines()[0])
    assert row["responses_create_params"]["tools"] == tool_schemas(RegisterServer)


def test_the_configuration_of_the_environment_can_be_loaded(tmp_path: Path) -> None:
    plug_ins = FOLDER.parents[1]
    scripted = plug_ins / "responses_api_models/scripted_model/configs/scripted_model.yaml"
    config = FOLDER / "configs" / "example_town_register.yaml"
    run = load_config([f"+config_paths=[{scripted},{config}]"], tmp_path, listening=False)
    for instance in run.instances:
        load_settings(instance, load_server_class(instance))
    assert load_server_class(run.instances[1]) is RegisterServer
