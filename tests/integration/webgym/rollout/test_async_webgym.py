"""AsyncWebGym as a program uses it, before a browser server that answers from a list."""

import asyncio
import inspect
import resource
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from rollgym.cli.main import main
from rollgym.ctl.commands import PERSON
from rollgym.engine import Control, Coverage, ExitStatus
from rollgym.records import ModelAuthError
from rollgym.store import DiskFullError, RefusedError
from tests.integration.webgym.client.scripted_server import Asked, ScriptedServer, answer, scripted
from tests.integration.webgym.episode.playing import START, ListedAgent, Planned, page
from webgym.actions.space import GiveAnswer, Scroll
from webgym.models.web_agent import WebAgent
from webgym.rollout.gym import AsyncWebGym
from webgym.rollout.iteration import read_report
from webgym.settings import UnknownKeyWarning
from webgym.trajectory.metrics import calculate_rollout_metrics
from webgym.trajectory.torch_file import TorchFile

CONFIGS = Path(__file__).parents[4] / "scripts" / "config"
SEED_SIGNATURE = {
    "master_port": 7000,
    "host_ip": "localhost",
    "num_workers": 20,
    "verbose": True,
    "task_timeout_minutes": 20,
    "completion_threshold": 0.98,
    "completion_grace_period": 120,
    "blocklist_manager": None,
    "skip_instance_cleanup": False,
    "multinode_rank_suffix": "",
    "split": "train",
    "env_config": None,
    "interaction_mode": "coordinates",
}
ROWS = [{"task_name": f"Task {n}", "website": START, "difficulty": 1} for n in range(3)]
Using = Callable[[ScriptedServer, int], Awaitable[None]]


def with_server(using: Using) -> None:
    async def run() -> None:
        async with scripted() as (server, url):
            server.script("/step", answer(msgspec.to_builtins(page())))
            await using(server, int(url.rpartition(":")[2]))

    asyncio.run(run())


def gym(port: int, folder: Path, **more: Any) -> AsyncWebGym:
    given: dict[str, Any] = {"sampled_tasks": ROWS, "verbose": False, "num_workers": 2}
    return AsyncWebGym(master_port=port, host_ip="127.0.0.1", save_path=folder, **{**given, **more})


def agent(plan: list[Planned] | None = None) -> ListedAgent:
    return ListedAgent(plan or [GiveAnswer("done")] * len(ROWS))


def test_its_signature_is_the_one_that_users_know() -> None:
    parameters = inspect.signature(AsyncWebGym).parameters
    assert {name: parameters[name].default for name in SEED_SIGNATURE} == SEED_SIGNATURE
    assert {"cpu_cluster_token", "sampled_tasks", "save_path", "retry_policy"} <= set(parameters)


