"""Agents in processes of their own: what becomes a rollout, and what becomes a failure."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from responses_api_agents.command_agent import command
from responses_api_agents.command_agent.tests.stage import (
    QUESTION,
    Json,
    call,
    on_stage,
    say,
)
from responses_api_models.vllm_model.app import VllmModel, VllmModelConfig
from rollgym.records import (
    AgentError,
    DeadlineError,
    ModelContextError,
    ModelRateLimitError,
    ModelUnavailableError,
    RolloutError,
    ToolError,
)
from rollgym.servers.context import working_for
from rollgym.servers.endpoints import EndpointPoolSettings
from rollgym.store import RefusedError
from tests.cases import for_each
from tests.faulty_model import OVERFLOWS, FaultyModel, answer, error, reply

PATIENCE = 60.0


def rollout(folder: Path, program: str, *answers: Any, **settings: Any) -> Json:
    """The verified row of one rollout with this agent, and `model`, what its model was asked."""

    async def scene() -> Json:
        async with on_stage(folder, program, *answers, **settings) as stage:
            row = await stage.run()
            assert not list((folder / "work").iterdir())
            return {**row, "model": stage.model.requests, "verified": stage.bank.verified}

    return asyncio.run(scene())


def failure(folder: Path, program: str, *answers: Any, **settings: Any) -> RolloutError:
    """The error with which a rollout of this agent fails. Its environment was not asked."""

    async def scene() -> RolloutError:
        async with on_stage(folder, program, *answers, **settings) as stage:
            with pytest.raises(RolloutError) as raised:
                await stage.run()
            assert not stage.bank.verified
            return raised.value

    return asyncio.run(scene())


def test_the_calls_of_an_unmodified_agent_become_a_rollout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-operator")
    monkeypatch.setenv("POLICY_KEY", "sk-of-the-operator")
    row = rollout(
        tmp_path,
        """
        asked = sys.stdin.read()
        task = json.load(open(os.environ["ROLLGYM_TASK_FILE"]))
        assert task["input"][0]["content"] == asked, task
        assert "secret_answer" not in task
        assert "operator" not in str(dict(os.environ))
        assert os.getcwd() == os.path.realpath(os.environ["ROLLGYM_WORK_FOLDER"])
        first = chat({"role": "system", "content": "Be short."}, user(asked), temperature=0.5)
        chat({"role": "system", "content": "Be short."}, user(asked), first, user("Sure?"))
        """,
    )
    assert row["reward"] == 1.0
    said = [item["content"] for item in row["response"]["output"] if item["role"] == "user"]
    assert said == ["Sure?"]
    assert row["response"]["usage"]["total_tokens"] == 26
    calls = row["rollgym_calls"]
    assert calls["made"] == calls["answered"] == len(row["model"]) == 2
    (main,) = calls["conversations"]
    assert main["turns"] == [0, 1]
    assert [item["content"] for item in main["input"]] == ["Be short.", QUESTION]
    assert main["parameters"]["temperature"] == 0.5


def test_sampling_parameters_of_the_task_replace_those_of_the_agent(tmp_path: Path) -> None:
    program = 'chat(user("Hello"), temperature=0.5, seed=3, max_tokens=7)'

    async def asked(**settings: Any) -> tuple[Json, Json]:
        async with on_stage(tmp_path, program, **settings) as stage:
            extra = {"extra_body": '{"top_k": 4}'}
            row = await stage.run(temperature=0.9, metadata=extra)
            return stage.model.requests[0], row["rollgym_calls"]

    sent, calls = asyncio.run(asked())
    assert (sent["temperature"], sent["seed"], sent["max_output_tokens"]) == (0.9, 3, 7)
    assert sent["metadata"] == {"extra_body": '{"top_k": 4}'}
    assert calls["replaced"] == {"temperature": 0.5}
    sent, calls = asyncio.run(asked(task_parameters="ignore"))
    assert sent["temperature"] == 0.5
    assert "replaced" not in calls


def test_an_agent_can_use_the_tools_of_its_environment(tmp_path: Path) -> None:
    row = rollout(
        tmp_path,
        """
        tools = os.environ["ROLLGYM_TOOLS_URL"]
        request = urllib.request.Request(tools, headers={"x-api-key": os.environ["OPENAI_API_KEY"]})
        named = json.loads(urllib.request.urlopen(request).read())["tools"]
        assert [tool["name"] for tool in named] == ["book", "audit"], named
        chat(user("Book it"))
        request = urllib.request.Request(
            tools + "/book",
            b'{"amount": 5}',
            {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
        )
        assert urllib.request.urlopen(request).read() == b"booked 5"
        for name, amount, status in (("book", -1, 400), ("verify", 1, 404), ("lend", 1, 404)):
            try:
                post(tools + "/" + name, {"amount": amount})
            except urllib.error.HTTPError as error:
                assert error.code == status, (name, error.code)
            else:
                sys.exit(f"{name} was answered")
        """,
    )
    assert row["booked"] == [5]
    assert row["response"]["metadata"] == {"tool_errors": "1", "tool_calls_rejected": "2"}


def test_a_broken_tool_fails_the_rollout_even_if_the_agent_goes_on(tmp_path: Path) -> None:
    program = """
        chat(user("Audit"))
        try:
            post(os.environ["ROLLGYM_TOOLS_URL"] + "/audit", {})
        except urllib.error.HTTPError as error:
            assert error.code == 502
            assert b"KeyError" not in error.read()
        """
    assert isinstance(failure(tmp_path, program), ToolError)


def test_subagents_and_compactions_are_conversations_of_their_own(tmp_path: Path) -> None:
    row = rollout(
        tmp_path,
        """
        system = {"role": "system", "content": "You lead."}
        first = chat(system, user("Work"))
        sub = chat({"role": "system", "content": "You search."}, user("Search"))
        chat(system, user("Work"), first, user(sub["content"]))
        chat(system, user("Summary of before: ..."), user("Go on"))
        chat({"role": "system", "content": "Make a title."}, user("Work"))
        """,
        lambda request: [say(f"to {request['input'][-1]['content']}")],
    )
    main, *others = row["rollgym_calls"]["conversations"]
    # The longest conversation of the leading agent was compacted: its last one is the main one.
    assert [item["content"] for item in main["input"]][1:] == ["Summary of before: ...", "Go on"]
    assert row["verified"] == ["to Go on"]
    assert [each["turns"] for each in others] == [[0, 2], [1], [4]]
    texts = [item["content"] for item in others[0]["output"] if item["role"] == "user"]
    assert texts == ["to Search"]


def test_a_conversation_is_followed_through_calls_of_tools_however_they_are_repeated(
    tmp_path: Path,
) -> None:
    def reply_to(request: Json) -> list[Json]:
        if any(item.get("type") == "function_call_output" for item in request["input"]):
            return [say(" Done. ")]
        thought = {
            "type": "reasoning",
            "id": "r",
            "summary": [{"type": "summary_text", "text": "Hm"}],
        }
        return [thought, say("I book."), call("book", '{"amount":  5}')]

    row = rollout(
        tmp_path,
        """
        tools = [{"type": "function", "function": {"name": "book", "parameters": {}}}]
        first = chat(user("Book"), tools=tools)
        made = first["tool_calls"][0]
        made["function"]["arguments"] = '{"INVALID_JSON": "amount"}'
        said = {"role": "assistant", "content": "<think>Hm</think>", "tool_calls": [made]}
        result = {"role": "tool", "tool_call_id": made["id"], "content": "booked"}
        second = chat(user("Book"), said, result, tools=tools)
        thought = "<think>That was easy.</think>" + second["content"].strip()
        third = [{"role": "assistant", "content": thought}, user("Thanks")]
        chat(user("Book"), said, result, *third, tools=tools)
        """,
        reply_to,
    )
    (main,) = row["rollgym_calls"]["conversations"]
    assert main["turns"] == [0, 1, 2]
    kinds = [item.get("type") or item["role"] for item in row["response"]["output"]]
    call_and_output = ["reasoning", "message", "function_call", "function_call_output"]
    assert kinds == [*call_and_output, "message", "user", "message"]


def test_an_agent_that_ends_with_an_exit_status_is_a_failure_with_what_it_wrote(
    tmp_path: Path,
) -> None:
    raised = failure(
        tmp_path,
        """
        chat(user("Hello"))
        print("x" * 1_000_000)
        sys.stderr.write("y" * 1_000_000 + "the end")
        sys.exit(3)
        """,
    )
    assert isinstance(raised, AgentError)
    assert "exit status 3" in str(raised)
    assert raised.retryable is False
    kept = json.loads(raised.partial or b"")
    assert kept["response"]["output"][0]["type"] == "message"
    assert kept["rollgym_calls"]["answered"] == 1


def test_the_end_of_what_a_failed_agent_wrote_is_in_the_failure(tmp_path: Path) -> None:
    raised = failure(tmp_path, 'chat(user("Hello")); sys.exit("the disk is full")')
    assert "the disk is full" in str(raised)


def test_an_exit_status_can_be_declared_as_none_of_a_failure(tmp_path: Path) -> None:
    assert rollout(tmp_path, 'chat(user("Hi")); sys.exit(3)', exit_statuses=[0, 3])["reward"] == 1.0


def test_an_agent_that_made_no_call_is_a_failure(tmp_path: Path) -> None:
    raised = failure(tmp_path, 'print("All done!")')
    assert isinstance(raised, AgentError)
    assert "made no call" in str(raised)
    assert "All done!" in str(raised)


def test_an_agent_whose_calls_have_a_wrong_key_is_told_so(tmp_path: Path) -> None:
    program = """
try:
    post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", {}, key="of something else")
except urllib.error.HTTPError as error:
    print(error.code)
"""
    raised = failure(tmp_path, program)
    assert isinstance(raised, AgentError)
    assert "made no call" in str(raised)
    assert "1 of its requests did not have the key of the rollout; it wrote: 401" in str(raised)


@for_each("wrong", ["no-such-program --help", "sh -c 'exit", ""])
def test_a_command_that_cannot_run_is_found_before_anything_runs(
    tmp_path: Path, wrong: str
) -> None:
    async def scene() -> None:
        async with on_stage(tmp_path, command=wrong):
            pass

    with pytest.raises(RefusedError, match="`command`: .*(no-such-program|quotation|empty)"):
        asyncio.run(scene())


@pytest.mark.parametrize("name", ["service_url", "gateway_url"])
def test_an_address_that_is_no_url_is_found_before_anything_runs(tmp_path: Path, name: str) -> None:
    settings: Json = {name: "here:80"}

    async def scene() -> None:
        async with on_stage(tmp_path, "" if name == "service_url" else "1", **settings):
            pass

    with pytest.raises(ValueError, match="'here:80' is not an http:// or https:// URL"):
        asyncio.run(scene())


def test_a_port_in_use_is_named_with_what_to_do(tmp_path: Path) -> None:
    async def scene(port: int) -> None:
        async with on_stage(tmp_path, "1", gateway_port=port):
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RefusedError, match=f"port {port} .* give another `gateway_port`"):
            asyncio.run(scene(port))


def test_everything_that_an_agent_started_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    ignores = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    program = f"""
import os, subprocess, sys, time
{ignores}
child = subprocess.Popen([sys.executable, "-S", "-c", "{ignores}; import time; time.sleep(600)"],
                         start_new_session=True)
print(os.getpid(), child.pid, file=sys.stderr, flush=True)
open("pids", "w").write(f"{{os.getpid()}} {{child.pid}} ")
time.sleep(600)
"""
    pids = tmp_path / "pids"

    async def scene() -> tuple[str, str]:
        running = await command.RunningCommand.start(
            [sys.executable, "-S", "-c", program],
            folder=tmp_path,
            environment={},
            standard_input=Path(os.devnull),
            grace=0.1,
        )
        await until(lambda: pids.exists() and pids.read_text().endswith(" "))
        running.ask_to_end()
        return await running.end(PATIENCE)

    output, errors = asyncio.run(scene())
    assert (output, errors.split()) == ("", pids.read_text().split())
    assert not any(is_running(int(pid)) for pid in errors.split())


def test_an_agent_that_does_not_end_is_a_failure_at_its_deadline(tmp_path: Path) -> None:
    program = "import time; time.sleep(600)"
    raised = failure(tmp_path, program, agent_timeout=0.5, grace_period=0.1)
    assert isinstance(raised, DeadlineError)
    assert "within 0.5 s" in str(raised)


def test_a_process_that_outlives_its_agent_is_ended(tmp_path: Path) -> None:
    rollout(
        tmp_path,
        f"""
        import subprocess
        chat(user("Hello"))
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"],
                                 start_new_session=True)
        open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
        """,
    )
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_the_agent_of_a_cancelled_rollout_ends(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    async def scene() -> None:
        program = f'open({str(pid)!r}, "w").write(str(os.getpid())); import time; time.sleep(600)'
        async with on_stage(tmp_path, program) as stage:
            running = asyncio.create_task(stage.run())
            await until(lambda: pid.exists() and pid.read_text().isdecimal())
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scene())
    assert not is_running(int(pid.read_text()))


@pytest.mark.parametrize("has_ended", [False, True])
def test_the_agent_of_a_cancelled_rollout_has_no_grace_period(
    tmp_path: Path, has_ended: bool
) -> None:
    pid, asked = tmp_path / "pid", tmp_path / "asked"
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text(
        "import os, pathlib, signal, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: pathlib.Path({str(asked)!r}).touch())\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    left_behind = f"""
        import subprocess, time
        subprocess.Popen([sys.executable, "-S", {str(stubborn)!r}])
        while not os.path.exists({str(pid)!r}):
            time.sleep(0.01)
        """
    program = left_behind if has_ended else stubborn.read_text()
    timeout = None if has_ended else 2.0

    async def scene() -> None:
        stage_of_agent = on_stage(tmp_path, program, agent_timeout=timeout, grace_period=600)
        async with stage_of_agent as stage:
            with working_for("task/0", asyncio.get_running_loop().time() + 6000):
                running = asyncio.create_task(stage.run())
            await until(asked.exists)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scene())
    assert not is_running(int(pid.read_text()))


def test_an_agent_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    supervisor = Path(command.__file__).with_name("supervisor.py")
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    arguments = ["-I", "-S", str(supervisor), str(theirs.fileno()), "0.1"]
    arguments += [sys.executable, "-S", "-c"]
    with subprocess.Popen(
        [sys.executable, *arguments, program], stdout=subprocess.PIPE, pass_fds=[theirs.fileno()]
    ) as process:
        theirs.close()
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        ours.close()  # as when this process is killed
        assert process.wait(PATIENCE) == 0
    assert not is_running(pid)


def test_the_agent_sees_errors_of_the_endpoint_as_they_are_and_may_try_again(
    tmp_path: Path,
) -> None:
    program = """
        seen = []
        for _ in range(3):
            try:
                chat(user("Hello"))
                break
            except urllib.error.HTTPError as error:
                seen.append((error.code, json.loads(error.read())["error"]["type"]))
        assert seen == [(429, "slow_down"), (500, "broken")], seen
        """
    script = [error(429, "slow", type="slow_down"), error(500, "oh", type="broken")]
    row, failed = asyncio.run(_with_endpoint(tmp_path, program, script))
    assert failed is None
    assert row["rollgym_calls"]["failed"] == {"model_rate_limit": 1, "model_unavailable": 1}
    assert row["rollgym_calls"]["made"] == 3


@pytest.mark.parametrize("ending", ["sys.exit(1)", "pass"])
def test_a_failure_of_the_endpoint_is_never_a_reward(tmp_path: Path, ending: str) -> None:
    program = f"""
        chat(user("Hello"))
        try:
            chat(user("Hello"), user("again"))
        except urllib.error.HTTPError as error:
            print("I give up", file=sys.stderr)
            {ending}
        """
    script = [answer(), error(429, "slow down")]
    row, failed = asyncio.run(_with_endpoint(tmp_path, program, script))
    assert row == {}
    assert isinstance(failed, ModelRateLimitError)
    assert failed.retryable
    assert "slow down" in str(failed)
    assert ("I give up" in str(failed)) == (ending != "pass")


def test_an_endpoint_that_is_gone_fails_the_rollout_as_unavailable(tmp_path: Path) -> None:
    row, failed = asyncio.run(
        _with_endpoint(tmp_path, 'chat(user("Hello"))', [error(503, "starting")])
    )
    assert row == {}
    assert isinstance(failed, ModelUnavailableError)


def test_a_conversation_that_is_too_long_ends_there_and_is_scored(tmp_path: Path) -> None:
    script = [answer(), reply(*OVERFLOWS["vllm, newer"])]
    program = 'chat(user("Hello")); chat(user("Hello"), user("More"))'
    row, failed = asyncio.run(_with_endpoint(tmp_path, program, script))
    assert failed is None
    assert row["response"]["metadata"]["stopped_by"] == "context_overflow"
    row, failed = asyncio.run(_with_endpoint(tmp_path, program, script[1:]))
    assert isinstance(failed, ModelContextError)


def test_an_agent_that_never_stops_is_ended_after_its_calls_and_scored(tmp_path: Path) -> None:
    row = rollout(
        tmp_path,
        """
        while True:
            try:
                chat(user("Hello"))
            except urllib.error.HTTPError:
                pass
        """,
        max_steps=3,
    )
    assert len(row["model"]) == 3
    assert row["response"]["metadata"]["stopped_by"] == "max_steps"


def test_rollouts_in_parallel_keep_their_calls_apart(tmp_path: Path) -> None:
    async def scene() -> None:
        program = """
            asked = sys.stdin.read()
            for _ in range(3):
                assert chat(user(asked))["content"] == asked
            """
        async with on_stage(tmp_path, program, lambda r: [say(r["input"][0]["content"])]) as stage:
            questions = [f"question {number}" for number in range(4)]
            rows = await asyncio.gather(*[stage.run(input=each) for each in questions])
            assert [row["rollgym_calls"]["made"] for row in rows] == [3] * 4
            assert stage.bank.verified != []
            texts = [row["response"]["output"][0]["content"][0]["text"] for row in rows]
            assert texts == questions
            assert not stage.server.health()["sessions"]

    asyncio.run(scene())


def test_the_deadline_of_the_rollout_holds_for_its_agent(tmp_path: Path) -> None:
    async def scene() -> None:
        async with on_stage(tmp_path, "import time; time.sleep(600)", grace_period=0.1) as stage:
            in_a_second = asyncio.get_running_loop().time() + 1.0
            with working_for("task/0", in_a_second), pytest.raises(DeadlineError):
                await stage.run()
            assert not stage.server.health()["sessions"]

    asyncio.run(scene())


def test_what_an_agent_wrote_is_kept_where_only_force_ends_it_at_the_deadline(
    tmp_path: Path,
) -> None:
    program = """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("I will not end", flush=True)
        time.sleep(600)
    """

    async def scene() -> None:
        async with on_stage(tmp_path, program, grace_period=600) as stage:
            in_a_moment = asyncio.get_running_loop().time() + 5.0
            with working_for("task/0", in_a_moment), pytest.raises(DeadlineError) as raised:
                await stage.run()
            assert "it wrote: I will not end" in str(raised.value)

    asyncio.run(scene())


async def _with_endpoint(
    folder: Path, program: str, script: list[Any]
) -> tuple[Json, RolloutError | None]:
    """The row of a rollout whose model is a real endpoint, or its failure."""
    async with FaultyModel(script) as endpoint:
        config = VllmModelConfig(
            base_url=endpoint.base_url, model="m", pool=EndpointPoolSettings(max_retries=0)
        )
        model = VllmModel("policy_model", config)
        async with on_stage(folder, program, model=model) as stage:
            try:
                return await stage.run(), None
            except RolloutError as failed:
                return {}, failed


async def until(holds: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - another process makes it so
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process runs; one that was just killed gets a moment to be gone."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (ProcessLookupError, FileNotFoundError):
            return False
        if state in "SR" and time.monotonic() > ends - PATIENCE + 2:
            return True
        if state == "Z":
            return False
        time.sleep(0.01)
    return True
