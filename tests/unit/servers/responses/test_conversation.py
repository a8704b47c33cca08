from rollgym.servers.responses import JsonObject, chat_request

USER = {"role": "user", "content": "Go on."}


def call(identity: str) -> JsonObject:
    return {"type": "function_call", "call_id": identity, "name": "look", "arguments": "{}"}


def answered(identity: str) -> JsonObject:
    return {"type": "function_call_output", "call_id": identity, "output": f"{identity} seen"}


def said(text: str) -> JsonObject:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}


def reasoned(text: str) -> JsonObject:
    return {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": text}],
    }


def shape(*items: JsonObject) -> list[str]:
    """The messages in short: who, what was reasoned, said, and called."""
    shapes = []
    for message in chat_request({"input": list(items)})["messages"]:
        calls = "+".join(entry["id"] for entry in message.get("tool_calls", ()))
        told = (message.get("reasoning_content"), message["content"], calls)
        shapes.append(f"{message['role']} " + " / ".join(str(part) for part in told if part))
    return shapes


def test_parallel_calls_are_one_message_with_the_text_and_reasoning_before_them() -> None:
    assert shape(
        USER,
        reasoned("Two rooms."),
        said("I look."),
        call("a"),
        call("b"),
        answered("a"),
        answered("b"),
    ) == ["user Go on.", "assistant Two rooms. / I look. / a+b", "tool a seen", "tool b seen"]


def test_calls_with_answers_between_them_are_messages_of_their_own() -> None:
    assert shape(call("a"), answered("a"), reasoned("Now b."), call("b"), answered("b")) == [
        "assistant a",
        "tool a seen",
        "assistant Now b. / b",
        "tool b seen",
    ]


def test_messages_one_after_the_other_stay_apart() -> None:
    assert shape(said("One."), said("Two."), call("a")) == ["assistant One.", "assistant Two. / a"]


def test_reasoning_behind_a_text_belongs_to_the_next_turn() -> None:
    assert shape(said("One."), reasoned("Hm."), said("Two.")) == [
        "assistant One.",
        "assistant Hm. / Two.",
    ]


def test_nothing_comes_between_calls_and_their_answers() -> None:
    assert shape(
        reasoned("A."), call("a"), reasoned("B."), said("Both."), call("b"), answered("a")
    ) == [
        "assistant A.\nB. / Both. / a+b",
        "tool a seen",
    ]


def test_two_texts_of_one_turn_with_calls_are_two_parts() -> None:
    (message,) = chat_request({"input": [said("One."), call("a"), said("Two.")]})["messages"]
    assert message["content"] == [
        {"type": "text", "text": "One."},
        {"type": "text", "text": "Two."},
    ]


def test_reasoning_that_led_to_nothing_is_a_turn_without_text() -> None:
    assert chat_request({"input": [reasoned("Hm.")]})["messages"] == [
        {"role": "assistant", "content": "", "reasoning_content": "Hm.", "reasoning": "Hm."}
    ]


def test_a_turn_of_calls_alone_has_null_for_content() -> None:
    (message,) = chat_request({"input": [call("a")]})["messages"]
    assert message["content"] is None


def test_a_refusal_stays_a_refusal() -> None:
    part = {"type": "refusal", "refusal": "No."}
    (message,) = chat_request({"input": [{"role": "assistant", "content": [part]}]})["messages"]
    assert message == {"role": "assistant", "content": None, "refusal": "No."}


def test_reasoning_itself_is_preferred_to_its_summary() -> None:
    item = {**reasoned("In full."), "summary": [{"type": "summary_text", "text": "In short."}]}
    assert shape(item, said("So.")) == ["assistant In full. / So."]


def test_encrypted_reasoning_says_nothing() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    assert shape(item, said("So.")) == ["assistant So."]


def test_the_tokens_of_earlier_turns_stay_behind() -> None:
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.1]}
    items = [{**said("So."), **tokens}, {**call("a"), **tokens}, {**reasoned("Hm."), **tokens}]
    assert "token_ids" not in str(chat_request({"input": items}))


def test_a_tool_may_answer_with_an_image() -> None:
    output = [
        {"type": "input_text", "text": "The page:"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
    ]
    item = {"type": "function_call_output", "call_id": "a", "output": output}
    (message,) = chat_request({"input": [item]})["messages"]
    assert message["content"] == [
        {"type": "text", "text": "The page:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]


def test_with_think_tags_reasoning_goes_back_into_the_text() -> None:
    request = chat_request({"input": [reasoned("Hm.\n"), said("\nSo.")]}, think_tags=True)
    assert request["messages"] == [{"role": "assistant", "content": "<think>Hm.\n</think>\nSo."}]


def test_with_think_tags_reasoning_before_a_call_becomes_text_too() -> None:
    request = chat_request({"input": [reasoned("Hm."), call("a")]}, think_tags=True)
    assert request["messages"][0]["content"] == "<think>Hm.</think>"
