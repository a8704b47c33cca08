"""What the documentation shows works as it stands there.

In the pages, blocks marked `bash` are run in their order; those marked `sh` need another terminal
or a model, and are not. A Python or YAML block that begins with a path in a comment is a file.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic.fields import FieldInfo

from responses_api_agents.command_agent.app import CommandAgentConfig
from rollgym.cli.pool_settings import ServeSettings
from rollgym.cli.rollout_settings import AgentSettings, CollectSettings, ReverifySettings
from rollgym.cli.serving import ServeOptions
from rollgym.engine import ExitStatus, RetryPolicy
from rollgym.pool import RolloutPool
from rollgym.pool.server import PoolServer
from rollgym.records import TRAITS, FailureKind
from rollgym.servers import (
    AgentConfig,
    AgentServer,
    ModelServer,
    ResourcesConfig,
    ResourcesServer,
    Server,
    ServerConfig,
    ServerKind,
    ServerRef,
    TaskRow,
)
from rollgym.servers.config.instances import RESTARTS
from rollgym.servers.config.loading import SERVER_TOKEN
from rollgym.servers.context import ROLLOUT_HEADER, TIMEOUT_HEADER
from rollgym.servers.endpoints.times import POLICY_VERSION_HEADER
from rollgym.servers.exchange import FAILURE_HEADER
from rollgym.servers.report import PHASES_HEADER, SECONDS_HEADER, TURNS_HEADER
from rollgym.servers.resources import CLOSABLE_HEADER, PARALLEL_HEADER
from rollgym.servers.spans import SPANS_HEADER

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.glob("*.md")])
PLUGINS = tuple(kind.value for kind in ServerKind)
SETTINGS = "| setting | default | meaning |"
PATIENCE = 110.0
WEB_ONLY = {FailureKind.BROWSER, FailureKind.BROWSER_UNAVAILABLE}

STUB = """
async def ask(question: str) -> str:
    if question == "broken":
        raise ConnectionError("the tool hung up")
    return question.upper()
