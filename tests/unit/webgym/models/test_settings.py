"""What may be said about an agent, and what is refused."""

import pytest
from omegaconf import OmegaConf
from pydantic import ValidationError

from rollgym.store import RefusedError
from webgym.browser.contract.answers import Observe
from webgym.models.settings import (
    INTERFACES,
    ModelSettings,
    PolicySettings,
    interface_of,
    read_context,
)
from webgym.settings import SettingsSection, WebSettingsError, read_settings

QWEN = ModelSettings()
TEXT = ModelSettings(model_type="text")


def test_a_node_of_hydra_says_the_same_as_a_dictionary() -> None:
    said = {"base_model": "m", "temperature": 1, "top_k": -1}
    read = read_settings(PolicySettings, OmegaConf.create(said), name="policy_config")
    assert read == PolicySettings.model_validate(said)
    assert read_settings(PolicySettings, None) == PolicySettings()


def test_a_problem_is_reported_with_its_key_and_a_suggestion() -> None:
    cases: list[tuple[type[SettingsSection], object, str]] = [
        (PolicySettings, {"temprature": 1}, "part.temprature: unknown key; did you mean part.temp"),
        (PolicySettings, {"temperature": -1}, "part.temperature: input should be greater"),
        (PolicySettings, {"top_p": 1.5}, "part.top_p"),
        (PolicySettings, "m", "part must be a dictionary, not str"),
        (ModelSettings, {"model_tpye": "text"}, "did you mean part.model_type?"),
        (ModelSettings, {"model_type": "qwen3-instuct"}, "did you mean qwen3-instruct?"),
        (ModelSettings, {"model_type": "zzz"}, "the types are qwen3-instruct, qwen3-think, text"),
        (ModelSettings, {"prompt_version": "long"}, "part.prompt_version"),
    ]
    for section, given, says in cases:
        with pytest.raises(RefusedError) as refused:
            read_settings(section, given, name="part")
        assert says in str(refused.value)


def test_every_sampling_parameter_is_sent() -> None:
    policy = PolicySettings(temperature=0.0, max_new_tokens=64, min_p=0.1)
    assert policy.params(interface_of("qwen3-instruct")) == {
        "temperature": 0.0,
        "top_p": 0.99,
        "top_k": 2,
        "max_tokens": 64,
        "min_p": 0.1,
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_further_parameters_go_before_all_others() -> None:
    policy = PolicySettings(temperature=0.5, extra_body={"temperature": 0.9, "stop": ["x"]})
    params = policy.params(interface_of("text"))
    assert (params["temperature"], params["stop"]) == (0.9, ["x"])


def test_nothing_about_sampling_is_sent_to_a_baseline() -> None:
    assert PolicySettings(temperature=1.0, top_k=2).params(interface_of("baseline")) == {}


def test_a_model_that_may_be_anywhere_gets_only_common_parameters() -> None:
    configured = PolicySettings.model_validate(PolicySettings().model_dump())  # as files do
    changed = configured.model_copy(update={"top_p": 0.5})
    for model_type in ("text", "vision"):
        sent = configured.params(interface_of(model_type))
        assert sent.keys() == {"temperature", "max_tokens"}
        assert changed.params(interface_of(model_type)) == {**sent, "top_p": 0.5}


def test_the_model_type_says_whether_the_model_thinks_and_sees() -> None:
    for model_type in INTERFACES:
        context = read_context({}, ModelSettings(model_type=model_type))
        assert context.thinking == (model_type == "qwen3-think")
        assert context.shows_image == (model_type not in {"text", "baseline"})


def test_the_prompt_version_may_stand_in_either_place() -> None:
    vanilla = ModelSettings(prompt_version="vanilla")
    assert read_context({}, vanilla).prompt_version == "vanilla"
    assert read_context({"prompt_version": "vanilla"}, QWEN).prompt_version == "vanilla"
    assert read_context({"prompt_version": "vanilla"}, vanilla).prompt_version == "vanilla"


def test_an_invalid_context_is_rejected() -> None:
    for given, model, says in [
        ({"thinking": True}, QWEN, "model_config.model_type decides"),
        ({"observation": "both"}, TEXT, "sees no pictures: context_config.observation must be"),
        (
            {"prompt_version": "complete"},
            ModelSettings(prompt_version="vanilla"),
            "vanilla in model_config and complete in context_config: set it once",
        ),
        ({"screenshot_format": "gif"}, QWEN, "context_config.screenshot_format"),
    ]:
        with pytest.raises(RefusedError) as refused:
            read_context(given, model)
        assert says in str(refused.value)


def test_a_step_returns_the_parts_that_the_model_is_shown_and_a_screenshot() -> None:
    cases: list[tuple[dict[str, object], ModelSettings, Observe]] = [
        ({}, QWEN, Observe()),
        ({"screenshot_format": "webp", "screenshot_quality": 60}, QWEN, Observe(quality=60)),
        ({"accessibility_tree": True}, QWEN, Observe(tree=True)),
        (
            {"interaction_mode": "set_of_marks"},
            QWEN,
            Observe(interaction_mode="set_of_marks", elements=True, tree=True),
        ),
        ({}, TEXT, Observe(elements=True, tree=True)),
        ({"accessibility_tree": False}, TEXT, Observe(elements=True, tree=False)),
    ]
    for given, model, observe in cases:
        seen = read_context(given, model).observe
        assert seen.screenshot == given.get("screenshot_format", "png")
        assert (seen.interaction_mode, seen.quality) == (observe.interaction_mode, observe.quality)
        assert (seen.wants_elements, seen.tree) == (observe.wants_elements, observe.tree)


def test_a_vision_model_gets_only_fields_that_every_endpoint_takes() -> None:
    policy = PolicySettings(omit_fields=("seed", "user"))
    params = policy.params(INTERFACES["vision"])
    assert params == {"temperature": 1.0, "max_tokens": 3072}
    assert policy.request({**params, "seed": 1, "user": "one"}) == params
    of_file = PolicySettings(extra_body={"top_k": 2, "stop": "\n"}, omit_fields=("top_k",))
    assert of_file.request({}) == {"stop": "\n"}  # an omitted field is never sent


def test_a_prompt_format_must_fit_the_other_settings() -> None:
    text = ModelSettings(model_type="text", prompt_version="compact")
    with pytest.raises(WebSettingsError, match="compact needs context_config.interaction_mode=set"):
        read_context({}, text)
    assert read_context({"interaction_mode": "set_of_marks"}, text).format.has_grammar
    with pytest.raises(WebSettingsError, match="observation=image, not text"):
        read_context({}, ModelSettings(model_type="text", prompt_version="ui-tars"))
    with pytest.raises(ValidationError, match="did you mean compact?"):
        ModelSettings(prompt_version="compacted")
    grammar = PolicySettings(grammar="vllm").grammar_fields("root ::= x")
    assert grammar == {"structured_outputs": {"grammar": "root ::= x"}}
