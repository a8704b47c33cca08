"""The server as its callers see it, with real programs in the real sandbox."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resources_servers.code_gen import app
from resources_servers.code_gen.app import CodeGen, CodeGenConfig
from resources_servers.code_gen.execution import SandboxError
from resources_servers.code_gen.sandbox import Machine, inspect_machine
from resources_servers.code_gen.tests.running import ALL_WALLS, require_layers
from rollgym.records import TaskError, VerifierError
from rollgym.servers import connect
from rollgym.servers.config.loading import load_config
from rollgym.servers.config.plugins import load_server_class, load_settings
from rollgym.servers.config.problems import ConfigError

DOUBLE = {"test_cases": [{"input": f"{n}\n", "output": f"{2 * n}\n"} for n in (1, 2, 3)]}
RIGHT = "So:\n```python\nprint(2 * int(input()))\n```"
WRONG = "So:\n```python\nprint(2)\n```"

Verify = Callable[..., Awaitable[dict[str, Any]]]


def serving(scenario: Callable[[Verify], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        server = CodeGen("code_gen", CodeGenConfig(**settings))
        await server.start()
        client = connect(server)

        async def verify(text: str, row: dict[str, Any]) -> dict[str, Any]:
            message = {"type": "message", "role": "assistant", "content": text}
            answer = await client.post("/verify", row | {"response": {"output": [message]}})
            assert answer.status == 200, answer.text
            decoded: dict[str, Any] = msgspec.json.decode(answer.body)
            return decoded

        try:
            await scenario(verify)
        finally:
            await server.close()

    asyncio.run(main())


def test_a_program_that_passes_every_test_is_rewarded() -> None:
    require_layers(ALL_WALLS)

    async def scenario(verify: Verify) -> None:
        row = await verify(RIGHT, DOUBLE | {"note": "kept"})
        assert (row["reward"], row["success"]) == (1.0, True)
        assert (row["num_tests"], row["num_passed"]) == (3, 3)
        assert row["results"] == [{"status": "passed"}] * 3
        assert row["extracted_code"] == "print(2 * int(input()))\n"
        assert row["extraction_failed"] is False
        assert row["sandbox"] == ["limits", "namespaces", "landlock", "seccomp"]
        assert row["note"] == "kept"

    serving(scenario)


def test_a_program_that_fails_a_test_is_not_rewarded() -> None:
    require_layers(ALL_WALLS)

    async def scenario(verify: Verify) -> None:
        row = await verify(WRONG, DOUBLE)
        assert (row["reward"], row["success"]) == (0.0, False)
        assert (row["num_tests"], row["num_passed"]) == (3, 1)
        assert [each["status"] for each in row["results"]] == [
            "passed",
            "wrong_answer",
            "wrong_answer",
        ]
        assert row["results"][1]["output"] == "2\n"

    serving(scenario)


def test_an_answer_without_a_program_is_not_rewarded() -> None:
    cases: Iterable[str] = ["", "print(2 * int(input()))", "```python\nprint(2)"]
    for text in cases:
        require_layers(ALL_WALLS)

        async def scenario(verify: Verify) -> None:
            row = await verify(text, DOUBLE)
            assert (row["reward"], row["success"], row["extraction_failed"]) == (0.0, False, True)
            assert (row["num_tests"], row["num_passed"], row["results"]) == (3, 0, [])
            assert row["extracted_code"] is None

        serving(scenario)


def test_the_settings_reach_the_program() -> None:
    require_layers(ALL_WALLS)

    async def scenario(verify: Verify) -> None:
        async def status(source: str) -> str:
            row = await verify(f"```python\n{source}\n```", DOUBLE)
            return str(row["results"][0]["status"])

        assert await status("import time; time.sleep(1000)") == "time_limit"
        assert await status("x = bytearray(100 << 20)") == "memory_limit"
        assert await status("print('x' * (2 << 20))") == "output_limit"
        assert await status("open('x', 'wb').write(bytes(2 << 20))") == "runtime_error"

    serving(scenario, wall_seconds=1, memory_mb=64, scratch_mb=1, stop_after_failures=1)


def test_many_programs_are_judged_at_once() -> None:
    require_layers(ALL_WALLS)

    async def scenario(verify: Verify) -> None:
        rows = await asyncio.gather(*(verify(text, DOUBLE) for text in [RIGHT, WRONG] * 10))
        assert [row["reward"] for row in rows] == [1.0, 0.0] * 10

    serving(scenario, workers=3)


def test_a_row_without_tests_is_a_bad_task() -> None:
    require_layers(ALL_WALLS)

    async def scenario(verify: Verify) -> None:
        with pytest.raises(TaskError, match="test_cases"):
            await verify(RIGHT, {"test_cases": []})

    serving(scenario)


def test_a_sandbox_that_fails_is_a_failed_rollout_and_no_reward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_layers(ALL_WALLS)

    async def broken(*_: object) -> Any:
        raise SandboxError("the launcher could not be started: no memory")

    async def scenario(verify: Verify) -> None:
        monkeypatch.setattr(app, "run_tests", broken)
        with pytest.raises(VerifierError, match="no memory"):
            await verify(RIGHT, DOUBLE)

    serving(scenario)


def test_tags_of_reasoning_can_have_a_penalty() -> None:
    require_layers(ALL_WALLS)

    async def scenario(verify: Verify) -> None:
        row = await verify(f"<think>Hm.</think>{RIGHT}", DOUBLE)
        assert (row["reward"], row["success"]) == (-0.5, True)
        assert (await verify(RIGHT, DOUBLE))["reward"] == 1.0

    serving(scenario, reasoning_format_penalty=-0.5)


# Settings of others

OTHERS = """
code_gen:
  resources_servers:
    code_gen:
      entrypoint: app.py
      domain: coding
      verified: true
      verified_url: https://example.org/runs/1
      description: Programs
      value: Programming
      num_processes: 3
      unit_test_timeout_secs: 7
      debug: false
