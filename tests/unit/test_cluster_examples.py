"""The files for clusters that users copy: they can be read, and name what exists."""

import re
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