"""


def text_of(page: str) -> str:
    return (DOCS / page).read_text()


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def table(page: str, titles: str, after: str = "") -> list[list[str]]:
    """The rows of the first table with these titles after a heading."""
    _, _, text = text_of(page).partition(f"{after}\n") if after else ("", "", text_of(page))
    found = re.search(rf"^{re.escape(titles)}\n\|[-|]+\|\n((?:\|.*\n)*)", text, re.MULTILINE)
    assert found, f"{page} has no table {titles}"
    rows = (row.removeprefix("|").removesuffix("|") for row in found[1].splitlines())
    return [[cell.strip() for cell in row.split("|")] for row in rows]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`\+?([^`]+)`", cell)


def run_script(folder: Path, script: str) -> str:
    """Run what a reader would paste into a terminal; its standard output."""
    if shutil.which("jq") is None:
        pytest.skip("the documentation uses jq, which is not installed")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# Collecting from Python.


def run_example(folder: Path, rows: str) -> "subprocess.CompletedProcess[str]":
    (folder / "tasks.jsonl").write_text(rows)
    (folder / "program.py").write_text(STUB + code_blocks(DOCS / "collecting.md", "python")[0])
    return subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_program_of_the_guide_collects_and_continues(tmp_path: Path) -> None:
    rows = '{"question": "a", "answer": "A"}\n{"question": "b", "answer": "?"}\n'
    for _ in range(2):
        done = run_example(tmp_path, rows)
        assert done.returncode == ExitStatus.COMPLETE, done.stderr
        assert done.stdout == ("8 expected = 8 completed + 0 failed + 0 omitted + 0 unresolved\n")


def test_a_failure_in_the_program_of_the_guide_is_typed(tmp_path: Path) -> None:
    done = run_example(tmp_path, '{"question": "broken", "answer": ""}\n')
    assert done.returncode == ExitStatus.FAILED, done.stderr
    assert '"kind":"tool"' in (tmp_path / "results/first/journal.jsonl").read_text()


# Tool agents.


def test_every_command_of_the_tool_agents_guide_works(tmp_path: Path) -> None:
    for name in PLUGINS:
        (tmp_path / name).symlink_to(ROOT / name)
    run_script(tmp_path, "\n".join(code_blocks(DOCS / "tool-agents.md", "bash")))
    results = tmp_path / "results"
    collected = rows_in(results / "example_multi_step_rollouts.jsonl")
    assert len(collected) == 10
    assert len(rows_in(results / "merged.jsonl")) == 10
    again = {_key(row): row["reward"] for row in rows_in(results / "verified_again.jsonl")}
    assert again == {_key(row): row["reward"] for row in collected}
    assert (results / "example_multi_step_rollouts.run.previous-1").is_dir()
    successes = sum(row["success"] for row in collected)
    assert len(rows_in(results / "sft.jsonl")) == successes > 0


def _key(row: dict[str, Any]) -> tuple[int, int]:
    return row["_ng_task_index"], row["_ng_rollout_index"]


def test_the_tutorial_is_the_same_in_one_command_as_in_two_terminals() -> None:
    page = DOCS / "tool-agents.md"
    in_two = next(block for block in code_blocks(page, "sh") if "ng_collect_rollouts" in block)
    options = set(re.findall(r"\+(?!config_paths)\S+=\S+", in_two))
    assert options == set(re.findall(r"\+(?!config_paths)\S+=\S+", code_blocks(page, "bash")[0]))


def test_the_guide_lists_every_option_with_its_default() -> None:
    listed = {
        names_in(option)[0]: default.strip("`")
        for option, default, *_ in table("tool-agents.md", "| option | default | meaning |")
    }
    assert listed == {name: _default(field) for name, field in CollectSettings.model_fields.items()}


def test_the_guide_names_the_options_of_reverify_alone() -> None:
    for name in ReverifySettings.model_fields.keys() - CollectSettings.model_fields.keys():
        assert f"`+{name}=" in text_of("tool-agents.md")


def _default(field: FieldInfo) -> str:
    """As one would write it on the command line."""
    if field.is_required():
        return "needed"
    value = field.default
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)


def test_the_guide_lists_the_attempts_of_every_kind_of_failure() -> None:
    policy = RetryPolicy()
    rows = table("tool-agents.md", "| kind | usual cause | attempts |")
    assert {names_in(kind)[0]: int(attempts) for kind, _, attempts in rows} == {
        str(kind): policy.by_kind.get(kind, policy.default).max_attempts if traits.retryable else 1
        for kind, traits in TRAITS.items()
        if kind not in WEB_ONLY
    }


# A pool.


def test_the_trainer_of_the_guide_takes_groups_and_continues(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(code_blocks(DOCS / "pool.md", "python")[0])
    for acknowledged in (5, 10):
        printed = run_script(tmp_path, "python train.py").splitlines()
        assert len(printed) == 6
        assert printed[-1] == f"{acknowledged} acknowledged"


def test_the_guide_lists_every_option_of_a_pool_with_its_default() -> None:
    listed = {
        names_in(option)[0]: default.strip("`")
        for option, default, _ in table("pool.md", "| option | default | meaning |")
    }
    own = ServeSettings.model_fields.keys() - AgentSettings.model_fields.keys()
    assert listed == {name: _default(ServeSettings.model_fields[name]) for name in own}


def test_the_guide_lists_every_route_of_a_pool() -> None:
    listed = {names_in(route)[0] for route, *_ in table("pool.md", "| route | request | answer |")}
    routes = PoolServer(cast("RolloutPool", None))._routes
    known = {f"{method} {path}" for path, (method, _) in routes.items()}
    assert listed == known - {"GET /healthz", "GET /"}


# Writing servers.


@pytest.fixture
def workshop(tmp_path: Path) -> Path:
    """A folder with all files that the page on servers shows."""
    page = DOCS / "servers.md"
    for block in [*code_blocks(page, "python"), *code_blocks(page, "yaml")]:
        path, _, content = block.partition("\n")
        if re.fullmatch(r"# \S+/\S+\.(py|yaml)", path):
            file = tmp_path / path.removeprefix("# ")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    return tmp_path


def test_the_servers_of_the_guide_work(workshop: Path) -> None:
    printed = run_script(workshop, "\n".join(code_blocks(DOCS / "servers.md", "bash")))
    assert {"[7,6,1]", "[50,1,1]", "[93,7,1]"} <= set(printed.replace(".0", "").splitlines())
    assert "1 passed" in printed
    careful = {row["secret"]: row["reward"] for row in rows_in(workshop / "results/careful.jsonl")}
    assert careful == {7: 5 / 6, 50: 1.0, 93: 5 / 7}
    assert '"most_tries":7' in printed
    one_turn = {
        row["secret"]: row["reward"] for row in rows_in(workshop / "results/one_turn.jsonl")
    }
    assert one_turn == {7: 0.0, 50: 1.0, 93: 0.0}


def test_the_agent_of_the_guide_makes_a_rollout(tmp_path: Path) -> None:
    page = DOCS / "any-agent.md"
    program, *_ = code_blocks(page, "python")
    path, _, content = program.partition("\n")
    (tmp_path / path.removeprefix("# ")).write_text(content)
    printed = run_script(tmp_path, "\n".join(code_blocks(page, "bash")))
    assert printed.replace(".0", "").endswith("[1,2]\n")


def test_the_readme_of_the_command_agent_lists_every_setting() -> None:
    known = set(CommandAgentConfig.model_fields) - set(ServerConfig.model_fields)
    own = known - set(AgentConfig.model_fields)
    titles = "| setting | default | |"
    rows = table("../responses_api_agents/command_agent/README.md", titles)
    listed = {name for setting, *_ in rows for name in names_in(setting)}
    assert own <= listed <= known


def test_the_guide_lists_every_setting_of_servers_with_its_default() -> None:
    known = {**ServerConfig.model_fields, **ResourcesConfig.model_fields}
    listed: dict[str, str] = {}
    for setting, default, _ in table("servers.md", SETTINGS, after="## Settings of every server"):
        listed |= dict.fromkeys(names_in(setting), default)
    assert listed.keys() == {*known, "restarts", "ray_resources"}
    assert listed["restarts"] == str(RESTARTS)
    for name in ("processes", "request_timeout", "max_request_bytes", "max_sessions"):
        assert listed[name] == _default(known[name])


def test_the_guide_lists_every_setting_of_agents_with_its_default() -> None:
    own = {
        name: _default(field)
        for name, field in AgentConfig.model_fields.items()
        if name not in ServerConfig.model_fields
    }
    listed: dict[str, str] = {}
    for setting, default, _ in table("servers.md", SETTINGS, after="## Agents"):
        listed |= dict.fromkeys(names_in(setting), default)
    assert listed == own


class NoTools(ResourcesServer[TaskRow, None]):
    """The routes that every environment has."""


def test_the_guide_lists_every_route() -> None:
    reference = {"type": ServerKind.MODEL, "name": "x"}
    agent = AgentConfig(
        resources_server=ServerRef.model_validate(reference),
        model_server=ServerRef.model_validate(reference),
    )
    servers: dict[str, Server] = {
        "resources": NoTools("x", ResourcesConfig()),
        "agent": AgentServer("x", agent),
        "model": ModelServer("x", ServerConfig()),
    }
    routes = {
        (kind, f"{method} {path}")
        for kind, server in servers.items()
        for path, (method, _) in server._routes.items()
        if path not in ("/healthz", "/")
    }
    rows = table("servers.md", "| server | route | gets | answers |")
    listed = {(kind, names_in(route)[0]) for kind, route, *_ in rows}
    every = {("every", "GET /healthz"), ("every", "GET /")}
    assert listed == routes | every | {("resources", "POST /<tool>")}


def test_the_guide_lists_every_header() -> None:
    listed = {
        names_in(row[0])[0] for row in table("servers.md", "| header | direction | meaning |")
    }
    of_requests = {ROLLOUT_HEADER, TIMEOUT_HEADER}
    of_seeding = {CLOSABLE_HEADER, PARALLEL_HEADER}
    of_runs = {PHASES_HEADER, SPANS_HEADER, SECONDS_HEADER, TURNS_HEADER}
    of_answers = {FAILURE_HEADER, *of_seeding, *of_runs, POLICY_VERSION_HEADER, "retry-after"}
    assert listed == of_requests | of_answers


def test_the_options_of_ng_run_are_listed() -> None:
    rows = table("configuration.md", "| option | default | meaning |")
    listed = {name for option, *_ in rows for name in names_in(option)}
    of_head = {"head_server.port", "head_server.host", SERVER_TOKEN}
    assert listed == {"config_paths", *of_head, *ServeOptions.__struct_fields__}


# All pages.


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if target.startswith("http"):
                continue
            path, _, anchor = target.partition("#")
            linked = (page.parent / path).resolve() if path else page
            assert linked.exists(), f"{page.name} links to {target}"
            if anchor:
                assert anchor in _anchors(linked), f"{page.name} links to {target}"


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_python_and_files_that_pages_name_exist(workshop: Path) -> None:
    names = re.compile(rf"(?:{'|'.join(PLUGINS)})/[\w/]+\.(?:yaml|jsonl|py)")
    for page in PAGES:
        for block in code_blocks(page, "python"):
            compile(block, page.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for name in {*names.findall(page.read_text())} - {"resources_servers/x/configs/x.yaml"}:
            assert (ROOT / name).is_file() or (workshop / name).is_file(), f"{page.name}: {name}"


def test_the_guides_list_every_exit_status() -> None:
    for page in ("collecting.md", "tool-agents.md"):
        listed = {int(cells[0]) for cells in table(page, "| status | meaning |")}
        assert listed == {*ExitStatus, 1, 2}, page


def test_the_reference_lists_every_failure_kind_as_the_code_has_it() -> None:
    page = text_of("run-directory.md")
    for kind, traits in TRAITS.items():
        again = "yes" if traits.retryable else "no"
        meaning = re.escape(traits.meaning)
        assert re.search(rf"^\| `{kind}` \| {meaning}.* \| {again} \|$", page, re.MULTILINE), kind
