from typing import Any

from rollgym.store import Manifest
from rollgym.store.identity import Identity, InputsIdentity
from rollgym.viewer.queries.configuration import Constant, Difference, Run, configuration


def manifest(seed: int = 0, **config: Any) -> Manifest:
    return Manifest.new(Identity(InputsIdentity(5, 10, "abc"), config, seed))


def test_settings_are_constants_where_all_runs_have_the_same() -> None:
    found = configuration(
        [
            Run("a", "A", manifest(model="small", steps=20, only_here=True)),
            Run("b", "B", manifest(seed=1, model="small", steps=30)),
        ]
    )
    assert [source.id for source in found.sources] == ["a", "b"]
    assert found.constants == (
        Constant("inputs.tasks", "5"),
        Constant("inputs.rollouts", "10"),
        Constant("inputs.sha256", "abc"),
        Constant("model", "small"),
    )
    assert found.differences == (
        Difference("seed", ("0", "1")),
        Difference("only_here", ("true", None)),
        Difference("steps", ("20", "30")),
    )


def test_one_run_has_no_differences() -> None:
    found = configuration([Run("a", "A", manifest(steps=[1, 2]))])
    assert Constant("steps", "[1,2]") in found.constants
    assert found.differences == ()


def test_beside_a_run_without_a_manifest_everything_differs() -> None:
    found = configuration([Run("a", "A", None), Run("b", "B", manifest())])
    assert found.constants == ()
    assert Difference("seed", (None, "0")) in found.differences
