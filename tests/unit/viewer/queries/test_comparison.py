from typing import Any

from rollgym.store import Manifest
from rollgym.store.manifest import Identity, InputsIdentity
from rollgym.viewer.queries.comparison import (
    RunName,
    SettingDifference,
    SharedSetting,
    compare_configurations,
)


def manifest(seed: int = 0, **config: Any) -> Manifest:
    return Manifest.new(Identity(InputsIdentity(5, 10, "abc"), config, seed))


def test_settings_are_constants_where_all_runs_have_the_same() -> None:
    found = compare_configurations(
        [
            (RunName("a", "A"), manifest(model="small", steps=20, only_here=True)),
            (RunName("b", "B"), manifest(seed=1, model="small", steps=30)),
        ]
    )
    assert [source.id for source in found.sources] == ["a", "b"]
    assert found.constants == (
        SharedSetting("inputs.tasks", "5"),
        SharedSetting("inputs.rollouts", "10"),
        SharedSetting("inputs.sha256", "abc"),
        SharedSetting("model", "small"),
    )
    assert found.differences == (
        SettingDifference("seed", ("0", "1")),
        SettingDifference("only_here", ("true", None)),
        SettingDifference("steps", ("20", "30")),
    )


def test_one_run_has_no_differences() -> None:
    found = compare_configurations([(RunName("a", "A"), manifest(steps=[1, 2]))])
    assert SharedSetting("steps", "[1,2]") in found.constants
    assert found.differences == ()


def test_beside_a_run_without_a_manifest_everything_differs() -> None:
    found = compare_configurations([(RunName("a", "A"), None), (RunName("b", "B"), manifest())])
    assert found.constants == ()
    assert SettingDifference("seed", (None, "0")) in found.differences
