"""The files for clusters that users copy: they can be read, and name what exists."""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from rollgym.cli.collect import help_text
from tests.cases import for_each

ROOT = Path(__file__).parents[2]
FILES = ROOT / "examples" / "cluster"
SCRIPTS = sorted(FILES.glob("*.sh"))
MANIFESTS = sorted(FILES.glob("*.yaml"))


@for_each("script", SCRIPTS)
def test_a_job_script_can_be_read(script: Path) -> None:
    checked = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    directives = re.findall(r"^#SBATCH (.+)$", script.read_text(), re.MULTILINE)
    assert any(each.startswith("--time=") for each in directives)


@for_each("script", SCRIPTS)
def test_a_job_script_gives_its_step_the_cpus_of_the_job(script: Path, tmp_path: Path) -> None:
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    srun.chmod(0o755)
    variables = {"SLURM_CPUS_PER_TASK": "4", "CONFIGS": "a.yaml", "ROLLGYM": str(tmp_path)}
    ran = subprocess.run(
        ["bash", script, "+limit=3"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    said = ran.stdout.splitlines()
    assert "--cpus-per-task=4" in said
    assert said[-1] == "+limit=3"


def test_the_command_of_a_ray_job_passes_through_two_shells() -> None:
    """One submits the job, with the words joined again for the shell that runs it."""
    _, job = yaml.safe_load_all((FILES / "kuberay.yaml").read_text())
    entrypoint = job["spec"]["entrypoint"]
    for _ in range(2):
        command = f"printf '%s\\0' {entrypoint}"
        read = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        words = read.stdout.rstrip("\0").split("\0")
        entrypoint = subprocess.list2cmdline(words)
    assert words == shlex.split(job["spec"]["entrypoint"])


@for_each("manifest", MANIFESTS)
def test_a_manifest_is_complete_and_its_command_has_known_options(manifest: Path) -> None:
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(manifest.read_text()))
    kinds = [each["kind"] for each in documents]
    assert kinds in (["PersistentVolumeClaim", "RayJob"], ["PersistentVolumeClaim", "Job"])
    (claim, job) = documents
    for pod in _pods(job["spec"]):
        volumes = {each["name"]: each for each in pod.get("volumes", ())}
        for container in pod["containers"]:
            assert {"name", "image", "resources"} <= container.keys()
            assert {each["name"] for each in container.get("volumeMounts", ())} == volumes.keys()
        for volume in volumes.values():
            named = volume.get("persistentVolumeClaim", {}).get("claimName")
            assert named in (None, claim["metadata"]["name"])

    text = manifest.read_text()
    for option in re.findall(r"^ *(?:- )?'?\+(\w+)=", text, re.MULTILINE):
        assert option.startswith("policy_") or f"+{option}=" in help_text(), option
    for path in re.findall(r"[\w/]+\.yaml(?=[,\]])", text):
        assert (ROOT / path).is_file()


def _pods(spec: dict[str, Any]) -> list[dict[str, Any]]:
    if "rayClusterSpec" not in spec:
        return [spec["template"]["spec"]]
    cluster = spec["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]
