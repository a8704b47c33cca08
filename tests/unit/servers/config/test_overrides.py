"""The command line in Hydra's syntax."""

import pytest

from rollgym.servers.config.overrides import parse_overrides
from rollgym.servers.config.problems import ConfigError
from tests.cases import for_each


def refusal(*arguments: str) -> str:
    with pytest.raises(ConfigError) as refused:
        parse_overrides(arguments)
    return str(refused.value)


def test_every_way_to_set_a_value_sets_it() -> None:
    assert parse_overrides(["+a=1", "++b=two", "c=3.5", "+d.e=true", "+d.f=null"]) == {
        "a": 1,
        "b": "two",
        "c": 3.5,
        "d": {"e": True, "f": None},
    }


def test_the_tutorials_arguments_read_as_they_are_meant() -> None:
    options = parse_overrides(
        [
            "+agent_name=example_multi_step_simple_agent",
            "+input_jsonl_fpath=resources_servers/example_multi_step/data/example.jsonl",
            "+limit=null",
            "+num_samples_in_parallel=3",
            "+responses_create_params.max_output_tokens=8192",
            "+responses_create_params.temperature=0.7",
        ]
    )
    assert options["limit"] is None
    assert options["num_samples_in_parallel"] == 3
    assert options["responses_create_params"] == {"max_output_tokens": 8192, "temperature": 0.7}


def test_a_list_of_config_files_is_a_list() -> None:
    options = parse_overrides(["+config_paths=[responses_api_models/m/configs/m.yaml,b.yaml]"])
    assert options == {"config_paths": ["responses_api_models/m/configs/m.yaml", "b.yaml"]}


def test_what_a_shell_makes_of_a_backslash_before_a_comment_is_ignored() -> None:
    assert parse_overrides(["+limit=100", " ", ""]) == {"limit": 100}


def test_a_later_override_wins_and_mappings_grow_together() -> None:
    assert parse_overrides(["+a={b: 1, c: 2}", "+a.b=3", "++a={d: 4}"]) == {
        "a": {"b": 3, "c": 2, "d": 4}
    }


def test_a_removed_key_is_gone() -> None:
    assert parse_overrides(["+a=1", "+b=2", "~a", "~only_in_a_file"]) == {"b": 2}


def test_interpolations_reach_other_overrides_and_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROLLGYM_TEST_HOME", "/home/me")
    options = parse_overrides(
        ["+name=run", "+output_jsonl_fpath=${oc.env:ROLLGYM_TEST_HOME}/${name}.jsonl"]
    )
    assert options["output_jsonl_fpath"] == "/home/me/run.jsonl"


def test_an_interpolation_of_nothing_is_refused_with_what_it_asks_for() -> None:
    message = refusal("+output=${nothing}/x")
    assert "output: uses ${nothing}, which is not defined" in message
    assert "pass +nothing=…" in message


@for_each("argument", ["limit", "+x=[1,2", "+k=x=y", "--help", "+p=~/x.yaml", "a:b=1"])
def test_what_is_no_override_is_refused_with_its_text_and_what_is_expected(argument: str) -> None:
    message = refusal(argument)
    assert f"({argument})" in message
    assert "write +key=value" in message


def test_sweeps_are_refused_and_a_list_is_suggested() -> None:
    message = refusal("+config_paths=a.yaml,b.yaml")
    assert "sweeps are not supported" in message
    assert '"+config_paths=[a.yaml,b.yaml]"' in message


@for_each("argument", ["db/table=x", "db@package=x"])
def test_config_groups_are_refused(argument: str) -> None:
    assert "config groups and packages are not supported" in refusal(argument)


def test_every_wrong_argument_is_named_at_once() -> None:
    message = refusal("limit", "+ok=1", "+a=1,2")
    assert message.startswith("2 problems, and nothing was started:")
    assert "(limit)" in message
    assert "(+a=1,2)" in message


@for_each(
    "argument", ["+policy_api_key=sk=secret", "+m.headers.Authorization=a=secret", "key~secret"]
)
def test_a_message_does_not_repeat_a_key(argument: str) -> None:
    message = refusal(argument.replace("key~secret", "+url=http://me:secret@host/="))
    assert "secret" not in message
    assert "***" in message


def test_a_value_where_a_list_has_no_place_is_refused() -> None:
    assert "cannot be applied" in refusal("+a=[1,2]", "+a.7=3")
