"""Collections whose model, tools and verifier break in every way we know of.

Each table of faults is one real collection, in which every rollout meets its own: some once, so
that a retry mends it, and some always, so that it ends as a typed failure. `Collected` makes
sure of each that the books balance and that nothing but the verifier gave a reward.
"""

from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from rollgym.records import FailureKind
from tests.chaos.collect_run import Workspace, troubled
from tests.chaos.collected import Collected
from tests.chaos.faulty_environment import FaultyTask, Place, Trouble
from tests.chaos.faulty_mind import Mind, minded
from tests.counterparts.processes import running_module
from tests.e2e.command import wait_until
from tests.faulty_model import in_background

MAX_ATTEMPTS = 2
REQUEST_TIMEOUT = 2.0
IN_PROCESS, OVER_SOCKETS = 1.0, 2.0
"""Seconds that an environment has for each answer."""
RETRY_AFTER = 0.2
LONGEST = 60.0
"""Every table is done in a fraction of it; no fault can hold one up for longer than its bounds."""

Name = tuple[object, ...]


class Numbered:
    """Tasks by the name that a test has for them; their numbers are those of the rows."""

    def __init__(self) -> None:
        self.tasks: dict[Name, FaultyTask] = {}
        self._numbers = count()

    def add(self, name: Name, *troubles: Trouble) -> None:
        self.tasks[name] = troubled(next(self._numbers), *troubles)

    def __getitem__(self, name: Name) -> int:
        return self.tasks[name].number


class Table(NamedTuple):
    """One collection of all the tasks of a table."""

    numbers: Numbered
    mind: Mind
    collected: Collected

    def attempts(self, *name: object) -> int:
        """How many attempts a rollout took that completed in the end."""
        metadata = self.collected.rows[self.numbers[name]]["metadata"]
        assert metadata["verification_score"] == 1.0
        attempts: int = metadata["attempts"]
        return attempts

    def kinds(self, *name: object) -> list[str]:
        """What its attempts failed of."""
        return self.collected.kinds.get(self.numbers[name], [])

    def details(self, *name: object) -> list[str]:
        failures = self.collected.failures[self.numbers[name]]
        return [failure["failure"]["detail"] for failure in failures]

    def gave_up(self, *name: object) -> bool:
        """Whether it has failed, with no more than its failures to show."""
        number = self.numbers[name]
        finals = [failure["final"] for failure in self.collected.failures[number]]
        return number not in self.collected.rows and finals == [False] * (len(finals) - 1) + [True]

    def calls(self, *name: object) -> int:
        """The requests that the model saw of it."""
        return self.mind.calls[self.numbers[name]]


def collected_table(
    folder: Path, numbers: Numbered, environment_timeout: float, stranger: str | None = None
) -> Iterator[Table]:
    """Collect all the tasks at once; with the servers of a `stranger` where its URL is given."""
    mind = Mind()
    with in_background(minded(mind)) as model:
        work = Workspace(folder, model.base_url, numbers.tasks.values())
        work.pool |= {
            "request_timeout": REQUEST_TIMEOUT,
            "max_retries": 1,
            "max_answer_bytes": 1 << 20,
        }
        work.agent["on_context_overflow"] = "fail"
        for name in ("seed_timeout", "tool_timeout", "verify_timeout"):
            work.agent[name] = environment_timeout
        if stranger:
            work.environment = work.stranger = {"url": stranger}
        collected = work.collect(
            f"+max_attempts={MAX_ATTEMPTS}", f"+num_samples_in_parallel={len(numbers.tasks)}"
        )
        wait_until(lambda: model.in_flight == 0)
        yield Table(numbers, mind, collected)


# The model.

