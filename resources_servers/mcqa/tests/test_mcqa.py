"""The multiple-choice environment, through its real server."""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from resources_servers.mcqa.app import McqaConfig, McqaServer, McqaTask
from resources_servers.mcqa.extraction import GradingMode
from resources_servers.mcqa.generate import generate_rows, main, make_question
from rollgym.records import TaskError
from rollgym.servers import ServerClient
from rollgym.servers.config.loading import load_config
from rollgym.servers.config.plugins import load_server_class, load_settings
from rollgym.servers.testing import reached

FOLDER = Path(__file__).parents[1]
Json = dict[str, Any]
AS_LIST = [{"A": "Lyon"}, {"B": "Paris"}]
AS_MAPPING = {"A": "Lyon", "B": "Paris"}


def questions(
    transport: str, config: McqaConfig | None = None
) -> AbstractAsyncContextManager[ServerClient]:
    return reached(McqaServer("mcqa", config or McqaConfig()), over_http=transport == "HTTP")


def judge(
    text: str, transport: str = "in process", config: McqaConfig | None = None, **fields: object
) -> Json:
    async def ask() -> Json:
        content = [{"type": "output_text", "text": text}]
        output = [{"type": "message", "role": "assistant", "content": content}]
        row = {"options": AS_LIST, "expected_answer": "B", **fields, "response": {"output": output}}
        async with questions(transport, config) as client:
            answer = await client.post("/verify", row)
            verified: Json = msgspec.json.decode(answer.body)
            return verified

    return asyncio.run(ask())


def test_the_right_option_earns_the_reward() -> None:
    cases: Iterable[object] = [AS_LIST, AS_MAPPING]
    cases_1: Iterable[str] = ["in process", "HTTP"]
    for options in cases:
        for transport in cases_1:
            verified = judge(r"\boxed{B}", transport, options=options)
            assert (verified["reward"], verified["success"]) == (1.0, True)
            assert verified["extracted_answer"] == "B"
            assert verified["options"] == options


def test_a_wrong_option_earns_nothing() -> None:
    verified = judge(r"\boxed{A}")
    assert (verified["reward"], verified["success"]) == (0.0, False)
    assert verified["extracted_answer"] == "A"


def test_an_answer_that_cannot_be_read_earns_nothing_and_is_told_apart() -> None:
    verified = judge("It must be Paris.")
    assert (verified["reward"], verified["extracted_answer"]) == (0.0, None)


def test_the_row_says_how_its_answer_is_graded() -> None:
    assert judge("Answer: Paris")["reward"] == 0.0
    assert judge("Answer: Paris", grading_mode="lenient_answer_colon")["reward"] == 1.0
    assert judge(r"\boxed{Paris}", grading_mode="lenient_boxed")["reward"] == 1.0


def test_the_setting_of_the_server_replaces_the_grading_mode_of_the_rows() -> None:
    config = McqaConfig(grading_mode=GradingMode.LENIENT_ANSWER_COLON_MD)
    strict = "strict_single_letter_boxed"
    verified = judge("**Answer: B**", config=config, grading_mode=strict)
    assert (verified["reward"], verified["answer_source"]) == (1.0, "lenient_answer_colon_md")
    assert judge("**Answer: B**", grading_mode=strict)["reward"] == 0.0


def test_rows_as_other_tools_write_them_are_understood() -> None:
    options = [{"a": "Lyon"}, {"B": "Paris"}, {"C": None}]
    assert judge(r"\boxed{B}", options=options, expected_answer=" b ")["reward"] == 1.0
    assert judge(r"\boxed{C}", options=options)["extracted_answer"] is None


def test_a_regular_expression_of_the_row_comes_before_the_grading_mode() -> None:
    cases: Iterable[tuple[object, str, str | None]] = [
        (r"Option Selected:\s*([A-Za-z])\s*", "option selected: A. No, Option Selected: b", "B"),
        ([r"Answer:\s*([A-D])", r"Antwort:\s*([A-D])"], "Antwort: B", "B"),
        (r"Choice: (.*)", "Choice: paris", "B"),
        (r"Choice: (.*)", r"Choice: unclear \boxed{B}", "B"),
        (r"Choice: (.*)", "unclear", None),
    ]
    for pattern, text, choice in cases:
        verified = judge(text, template_metadata={"output_regex": pattern, "template_id": 7})
        assert verified["extracted_answer"] == choice, pattern
        assert "invalid_regex" not in verified
    selected = {"output_regex": r"Selected: ([A-Z])"}
    assert judge("Selected: B", options=[], template_metadata=selected)["reward"] == 1.0


def test_an_invalid_regular_expression_is_named_and_the_grading_mode_decides() -> None:
    verified = judge(r"\boxed{B}", template_metadata={"output_regex": "(["})
    assert verified["reward"] == 1.0
    assert verified["invalid_regex"].startswith("'([': ")


def test_a_regular_expression_that_takes_too_long_is_a_failure_and_blocks_nothing() -> None:
    config = McqaConfig(regex_cpu_seconds=0.2)
    with pytest.raises(TaskError, match=r"needs more than 0.2 s of processor time"):
        judge("a" * 60, config=config, template_metadata={"output_regex": r"(a+)+([B-D])"})


