"""What may be said about an agent, and what is refused."""

import pytest
from omegaconf import OmegaConf

from rollgym.store import RefusedError
from webgym.browser.contract.answers import Observe
from webgym.models.interfaces import INTERFACES, interface_of
from webgym.models.settings import AgentContext, ModelSettings, PolicySettings

QWEN = ModelSettings()
TEXT = ModelSettings(model_type="text")


def test_a_node_of_hydra_says_the_same_as_a_dictionary() -> None:
    said = {"base_model": "m", "temperature": 1, "top_k": -1}
    assert PolicySettings.of(OmegaConf.create(said)) == PolicySettings.of(said)
    assert PolicySettings.of(None) == PolicySettings()


@pytest.mark.parametrize(
    ("read", "given", "says"),
    [
        (PolicySettings.of, {"temprature": 1}, "policy_config has no key 'temprature': did you"),
        (PolicySettings.of, {"temperature": -1}, "`$.temperature`"),
        (PolicySettings.of, {"top_p": 1.5}, "`$.top_p`"),
        (PolicySettings.of, {"max_new_tokens": 0}, "`$.max_new_tokens`"),
        (PolicySettings.of, "m", "policy_config must be a dictionary"),
        (ModelSettings.of, {"model_tpye": "text"}, "did you mean model_type?"),
        (ModelSettings.of, {"model_type": "qwen3-instuct"}, "did you mean qwen3-instruct?"),
        (ModelSettings.of, {"model_type": "zzz"}, "there are qwen3-instruct, qwen3-think, text"),
        (ModelSettings.of, {"prompt_version": "long"}, "`$.prompt_version`"),
    ],
)
def test_what_nobody_reads_is_refused_with_what_may_be_meant(
    read: type, given: object, says: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        read(given)
    assert says in str(refused.value)


def test_parameters_of_the_policy_go_before_those_of_the_model_type() -> None:
    policy = PolicySettings(temperature=0.0, max_new_tokens=64, min_p=0.1)
    assert policy.params(interface_of("qwen3-instruct")) == {
        "temperature": 0.0,
        "top_p": 0.8,
        "top_k": 20,
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


def test_a_text_model_is_sent_only_what_every_server_knows() -> None:
    assert set(PolicySettings().params(interface_of("text"))) == {"temperature", "max_tokens"}


@pytest.mark.parametrize("model_type", INTERFACES)
def test_the_model_type_says_whether_the_model_thinks_and_sees(model_type: str) -> None:
    context = AgentContext.of({}, ModelSettings(model_type=model_type))
    assert context.thinking == (model_type == "qwen3-think")
    assert context.shows_image == model_type.startswith("qwen3")


def test_the_prompt_version_may_stand_in_either_place() -> None:
    vanilla = ModelSettings(prompt_version="vanilla")
    assert AgentContext.of({}, vanilla).prompt_version == "vanilla"
    assert AgentContext.of({"prompt_version": "vanilla"}, QWEN).prompt_version == "vanilla"
    assert AgentContext.of({"prompt_version": "vanilla"}, vanilla).prompt_version == "vanilla"


@pytest.mark.parametrize(
    ("given", "model", "says"),
    [
        ({"windwo": 3}, QWEN, "context_config has no key 'windwo': did you mean window?"),
        ({"thinking": True}, QWEN, "model_type of model_config decides"),
        ({"observation": "both"}, TEXT, "sees no pictures: context_config.observation must be"),
        (
            {"prompt_version": "complete"},
            ModelSettings(prompt_version="vanilla"),
            "vanilla in model_config and complete in context_config: give it once",
        ),
        ({"screenshot_format": "gif"}, QWEN, "`$.screenshot_format`"),
    ],
)
def test_a_context_that_makes_no_sense_is_refused(
    given: object, model: ModelSettings, says: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        AgentContext.of(given, model)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("given", "model", "observe"),
    [
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
    ],
)
def test_a_step_answers_with_what_the_model_is_shown_and_always_a_screenshot(
    given: dict[str, object], model: ModelSettings, observe: Observe
) -> None:
    seen = AgentContext.of(given, model).observe
    assert seen.screenshot == given.get("screenshot_format", "png")
    assert (seen.interaction_mode, seen.quality) == (observe.interaction_mode, observe.quality)
    assert (seen.wants_elements, seen.tree) == (observe.wants_elements, observe.tree)
