"""code_gen: the model writes a Python program, and the program runs against tests in a sandbox.

The program is the last Python block of the answer. The reward is 1 when it passes every test, else
0. A program that does something wrong gets a result for it; an error of the machine is a failed
rollout.
"""

import logging
import os
import sys
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from resources_servers.code_gen.execution import ProgramLimits, SandboxError
from resources_servers.code_gen.sandbox import REMEDY, Sandbox, inspect_machine
from resources_servers.code_gen.task import CodeTask, extract_program
from resources_servers.code_gen.verification import CaseResult, CaseStatus, RunBudget, run_tests
from rollgym.records import VerifierError
from rollgym.servers import ResourcesConfig, ResourcesServer, Response, Verdict
from rollgym.servers.config.problems import ConfigError, Problem
from rollgym.servers.final_answer import CLOSING, OPENING
from rollgym.servers.server import NoEffect
from rollgym.store import Setting

_LOGGER = logging.getLogger(__name__)
_MEBIBYTE = 1 << 20
_OTHER_NAMES = {"num_processes": "workers", "unit_test_timeout_secs": "cpu_seconds"}


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class CodeGenConfig(ResourcesConfig):
    """How programs are run.

    Args:
        require: `strict` rejects a machine on which a program could reach the network, files or
            other processes; `best_effort` warns and continues. Strict by default on Linux.
        workers: Programs that run at the same time. Others wait in a queue.
        cpu_seconds: Processor time limit of one test.
        wall_seconds: Wall time limit of one test, not counting its waits for a processor.
        total_seconds: Processor time limit of all tests of a program together; null means no limit.
        stop_after_failures: Failed tests after which the remaining tests do not run; null runs all.
        memory_mb: Address space limit of a program.
        scratch_mb: Limit of the files that a program writes.
        output_mb: Limit of what a program prints.
        num_processes: Another name of `workers`.
        unit_test_timeout_secs: Another name of `cpu_seconds`.
        reasoning_format_penalty: Reward of an answer with tags of reasoning, whatever the program
            does; null: they make no difference.
    """

    @model_validator(mode="before")
    @classmethod
    def _with_own_names(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """NeMo Gym's names of settings become ours."""
        renamed = dict(settings)
        for theirs, ours in _OTHER_NAMES.items():
            if renamed.get(theirs) is None:
                continue
            if renamed.get(ours, renamed[theirs]) != renamed[theirs]:
                raise ValueError(f"`{ours}` and `{theirs}` are the same setting; remove one")
            renamed[ours] = renamed[theirs]
        return renamed

    require: Literal["strict", "best_effort"] = Field(
        default_factory=lambda: "strict" if sys.platform == "linux" else "best_effort"
    )
    workers: Annotated[int, Setting.TIMING] = Field(default_factory=_processors, ge=1)
    cpu_seconds: int = Field(default=10, ge=1)
    wall_seconds: float = Field(default=30.0, gt=0)
    total_seconds: float | None = Field(default=None, gt=0)
    stop_after_failures: int | None = Field(default=3, ge=1)
    memory_mb: int = Field(default=512, ge=64)
    scratch_mb: int = Field(default=16, ge=1)
    output_mb: int = Field(default=1, ge=1, le=64)
    num_processes: Annotated[int | None, Setting.TIMING] = None
    unit_test_timeout_secs: int | None = None
    reasoning_format_penalty: float | None = Field(default=None, allow_inf_nan=False)
    debug: Annotated[
        bool | None,
        Setting.NOTE,
        NoEffect("the verdict says what every program printed and how it ended"),
    ] = None

    @property
    def program_limits(self) -> ProgramLimits:
        return ProgramLimits(
            cpu_seconds=self.cpu_seconds,
            wall_seconds=self.wall_seconds,
            memory_bytes=self.memory_mb * _MEBIBYTE,
            scratch_bytes=self.scratch_mb * _MEBIBYTE,
            output_bytes=self.output_mb * _MEBIBYTE,
        )

    @property
    def budget(self) -> RunBudget:
        return RunBudget(self.total_seconds, self.stop_after_failures)


class CodeGen(ResourcesServer[CodeTask, None]):
    """Runs programs against the tests of their tasks."""

    config: CodeGenConfig
    _sandbox: Sandbox | None = None

    async def start(self) -> None:
        """Raises ConfigError if the machine cannot isolate programs as required."""
        try:
            machine = await inspect_machine()
        except SandboxError as error:
            raise ConfigError([Problem(self.name, str(error), REMEDY)]) from error
        if not machine.safe and self.config.require == "strict":
            problem = f"programs cannot be isolated on this machine: {machine}"
            raise ConfigError([Problem(self.name, problem, REMEDY)])
        if not machine.safe:
            _LOGGER.warning("%s runs programs without full isolation: %s", self.name, machine)
        self._sandbox = Sandbox(machine.layers, workers=self.config.workers)
        await super().start()

    def health(self) -> dict[str, Any]:
        return {**super().health(), "sandbox": self._sandbox.layers if self._sandbox else ()}

    async def verify(self, task: CodeTask, response: Response, state: None) -> Verdict:
        if self._sandbox is None:
            raise VerifierError(f"{self.name} is not started")
        source = extract_program(response.text)
        results: list[CaseResult] = []
        if source is not None:
            results = await run_tests(
                self._sandbox, source, task, self.config.program_limits, self.config.budget
            )
        passed = sum(result.status is CaseStatus.PASSED for result in results)
        solved = passed == len(task.test_cases)
        reward, penalty = float(solved), self.config.reasoning_format_penalty
        if penalty is not None and any(tag in response.text for tag in (OPENING, CLOSING)):
            reward = penalty
        return Verdict(
            reward=reward,
            success=solved,
            num_tests=len(task.test_cases),
            num_passed=passed,
            results=results,
            extracted_code=source,
            extraction_failed=source is None,
            sandbox=self._sandbox.layers,
        )
