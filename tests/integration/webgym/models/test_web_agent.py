"""The agent against a model server: what it sends, and what it makes of the answers."""

import asyncio
import json
from array import array
from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec
import pytest
from omegaconf import OmegaConf

from rollgym.records import ModelUnavailableError, Row, Usage
from rollgym.records.tokens import TokenSample
from rollgym.store import RefusedError
from tests.faulty_model import FaultyModel, Step, answer, error, in_background
from tests.integration.webgym.models.chatting import in_a_loop, saying
from webgym.actions.space import Click, GiveAnswer
from webgym.browser.contract.answers import Box, Element, PageInfo, Picture
from webgym.context.page_view import AgentObservation, Round
from webgym.episode.interfaces import Decision
from webgym.models import Evaluator, WebAgent
from webgym.tasks.task import WebTask
from webgym.trajectory.records import ActionRecord, Observation
from webgym.trajectory.records import Step as TrajectoryStep

TASK = WebTask.of(
    Row(b'{"task_name": "Buy the red lamp", "website": "http://shop.example"}'), default_id="7"
)
PICTURE = Picture("image/png", b"\x89PNG, or so")
OBSERVATION = AgentObservation(
    page=PageInfo(url="http://shop.example/", title="Shop"),
    picture=PICTURE,
    blob="abc.png",
    elements=(Element(3, "a", "link", "Red lamp", "Red lamp", Box(10, 10, 80, 20)),),
    tree='link "Red lamp"',
)
CLICK = '{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 250]}}'
REPLY = f"Action: I click on the lamp.\n<tool_call>\n{CLICK}\n</tool_call>"
VANILLA = {"model_type": "qwen3-instruct", "prompt_version": "vanilla"}


def agent_of(server: FaultyModel, folder: Path, **changed: Any) -> WebAgent:
    """An agent as the seed makes it, for the address without its version."""
    settings: dict[str, Any] = {
        "policy_config": {"base_model": "m", "temperature": 0.5},
        "context_config": {"interaction_mode": "coordinates"},
        "model_config": VANILLA,
        "save_path": folder,
        "vllm_server_url": server.base_url.removesuffix("/v1"),
        "operation_timeout": 5,
        "vllm_timeout": 60,
    }
    return WebAgent(**{**settings, **changed})


def saying_reply(text: str = REPLY, **choice: Any) -> Step:
    return answer(saying(text, **choice))


async def decide(agent: WebAgent, past: list[Round] | None = None, seed: int = 1) -> Decision:
    return await agent.decide(TASK, past or [], OBSERVATION, conversation="rollout-1", seed=seed)


@in_a_loop
async def test_a_reply_becomes_an_action_and_a_whole_record(tmp_path: Path) -> None:
    tokens: dict[str, Any] = {
        "token_ids": [5, 6],
        "logprobs": {"content": [{"logprob": -1}, {"logprob": -2}]},
    }
    async with FaultyModel(otherwise=saying_reply(**tokens)) as server:
        policy = {"base_model": "m", "return_token_ids": True}
        async with agent_of(server, tmp_path, policy_config=policy) as agent:
            decision = await decide(agent)
    assert isinstance(decision.action, Click)
    record = decision.response
    assert (record.raw_response, record.model, record.finish_reason) == (REPLY, "m", "stop")
    assert record.fields["action"] == "I click on the lamp."
    assert (record.parse_failure, record.tolerances, record.usage) == (None, (), Usage(9, 2))
    assert decision.tokens == TokenSample(
        prompt=array("Q", [1, 2]), sampled=array("Q", [5, 6]), logprobs=[-1, -2]
    )
    assert record.seconds > 0


@in_a_loop
async def test_the_prompt_is_kept_as_it_was_sent_with_the_name_of_the_picture(
    tmp_path: Path,
) -> None:
    async with (
        FaultyModel(otherwise=saying_reply()) as server,
        agent_of(server, tmp_path) as agent,
    ):
        decision = await decide(agent)
    sent, kept = json.dumps(server.requests[0].json["messages"]), decision.response.raw_prompt
    picture = f"data:image/png;base64,{b64encode(PICTURE.data).decode()}"
    assert picture in sent
    assert sent.replace(picture, "blob:abc.png") == json.dumps(list(kept))
    assert "Buy the red lamp" in sent


@in_a_loop
async def test_the_request_has_the_parameters_the_conversation_and_a_seed(tmp_path: Path) -> None:
    async with (
        FaultyModel(otherwise=saying_reply()) as server,
        agent_of(server, tmp_path) as agent,
    ):
        await decide(agent)
    sent = server.requests[0].json
    assert sent["user"] == "rollout-1"
    assert (sent["model"], sent["temperature"], sent["top_p"]) == ("m", 0.5, 0.99)
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}


@in_a_loop
async def test_fields_can_be_turned_off_and_those_of_the_user_win(tmp_path: Path) -> None:
    own = {"temperature": 0.1, "user": "me", "logprobs": False}
    policy = {
        "base_model": "m",
        "omit_fields": ["seed", "top_k", "max_new_tokens", "chat_template_kwargs"],
        "extra_body": own,
        "return_token_ids": True,
    }
    async with (
        FaultyModel(otherwise=saying_reply()) as server,
        agent_of(server, tmp_path, policy_config=policy) as agent,
    ):
        await decide(agent)
    sent = server.requests[1].json
    assert {name: sent[name] for name in own} == own
    assert not {"seed", "top_k", "max_tokens", "chat_template_kwargs"} & sent.keys()
    assert {"min_p", "top_p", "messages"} <= sent.keys()
    assert agent.identity["omit_fields"] == ["seed"]