def test_a_row_that_has_no_right_answer_cannot_be_run() -> None:
    cases: Iterable[tuple[Json, str]] = [
        ({"expected_answer": "C"}, "not one of the options"),
        ({"expected_answer": "Paris"}, "expected_answer"),
        ({"options": [{"A": "Lyon"}]}, "options"),
        ({"options": [{"A": "Lyon"}, {"A": "Paris"}]}, "two options have the same letter"),
        ({"options": {"A": "Lyon", "Bee": "Paris"}}, "options"),
        ({"options": "A or B"}, "options"),
        ({"grading_mode": "generous"}, "grading_mode"),
    ]
    for fields, complaint in cases:
        with pytest.raises(TaskError, match=complaint):
            judge(r"\boxed{B}", **fields)


def rollout(answer: str | None, right: str = "B") -> Json:
    success = answer == right
    return {"extracted_answer": answer, "reward": float(success), "success": success}


def test_the_metrics_have_the_majority_and_the_answers_that_could_not_be_read() -> None:
    server = McqaServer("mcqa", McqaConfig())
    tasks = [
        [rollout("B"), rollout("A"), rollout("B"), rollout("B")],
        [rollout(None), rollout("A"), rollout("A"), rollout("B")],
    ]
    metrics = server.compute_metrics(tasks)
    assert metrics["pass@1[avg-of-4]/accuracy"] == 50.0
    assert metrics["pass@4/accuracy"] == 100.0
    assert metrics["majority@4/accuracy"] == 50.0
    assert metrics["pass@1[avg-of-4]/no_answer"] == 12.5
    key = server.get_key_metrics({"mean/reward": 0.5, **metrics})
    assert key["mean/reward"] == 0.5
    assert {"pass@4/accuracy", "majority@4/accuracy", "pass@1[avg-of-4]/no_answer"} <= key.keys()


def test_the_server_answers_the_aggregate_of_a_collection() -> None:
    async def ask() -> Json:
        rows = [{**rollout(answer), "_ng_task_index": 0} for answer in ("B", "B", None)]
        async with questions("in process") as client:
            answer = await client.post("/aggregate_metrics", {"verify_responses": rows})
            assert answer.status == 200, answer.text
            metrics: Json = msgspec.json.decode(answer.body)
            return metrics

    metrics = asyncio.run(ask())
    assert metrics["key_metrics"]["majority@3/accuracy"] == 100.0
    assert metrics["agent_metrics"]["pass@1[avg-of-3]/no_answer"] == pytest.approx(100 / 3)


def test_generated_questions_have_four_different_options() -> None:
    cases: Iterable[int] = range(60)
    for index in cases:
        question = make_question(Random(index), index)
        assert len(set(question.options.values())) == 4
        assert question.answer in question.options


def test_generated_questions_about_divisors_have_one_right_option() -> None:
    for index in range(1, 61, 3):
        question = make_question(Random(index), index)
        divisor = int(question.text.removesuffix("?").split()[-1])
        right = [letter for letter, text in question.options.items() if int(text) % divisor == 0]
        assert right == [question.answer]


def test_the_generator_makes_rows_for_every_grading_mode() -> None:
    rows = [McqaTask.model_validate(row) for row in generate_rows(12, seed=0)]
    assert {row.grading_mode for row in rows} == set(GradingMode)


def test_the_example_rows_are_what_the_generator_writes(tmp_path: Path) -> None:
    main(["--count", "5", "--seed", "0", "--output", str(tmp_path / "rows.jsonl")])
    written = (tmp_path / "rows.jsonl").read_bytes()
    assert written == (FOLDER / "data" / "example.jsonl").read_bytes()
    for line in written.splitlines():
        assert "tools" not in msgspec.json.decode(line)["responses_create_params"]


def test_the_configuration_with_a_model_makes_three_servers(tmp_path: Path) -> None:
    scripted = "responses_api_models/scripted_model/configs/scripted_model.yaml"
    config = "resources_servers/mcqa/configs/mcqa.yaml"
    run = load_config([f"+config_paths=[{scripted},{config}]"], tmp_path, listening=False)
    assert [instance.name for instance in run.instances] == [
        "policy_model",
        "mcqa_resources_server",
        "mcqa_simple_agent",
    ]
    for instance in run.instances:
        load_settings(instance, load_server_class(instance))
    assert load_server_class(run.instances[1]) is McqaServer


OTHERS = """
mcqa:
  resources_servers:
    mcqa:
      entrypoint: app.py
      grading_mode: {mode}
      domain: knowledge
      verified: false
      description: Questions
      value: Knowledge
"""


def test_a_configuration_of_nemo_gym_is_honoured(tmp_path: Path) -> None:
    cases: Iterable[tuple[str, GradingMode | None]] = [
        ("null", None),
        ("lenient_answer_colon_md", GradingMode.LENIENT_ANSWER_COLON_MD),
    ]
    for written, mode in cases:
        (tmp_path / "mcqa.yaml").write_text(OTHERS.format(mode=written))
        run = load_config(["+config_paths=[mcqa.yaml]"], tmp_path, listening=False)
        settings = load_settings(run.instances[0], load_server_class(run.instances[0]))
        assert isinstance(settings, McqaConfig)
        assert settings.grading_mode is mode