"""


def load_code_gen(folder: Path, text: str) -> CodeGenConfig:
    (folder / "code_gen.yaml").write_text(text)
    run = load_config(["+config_paths=[code_gen.yaml]"], folder, listening=False)
    settings = load_settings(run.instances[0], load_server_class(run.instances[0]))
    assert isinstance(settings, CodeGenConfig)
    return settings


def test_a_configuration_of_nemo_gym_is_honoured_or_named_in_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = load_code_gen(tmp_path, OTHERS)
    assert (settings.workers, settings.cpu_seconds) == (3, 7)
    assert "code_gen.yaml:13: code_gen: `debug` has no effect here: the verdict" in caplog.text
    with pytest.raises(ConfigError, match="`workers` and `num_processes` are the same setting"):
        load_code_gen(tmp_path, OTHERS + "      workers: 4\n")


# Machines that cannot isolate programs

UNSAFE = Machine(
    ("limits",),
    {"namespaces": "unshare: Operation not permitted"},
    {"network": "a program can open connections"},
)


async def inspect_unsafe_machine() -> Machine:
    return UNSAFE


async def nothing(_: Verify) -> None:
    pass


def test_a_strict_server_refuses_to_start_on_a_machine_that_cannot_isolate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "inspect_machine", inspect_unsafe_machine)
    with pytest.raises(ConfigError) as caught:
        serving(nothing, require="strict")
    message = str(caught.value)
    assert message.startswith("code_gen: programs cannot be isolated on this machine: ")
    assert "a program can open connections (network)" in message
    assert "namespaces does not work here (unshare: Operation not permitted)" in message
    assert "require: best_effort" in message


def test_where_not_even_a_harmless_program_runs_no_server_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def inspect_broken_machine() -> Machine:
        return await inspect_machine(str(tmp_path / "nowhere"))

    monkeypatch.setattr(app, "inspect_machine", inspect_broken_machine)
    with pytest.raises(ConfigError, match="could not be started"):
        serving(nothing, require="best_effort")


def test_best_effort_warns_and_says_in_every_verdict_what_there_was(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app, "inspect_machine", inspect_unsafe_machine)

    async def scenario(verify: Verify) -> None:
        row = await verify(RIGHT, DOUBLE)
        assert (row["reward"], row["sandbox"]) == (1.0, ["limits"])

    with caplog.at_level(logging.WARNING):
        serving(scenario, require="best_effort")
    assert "code_gen runs programs without full isolation: a program can open" in caplog.text


def test_a_server_that_was_not_started_gives_no_reward() -> None:
    async def scenario() -> None:
        server = CodeGen("code_gen", CodeGenConfig())
        with pytest.raises(VerifierError, match="is not started"):
            await connect(server).post("/verify", DOUBLE | {"response": {"output": []}})

    asyncio.run(scenario())
