"""What `ng_collect_rollouts` finds out before its first rollout."""

from pathlib import Path
from uuid import uuid4

import pytest

from tests.cases import for_each
from tests.e2e.command import Ended
from tests.faulty_model import (
    Exchange,
    FaultyModel,
    Step,
    answer,
    error,
    hang,
    in_background,
    unused_port,
)
from tests.integration.rollouts.commands import Workshop, task

ENVIRONMENT = """
from pathlib import Path

from rollgym.servers import ResourcesServer, TaskRow, Verdict
from rollgym.store import RefusedError

LOG = Path(__file__).with_name("sessions")


def note(what):
    with LOG.open("a") as log:
        log.write(what + "\\n")


class Room(ResourcesServer[TaskRow, dict]):
    async def start(self):
        if LOG.with_name("closed").exists():
            raise RefusedError("the room is closed")
        await super().start()

    async def seed_session(self, task):
        note("seed")
        return {}

    async def close_session(self, session):
        note("close")

    async def verify(self, task, response, session):
        note("verify")
        return Verdict(1.0)
"""
CONFIG = """
room:
  resources_servers: {{{room}: {{entrypoint: app.py}}}}
policy_model:
  responses_api_models:
    openai_model:
      entrypoint: app.py
      openai_base_url: {url}
      openai_api_key: sk-wrong-wrong-wrong
      openai_model: {model}
      pool: {{backoff_initial: 0.01, backoff_maximum: 0.02, rest_initial: 0.01}}
agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {{type: resources_servers, name: room}}
      model_server: {{type: responses_api_models, name: policy_model}}
"""


class Collecting:
    """Commands with an environment that writes down its sessions, and a model at a URL."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._room = f"room_{uuid4().hex}"
        self._folder = workshop.folder / "resources_servers" / self._room
        self._folder.mkdir(parents=True)
        (self._folder / "app.py").write_text(ENVIRONMENT)
        self.closed = self._folder / "closed"
        """While there is such a file, the environment does not start."""
        workshop.write("in.jsonl", [task("a"), task("b")])

    def run(self, url: str, *options: str, model: str = "faulty") -> Ended:
        config = CONFIG.format(room=self._room, url=url, model=model)
        self._workshop.path("servers.yaml").write_text(config)
        return self._workshop.collect("+agent_name=agent", *options, config="servers.yaml")

    def refusal(self, url: str, model: str = "faulty") -> str:
        """What is said, in one line, by a command that leaves no trace."""
        ended = self.run(url, model=model)
        assert (ended.status, ended.stdout) == (6, ""), ended.stderr
        assert not list(self._workshop.folder.glob("out*"))
        assert self.sessions() == []
        (said,) = [line for line in ended.stderr.splitlines() if not line.startswith("2 tasks")]
        return said

    def sessions(self) -> list[str]:
        log = self._folder / "sessions"
        return log.read_text().split() if log.exists() else []


@pytest.fixture
def collecting(tmp_path: Path, workshop: Workshop) -> Collecting:
    return Collecting(workshop)


def by_path(**steps: Step) -> Step:
    """Play the step of the last part of the request's path; others are answered well."""

    async def play(exchange: Exchange) -> bool:
        return await steps.get(exchange.request.path.rpartition("/")[2], answer())(exchange)

    return play


def test_a_wrong_address_is_told_in_one_line(collecting: Collecting) -> None:
    said = collecting.refusal(f"http://127.0.0.1:{unused_port()}/v1")
    assert said.startswith("rollgym: policy_model: ")
    assert "could not connect" in said
    assert "start the endpoint or correct `openai_base_url`" in said
    assert "+preflight=false skips this check" in said


NOT_FOUND = error(404, "The model `gpt` does not exist", code="model_not_found")


@for_each(
    ("step", "said"),
    [
        (error(401, "Incorrect API key"), "correct `openai_api_key` in the configuration of"),
        (
            by_path(responses=NOT_FOUND),
            "correct `openai_model`, which is 'gpt' (its models: faulty), or `openai_base_url`",
        ),
        (
            by_path(responses=NOT_FOUND, models=NOT_FOUND),
            "correct `openai_model`, which is 'gpt', ",
        ),
    ],
)
def test_a_wrong_key_or_model_is_told_in_one_line(
    collecting: Collecting, step: Step, said: str
) -> None:
    with in_background(FaultyModel(otherwise=step)) as model:
        found = collecting.refusal(model.base_url, "gpt")
    assert said in found
    assert "sk-wrong" not in found


def test_the_check_costs_no_tokens_and_leaves_no_session(collecting: Collecting) -> None:
    with in_background(FaultyModel()) as model:
        assert collecting.run(model.base_url).status == 0
        assert [each.path for each in model.requests] == ["/v1/models", *["/v1/responses"] * 2]
        # Nothing is left to do, and nothing is asked.
        model.requests.clear()
        assert collecting.run(model.base_url).status == 0
        assert not model.requests
    assert collecting.sessions()[:2] == ["seed", "close"]
    assert collecting.sessions().count("verify") == 2


@for_each(
    "step",
    [
        by_path(models=error(403, "this key may not list models")),
        by_path(models=error(404, "no such route")),
        by_path(models=error(500, "busy")),
    ],
)
def test_an_endpoint_that_cannot_list_its_models_is_used(
    collecting: Collecting, step: Step
) -> None:
    with in_background(FaultyModel(otherwise=step)) as model:
        assert collecting.run(model.base_url).status == 0


def test_a_model_that_does_not_answer_in_time_is_used_after_a_warning(
    collecting: Collecting,
) -> None:
    with in_background(FaultyModel(otherwise=by_path(models=hang()))) as model:
        ended = collecting.run(model.base_url)
    assert ended.status == 0
    (note,) = [line for line in ended.stderr.splitlines() if line.startswith("note: ")]
    assert "policy_model did not answer within 11 s, so its address, key and model were not" in note


def test_servers_that_do_not_start_leave_no_run_that_the_corrected_command_could_not_continue(
    collecting: Collecting,
) -> None:
    with in_background(FaultyModel()) as model:
        collecting.closed.touch()
        said = collecting.refusal(model.base_url)
        assert said == "rollgym: room did not start: the room is closed"
        collecting.closed.unlink()
        assert collecting.run(model.base_url).status == 0


def test_the_check_can_be_left_out(collecting: Collecting) -> None:
    url = f"http://127.0.0.1:{unused_port()}/v1"
    ended = collecting.run(url, "+preflight=false", "+max_attempts=1")
    assert ended.status == 3
    assert "2 expected = 0 completed + 2 failed" in ended.text