PASSING = {
    "429": (FailureKind.MODEL_RATE_LIMIT, 3),
    "500": (FailureKind.MODEL_UNAVAILABLE, 2),
    "503": (FailureKind.MODEL_UNAVAILABLE, 2),
    "hangs": (FailureKind.MODEL_UNAVAILABLE, 2),
    "resets": (FailureKind.MODEL_UNAVAILABLE, 2),
    "resets in the body": (FailureKind.MODEL_UNAVAILABLE, 2),
    "truncated": (FailureKind.MODEL_UNAVAILABLE, 2),
    "not HTTP": (FailureKind.MODEL_UNAVAILABLE, 2),
    "malformed": (FailureKind.MODEL_MALFORMED, 2),
    "endless": (FailureKind.MODEL_MALFORMED, 2),
    "no response": (FailureKind.MODEL_MALFORMED, 1),
    "failed response": (FailureKind.MODEL_UNAVAILABLE, 1),
}
"""Faults that may pass: their kind, and how often a call is tried before its rollout fails."""

LASTING = {
    "400": FailureKind.MODEL_REQUEST,
    "401": FailureKind.MODEL_AUTH,
    "overflow": FailureKind.MODEL_CONTEXT,
    "429 for good": FailureKind.MODEL_RATE_LIMIT,
}
"""Faults that no waiting mends."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    numbers = Numbered()
    numbers.add(("nothing",))
    numbers.add(("late",), Trouble(at="model", fault="500", times=2, after=1))
    for fault, (_, tries) in PASSING.items():
        numbers.add((fault, "once"), Trouble(at="model", fault=fault, times=1))
        numbers.add((fault, "in one attempt"), Trouble(at="model", fault=fault, times=tries))
        numbers.add((fault, "always"), Trouble(at="model", fault=fault))
    for fault in LASTING:
        numbers.add((fault,), Trouble(at="model", fault=fault))
    yield from collected_table(tmp_path_factory.mktemp("model"), numbers, IN_PROCESS)


def test_a_rollout_beside_all_these_faults_is_as_if_there_were_none(model: Table) -> None:
    assert model.attempts("nothing") == 1
    assert model.calls("nothing") == 2
    assert model.collected.seconds < LONGEST


def test_a_fault_of_the_model_that_passes_at_once_costs_no_attempt(model: Table) -> None:
    for fault in (fault for fault, (_, tries) in PASSING.items() if tries > 1):
        assert model.attempts(fault, "once") == 1, fault
        assert model.calls(fault, "once") == 3, fault
        assert model.kinds(fault, "once") == [], fault


def test_a_fault_of_the_model_that_passes_later_costs_one_attempt(model: Table) -> None:
    for fault, (kind, tries) in PASSING.items():
        assert model.attempts(fault, "in one attempt") == 2, fault
        assert model.kinds(fault, "in one attempt") == [kind], fault
        assert model.calls(fault, "in one attempt") == tries + 2, fault


def test_a_fault_of_the_model_that_stays_fails_typed_within_its_bound(model: Table) -> None:
    for fault, (kind, tries) in PASSING.items():
        assert model.kinds(fault, "always") == [kind] * MAX_ATTEMPTS, fault
        assert model.gave_up(fault, "always"), fault
        assert model.calls(fault, "always") == tries * MAX_ATTEMPTS, fault


def test_a_lasting_fault_of_the_model_is_not_retried(model: Table) -> None:
    for fault, kind in LASTING.items():
        assert model.kinds(fault) == [kind], fault
        assert model.gave_up(fault), fault
        assert model.calls(fault) == 1, fault


def test_the_time_that_the_model_asks_for_is_waited(model: Table) -> None:
    asked = model.mind.asked[model.numbers["429", "always"]]
    assert len(asked) == PASSING["429"][1] * MAX_ATTEMPTS
    # Timers may round down to a millisecond.
    assert all(later - earlier > 0.95 * RETRY_AFTER for earlier, later in pairwise(asked))


def test_an_attempt_that_failed_halfway_keeps_what_was_said_until_then(model: Table) -> None:
    assert model.attempts("late") == 2
    (failure,) = model.collected.failures[model.numbers["late",]]
    response = failure["response"]
    assert response["status"] == "incomplete"
    items = [item["type"] for item in response["output"]]
    assert items == ["function_call", "function_call_output"]
    assert response["usage"]["output_tokens"] == 2


# The environment.

BREAKING: dict[tuple[Place, str], FailureKind] = {
    ("seed", "raises"): FailureKind.ENVIRONMENT,
    ("seed", "hangs"): FailureKind.ENVIRONMENT,
    ("tool", "hangs"): FailureKind.TOOL,
    ("tool", "breaks"): FailureKind.TOOL,
    ("tool", "raises"): FailureKind.TOOL,
    ("verify", "raises"): FailureKind.VERIFIER,
    ("verify", "hangs"): FailureKind.VERIFIER,
    ("verify", "gives NaN"): FailureKind.VERIFIER,
    ("verify", "gives infinity"): FailureKind.VERIFIER,
    ("verify", "gives a text"): FailureKind.VERIFIER,
    ("verify", "answers 500"): FailureKind.ENVIRONMENT,  # these have closed the session
    ("verify", "answers with a NaN"): FailureKind.ENVIRONMENT,
    ("verify", "answers without a reward"): FailureKind.ENVIRONMENT,
    ("verify", "answers half an object"): FailureKind.ENVIRONMENT,
}
SHOWN = {"rejects": "not now"}
"""Faults of a tool that are the model's to deal with, and what it reads."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    numbers = Numbered()
    for place, fault in BREAKING:
        numbers.add((place, fault, "once"), Trouble(at=place, fault=fault, times=1))
        numbers.add((place, fault, "always"), Trouble(at=place, fault=fault))
    for fault in SHOWN:
        numbers.add((fault,), Trouble(at="tool", fault=fault, times=1))
    yield from collected_table(tmp_path_factory.mktemp("environment"), numbers, IN_PROCESS)