def test_sampled_rows_are_run_kept_and_told(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    written: list[tuple[Path, int]] = []

    def note(file: Path) -> None:
        with TorchFile(file) as opened:
            written.append((file, len(opened)))

    async def using(server: ScriptedServer, port: int) -> None:
        environment = gym(port, tmp_path, env_config={"save_every_percent": 34})
        coverage = await environment.collect(agent(), note, trajectory_callback=told.append)
        assert written == [(environment.paths.trajectories, number) for number in (2, 3)]
        assert (coverage.completed, coverage.expected) == (3, 3)
        with TorchFile(environment.paths.trajectories) as file:
            assert sorted(str(each["task_id"]) for each in file.trajectories()) == ["0", "1", "2"]
        report = read_report(environment.paths.metrics)
        assert report is not None
        assert (report.final, report.metrics["success_rate"]) == (True, 1.0)
        assert dict(report.metrics) == dict(calculate_rollout_metrics(told))
        assert server.paths().count("/get") == server.paths().count("/reset") == 3

    with_server(using)
    assert sorted(each["task_id"] for each in told) == ["0", "1", "2"]


def test_running_it_again_runs_nothing_that_is_there(tmp_path: Path) -> None:
    async def using(server: ScriptedServer, port: int) -> None:
        await gym(port, tmp_path).collect(agent())
        asked = len(server.paths())
        coverage = await gym(port, tmp_path).collect(agent())
        assert (coverage.resumed, coverage.attempts) == (3, 0)
        assert len(server.paths()) == asked

    with_server(using)


def test_a_running_iteration_is_controlled_through_the_folder_of_the_experiment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def using(_: ScriptedServer, port: int) -> None:
        control = Control()
        control.hold(PERSON)
        collecting = asyncio.ensure_future(gym(port, tmp_path).collect(agent(), control=control))
        async with asyncio.timeout(30):
            while not list(tmp_path.rglob("control.sock")):  # noqa: ASYNC110, ASYNC240
                await asyncio.sleep(0.01)
            resume = ["ctl", str(tmp_path), "resume"]
            assert await asyncio.to_thread(main, resume) == 0
            assert (await collecting).completed == 3

    with_server(using)
    assert capsys.readouterr().out == "It goes on.\n"


def test_it_stops_when_every_episode_fails_alike_and_the_run_can_grow(tmp_path: Path) -> None:
    rows = [{"task_name": f"Task {n}", "website": START, "difficulty": 1} for n in range(40)]
    settings = {"max_same_failures": 2, "evaluation_workers": 1}
    whole: dict[str, Any] = {"env_config": settings, "completion_threshold": 1, "num_workers": 1}

    async def using(_: ScriptedServer, port: int) -> None:
        broken = agent([ModelAuthError("invalid key")] * len(rows))
        few = gym(port, tmp_path, sampled_tasks=rows[:20], **whole)
        stopped = await few.collect(broken)
        assert stopped.exit_status is ExitStatus.STOPPED
        assert 2 <= stopped.failed <= 2 + 2
        more = gym(port, tmp_path, sampled_tasks=rows, **whole)
        grown = await more.collect(agent([GiveAnswer("done")] * len(rows)))
        assert (grown.completed, grown.failed, grown.resumed) == (
            *(40 - stopped.failed, stopped.failed),
            stopped.failed,
        )
        report = read_report(more.paths.metrics)
        assert report is not None
        assert (report.final, report.coverage.expected) == (True, 40)

    with_server(using)


def test_another_agent_does_not_go_on_with_the_same_run(tmp_path: Path) -> None:
    async def using(_: ScriptedServer, port: int) -> None:
        await gym(port, tmp_path).collect(agent())
        other = agent()
        other.identity = {"base_model": "another"}
        with pytest.raises(RefusedError, match="base_model: absent in the run"):
            await gym(port, tmp_path).collect(other)

    with_server(using)


def test_configurations_may_be_nodes_of_hydra(tmp_path: Path) -> None:
    settings = OmegaConf.create({"train_difficulty_max_steps": {"easy": 2}})
    retry = OmegaConf.create({"max_retries": 0, "http_pools": {"allocate": 1}})

    async def using(_: ScriptedServer, port: int) -> None:
        environment = gym(port, tmp_path, env_config=settings, retry_policy=retry)
        coverage = await environment.collect(agent([Scroll("down")] * 6))
        assert coverage.completed == 3
        with TorchFile(environment.paths.trajectories) as file:
            assert {each["ending"] for each in file.trajectories()} == {"max_steps"}

    with_server(using)


@pytest.mark.parametrize("name", ["rollout_train", "rollout_test"])
def test_the_whole_node_of_our_own_configuration_is_taken(tmp_path: Path, name: str) -> None:
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = compose(name, [f"save_path={tmp_path}", "+env_config.rank_load_wieght=2"])
    config.env_config.master_port = 7777
    with pytest.warns(UnknownKeyWarning) as warned:
        environment = AsyncWebGym(
            sampled_tasks=ROWS,
            save_path=tmp_path,
            env_config=config.env_config,
            retry_policy={"max_retries": 0, "http_pool": {}},
        )
    unknown = "is unknown and not used; the nearest known key is"
    assert [str(each.message) for each in warned] == [
        f"env_config.rank_load_wieght {unknown} env_config.rank_load_weight",
        f"retry_policy.http_pool {unknown} retry_policy.http_pools",
    ]
    assert {each.filename for each in warned} == {__file__}
    assert environment.paths.split == config.env_config.split


def test_unknown_keys_of_an_agent_are_warnings_that_name_the_nearest_key(tmp_path: Path) -> None:
    with pytest.warns(UnknownKeyWarning) as warned:
        WebAgent(
            policy_config=OmegaConf.create({"temprature": 0.5, "top_k": 3}),
            context_config={"windwo": 3},
            model_config={"modle_type": "text"},
            save_path=tmp_path,
            vllm_server_url="http://127.0.0.1:1",
            openai_config={"model": "judge", "modle": "x", "evaluation": {"temprature": 1}},
        )
    unknown = "is unknown and not used; the nearest known key is"
    assert [str(each.message) for each in warned] == [
        f"policy_config.temprature {unknown} policy_config.temperature",
        f"model_config.modle_type {unknown} model_config.model_type",
        f"context_config.windwo {unknown} context_config.window",
        f"openai_config.modle {unknown} openai_config.model",
        f"openai_config.evaluation.temprature {unknown} openai_config.evaluation.temperature",
    ]
    assert {each.filename for each in warned} == {__file__}


def test_isolated_requests_of_all_sessions_run_at_the_same_time(tmp_path: Path) -> None:
    async def using(server: ScriptedServer, port: int) -> None:
        together = asyncio.Barrier(len(ROWS))

        async def all_at_once(_: Asked) -> bytes:
            await together.wait()
            return answer(msgspec.to_builtins(page()))

        server.script("/step", *[all_at_once] * len(ROWS), answer(msgspec.to_builtins(page())))
        isolated = {"isolation": "process", "max_retries": 0}
        environment = gym(port, tmp_path, num_workers=len(ROWS), env_config=isolated)
        coverage = await environment.collect(agent())
        assert coverage.completed == len(ROWS)

    with_server(using)


def test_a_rank_has_its_share_of_every_limit(tmp_path: Path) -> None:
    ranked = {"multinode_rank": 0, "multinode_total_workers": 3, "multinode_rank_suffix": "_a"}
    config = {**ranked, "rank_load_weight": 2, "total_load_weight": 4, "http_pools": {"execute": 8}}
    environment = gym(7000, tmp_path, env_config=config)
    assert environment.paths.trajectories.name.endswith("iteration0_a")
    assert environment.settings.http_pools.execute == 4
    assert environment.settings.evaluation_workers == 8


def test_a_full_disk_under_the_screenshots_stops_the_run_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    """The limit on file sizes stands for a full disk: records fit, the large picture does not."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    large = msgspec.to_builtins(page(picture=b"x" * 400_000))

    async def using(server: ScriptedServer, port: int) -> None:
        environment = gym(port, tmp_path, num_workers=1, env_config={"evaluation_workers": 1})
        server.script("/step", answer(msgspec.to_builtins(page())), answer(large))
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, usual[1]))
        try:
            with pytest.raises(DiskFullError, match="screenshots.*run the same command again"):
                await environment.collect(agent())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        coverage = await gym(port, tmp_path).collect(agent())
        assert (coverage.completed, coverage.failed) == (3, 0)
        assert coverage.resumed + coverage.attempts == 3, "the attempt that met it is not burnt"

    with_server(using)


class Frame:
    """As much of a data frame as is needed."""

    def to_dict(self, orient: str) -> list[dict[str, object]]:
        assert orient == "records"
        return [dict(row) for row in ROWS]


def test_tasks_may_come_as_a_data_frame(tmp_path: Path) -> None:
    async def using(_: ScriptedServer, port: int) -> None:
        coverage: Coverage = await gym(port, tmp_path, sampled_tasks=Frame()).collect(agent())
        assert coverage.completed == 3

    with_server(using)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"retry_policy": {"max_retries": -1}}, "retry_policy.max_retries: "),
        ({"num_workers": 0}, "num_workers is 0"),
        ({"env_config": {"evaluation_workers": 0}}, "evaluation_workers"),
        ({"completion_threshold": 2}, "completion_threshold"),
        ({"env_config": [1]}, "must be a dictionary, not list"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(RefusedError, match=complaint.replace("?", r"\?")):
        gym(7000, tmp_path, **given)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([{"website": START}], "sampled task 0 is not a web task.*task_name"),
        ([*ROWS, 7], "sampled task 3 is int, not a row"),
    ],
)
def test_a_row_that_is_no_task_is_named(tmp_path: Path, rows: list[Any], complaint: str) -> None:
    with pytest.raises(RefusedError, match=complaint):
        asyncio.run(gym(7000, tmp_path, sampled_tasks=rows).collect(agent()))


def test_an_agent_of_the_other_mode_is_refused(tmp_path: Path) -> None:
    environment = gym(7000, tmp_path, interaction_mode="set_of_marks")
    with pytest.raises(RefusedError, match="set_of_marks, the agent coordinates"):
        asyncio.run(environment.collect(agent()))