@in_a_loop
async def test_every_step_of_every_rollout_has_its_own_seed_and_always_the_same(
    tmp_path: Path,
) -> None:
    step = TrajectoryStep(
        observation=Observation(page=OBSERVATION.page), action=ActionRecord(key="wait")
    )
    past = [Round(OBSERVATION, step)]
    async with (
        FaultyModel(otherwise=saying_reply()) as server,
        agent_of(server, tmp_path) as agent,
    ):
        for rounds, seed in ([], 1), (past, 1), ([], 2), ([], 1):
            await decide(agent, rounds, seed)
    seeds = [request.json["seed"] for request in server.requests]
    assert len(set(seeds[:3])) == 3
    assert seeds[3] == seeds[0]
    assert all(0 <= seed < 2**31 for seed in seeds)


@in_a_loop
async def test_a_reply_without_an_action_is_recorded_with_the_reason(tmp_path: Path) -> None:
    async with (
        FaultyModel(otherwise=saying_reply("I do not know.")) as server,
        agent_of(server, tmp_path) as agent,
    ):
        decision = await decide(agent)
    assert decision.action is None
    assert decision.response.raw_response == "I do not know."
    assert decision.response.parse_failure


@in_a_loop
async def test_thinking_that_the_server_took_out_is_in_the_record(tmp_path: Path) -> None:
    message = {"role": "assistant", "content": REPLY, "reasoning_content": "Where is it?"}
    async with FaultyModel(otherwise=saying_reply(message=message)) as server:
        thinking = {**VANILLA, "model_type": "qwen3-think"}
        async with agent_of(server, tmp_path, model_config=thinking) as agent:
            decision = await decide(agent)
    assert isinstance(decision.action, Click)
    assert decision.response.raw_response == f"<think>Where is it?</think>{REPLY}"
    assert decision.response.fields["thinking"] == "Where is it?"
    assert server.requests[0].json["chat_template_kwargs"] == {"enable_thinking": True}


@in_a_loop
async def test_a_text_model_drives_the_browser_by_the_list_of_elements(tmp_path: Path) -> None:
    for model_type in ["text", "baseline"]:
        call = '{"name": "web_interaction", "arguments": {"action": "answer", "text": "done"}}'
        configs = {
            "model_config": {**VANILLA, "model_type": model_type},
            "context_config": {"interaction_mode": "set_of_marks"},
        }
        done = f"Action: done\n<tool_call>\n{call}\n</tool_call>"
        async with (
            FaultyModel(otherwise=saying_reply(done)) as server,
            agent_of(server, tmp_path, **configs) as agent,
        ):
            assert agent.observe.wants_elements
            decision = await decide(agent)
        assert isinstance(decision.action, GiveAnswer)
        sent = server.requests[0].json
        assert "image_url" not in json.dumps(sent)
        assert "Red lamp" in json.dumps(sent["messages"])
        assert ("temperature" in sent) == (model_type == "text")


@in_a_loop
async def test_a_model_that_gives_no_reply_is_a_typed_error(tmp_path: Path) -> None:
    async with (
        FaultyModel(otherwise=error(500, "out of luck")) as server,
        agent_of(server, tmp_path, operation_timeout=0.1) as agent,
    ):
        with pytest.raises(ModelUnavailableError, match="out of luck"):
            await decide(agent)


def test_an_agent_works_in_one_event_loop_after_another(tmp_path: Path) -> None:
    async def once(agent: WebAgent) -> Any:
        async with agent:
            return (await decide(agent)).action

    with in_background(FaultyModel(otherwise=saying_reply())) as server:
        agent = agent_of(server, tmp_path)
        actions = [asyncio.run(once(agent)) for _ in range(2)]
    assert all(isinstance(action, Click) for action in actions)


def test_nodes_of_hydra_configure_an_agent_like_dictionaries(tmp_path: Path) -> None:
    server = FaultyModel()
    server.port = 8999
    config = OmegaConf.create(
        {
            "policy_config": {"base_model": "m", "checkpoint_path": "weights/7"},
            "context_config": {"interaction_mode": "set_of_marks", "window": 2},
            "model_config": {"model_type": "qwen3-think"},
            "vllm_server_url": ["http://a:1", {"base_url": "http://b:2", "weight": 2}],
            "openai_config": None,
        }
    )
    with agent_of(server, tmp_path, **config) as agent:  # type: ignore[arg-type]
        assert isinstance(agent.evaluator, Evaluator)
        assert (agent.context.window, agent.context.thinking) == (2, True)
        assert [endpoint.weight for endpoint in agent.endpoints] == [1.0, 2.0]
        assert agent.identity["checkpoint_path"] == "weights/7"
        assert b"http://" not in msgspec.json.encode(agent.identity)


def test_an_agent_that_cannot_work_is_rejected_at_once(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"policy_config": {"temperature": -1}}, "policy_config.temperature"),
        ({"model_config": {"model_type": "qwen"}}, "model_type"),
        ({"context_config": {"interaction_mode": "telepathy"}}, "interaction_mode"),
        ({"vllm_server_url": None}, "no model endpoint is named"),
        ({"max_vllm_sessions": 0}, "max_vllm_sessions"),
        ({"max_retries": -1}, "max_retries"),
        ({"vllm_timeout": 0}, "vllm_timeout"),
        ({"operation_timeout": -1}, "operation_timeout"),
    ]
    for changed, says in cases:
        server = FaultyModel()
        server.port = 8999
        with pytest.raises(RefusedError) as refused:
            agent_of(server, tmp_path, **changed)
        assert says in str(refused.value)