def test_a_fault_of_the_environment_that_passes_costs_one_attempt(environment: Table) -> None:
    """A verifier is asked again within the attempt, unless it has closed its session."""
    for fault, kind in BREAKING.items():
        kinds = [] if kind is FailureKind.VERIFIER else [kind]
        assert environment.attempts(*fault, "once") == 1 + len(kinds), fault
        assert environment.kinds(*fault, "once") == kinds, fault


def test_a_fault_of_the_environment_that_stays_fails_typed_within_its_bound(
    environment: Table,
) -> None:
    for fault, kind in BREAKING.items():
        assert environment.kinds(*fault, "always") == [kind] * _attempts(kind), fault
        assert environment.gave_up(*fault, "always"), fault
    assert environment.collected.seconds < LONGEST


def _attempts(kind: FailureKind) -> int:
    """What is finished and only lacks a verdict is not run again."""
    return 1 if kind is FailureKind.VERIFIER else MAX_ATTEMPTS


def test_what_only_lacks_a_verdict_is_kept(environment: Table) -> None:
    for place, fault in BREAKING:
        failures = environment.collected.failures[environment.numbers[place, fault, "always"]]
        assert all(each.get("unverified", False) == (place == "verify") for each in failures), fault


def test_a_call_that_hung_is_named_with_its_bound(environment: Table) -> None:
    for place, path in (("seed", "/seed_session"), ("tool", "/look_up"), ("verify", "/verify")):
        for detail in environment.details(place, "hangs", "always"):
            assert path in detail
            assert f"within {IN_PROCESS:g} s" in detail


def test_the_model_sees_a_failure_that_a_tool_reports(environment: Table) -> None:
    for fault, shown in SHOWN.items():
        assert environment.attempts(fault) == 1
        assert environment.calls(fault) == 3
        transcript = environment.collected.rows[environment.numbers[fault,]]["output"]
        results = [entry["content"] for entry in transcript if entry["role"] == "tool"]
        assert shown in results[0]
        assert len(results) == 2
        metadata = environment.collected.rows[environment.numbers[fault,]]["metadata"]
        assert metadata["tool_errors"] == 1


# External servers.

EXTERNAL: dict[tuple[Place, str], FailureKind] = {
    ("seed", "vanishes"): FailureKind.ENVIRONMENT,
    ("seed", "hangs"): FailureKind.ENVIRONMENT,
    ("seed", "answers 500"): FailureKind.ENVIRONMENT,
    ("tool", "vanishes"): FailureKind.TOOL,
    ("tool", "hangs"): FailureKind.TOOL,
    ("tool", "answers 500"): FailureKind.TOOL,
    ("verify", "vanishes"): FailureKind.VERIFIER,
    ("verify", "hangs"): FailureKind.VERIFIER,
    ("verify", "answers 500"): FailureKind.VERIFIER,
    ("verify", "answers in HTML"): FailureKind.VERIFIER,
    ("verify", "answers with a NaN"): FailureKind.VERIFIER,
    ("run", "vanishes"): FailureKind.AGENT,
    ("run", "answers 500"): FailureKind.AGENT,
    ("run", "answers in HTML"): FailureKind.VERIFIER,
    ("run", "answers with a NaN"): FailureKind.VERIFIER,
}


@pytest.fixture(scope="module")
def external(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    numbers = Numbered()
    for place, fault in EXTERNAL:
        numbers.add((place, fault, "once"), Trouble(at=place, fault=fault, times=1))
        numbers.add((place, fault, "always"), Trouble(at=place, fault=fault))
    folder = tmp_path_factory.mktemp("external")
    with running_module("tests.chaos.faulty_stranger") as url:
        yield from collected_table(folder, numbers, OVER_SOCKETS, url)


def test_a_fault_of_an_external_server_that_passes_costs_one_attempt(external: Table) -> None:
    for fault, kind in EXTERNAL.items():
        kinds = [] if fault[0] == "verify" else [kind]
        assert external.attempts(*fault, "once") == 1 + len(kinds), fault
        assert external.kinds(*fault, "once") == kinds, fault


def test_a_fault_of_an_external_server_that_stays_fails_typed_within_its_bound(
    external: Table,
) -> None:
    for fault, kind in EXTERNAL.items():
        attempts = _attempts(kind) if fault[0] == "verify" else MAX_ATTEMPTS
        assert external.kinds(*fault, "always") == [kind] * attempts, fault
        assert external.gave_up(*fault, "always"), fault
    assert external.collected.seconds < LONGEST


# Bounds that hold for everything.


def test_a_wait_longer_than_the_run_allows_ends_the_rollout_at_once(tmp_path: Path) -> None:
    mind = Mind()
    trouble = Trouble(at="model", fault="429 for an hour")
    with in_background(minded(mind)) as model:
        work = Workspace(tmp_path, model.base_url, [troubled(0, trouble)])
        work.pool["max_retry_after"] = 0.5
        collected = work.collect()
    assert collected.kinds == {0: [FailureKind.MODEL_RATE_LIMIT]}
    assert collected.failures[0][0]["failure"]["retry_after"] == 3600
    assert mind.calls == {0: 1}
    assert collected.seconds < LONGEST


def test_whatever_hangs_ends_at_the_deadline_of_the_rollout_and_is_called_off(
    tmp_path: Path,
) -> None:
    places: tuple[Place, ...] = ("model", "seed", "tool", "verify")
    hanging = [troubled(n, Trouble(at=place, fault="hangs")) for n, place in enumerate(places)]
    with in_background(minded(Mind())) as model:
        work = Workspace(tmp_path, model.base_url, [*hanging, troubled(len(places))])
        collected = work.collect("+rollout_timeout=3", "+num_samples_in_parallel=5")
        wait_until(lambda: model.disconnects >= 1)
    assert collected.kinds == {n: [FailureKind.TIMEOUT] for n in range(len(places))}
    assert list(collected.rows) == [len(places)]
    assert collected.seconds < LONGEST
