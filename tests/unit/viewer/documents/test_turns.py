import msgspec

from rollgym.viewer.documents.row_document import RowDocument
from rollgym.viewer.documents.texts import LONG
from rollgym.viewer.documents.turns import MOST_CALLS, MOST_PARTS, TURN_TEXT_LIMIT
from rollgym.viewer.view import TEXT_LIMIT, CallView, Text, TurnView
from tests.unit.viewer.documents.records import DONE, Surroundings, opened, texts, turns


def test_a_message_is_a_turn_whose_text_says_where_it_is() -> None:
    [turn] = turns({"role": "user", "content": "hello"})
    assert turn == TurnView(0, "user", "/output/0", (Text("hello", 5, "/output/0/content"),))


def test_a_result_names_the_tool_whose_call_it_answers_however_far_above_that_was() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    between = [{"role": "assistant", "content": "wait"}] * 200
    document = opened(
        {
            "output": [
                {"role": "assistant", "tool_calls": [call]},
                *between,
                {"role": "tool", "tool_call_id": "c1", "content": "found"},
            ]
        }
    )
    [result] = document.turns(201, 50)
    assert (result.index, result.role, result.tool) == (201, "tool", "search")
    assert result.tool_call_id == "c1"


def test_arguments_are_indented_and_those_that_are_no_json_are_marked() -> None:
    long = {"query": "the inn at which letters are left", "max_results": 3, "exact": False}
    written = [msgspec.json.encode(long).decode(), '{"broken', "", {"given": "as an object"}]
    calls = [
        {"id": str(n), "function": {"name": "f", "arguments": a}} for n, a in enumerate(written)
    ]
    [turn] = turns({"role": "assistant", "tool_calls": calls})
    assert turn.calls[0].arguments.text.startswith('{\n  "query": "the inn')
    assert [call.malformed for call in turn.calls] == [False, True, True, False]
    assert turn.calls[1].arguments.text == '{"broken'
    assert turn.calls[3].arguments.text == '{"given": "as an object"}'


def test_items_of_a_response_are_turns_where_a_row_has_no_output() -> None:
    items = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"at":1}'},
        {"type": "function_call_output", "call_id": "c", "output": "a lamp"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "A!"}],
        },
        {"type": "web_search_call", "id": "w"},
    ]
    read = opened({"response": {"output": items}}).turns(0, 10)
    base = "/response/output"
    assert read[0].reasoning == Text("I look.", 7, f"{base}/0/summary/0/text")
    assert read[1].calls == (CallView("look", Text('{"at": 1}', 9, f"{base}/1/arguments"), "c"),)
    assert (read[2].role, read[2].tool, texts(read[2])) == ("tool", "look", ["a lamp"])
    assert read[3].parts == (Text("A!", 2, f"{base}/3/content/0/text"),)
    assert texts(read[4]) == ['{"type": "web_search_call", "id": "w"}']


def test_messages_are_the_turns_of_a_row_that_has_nothing_else() -> None:
    [turn] = opened({"messages": [{"role": "user", "content": "hello"}]}).turns(0, 10)
    assert turn.path == "/messages/0"


def test_output_that_is_a_text_is_one_turn_of_the_assistant() -> None:
    [turn] = opened({"output": "forty-two"}).turns(0, 10)
    assert (turn.role, turn.path, texts(turn)) == ("assistant", "/output", ["forty-two"])


def test_reasoning_is_found_wherever_servers_put_it() -> None:
    cases: list[tuple[dict[str, object], str | None, list[str]]] = [
        ({"content": "a", "reasoning": "r"}, "r", ["a"]),
        ({"content": "a", "reasoning_content": "r"}, "r", ["a"]),
        ({"content": "<think>r</think>a"}, "r", ["a"]),
        ({"content": [{"type": "text", "text": "<think>r</think>a"}]}, "r", ["a"]),
        ({"content": "r</think>a"}, "r", ["a"]),
        ({"content": "<think>r"}, "r", []),
        ({"content": "a", "reasoning": ""}, None, ["a"]),
        ({"content": "see <think>x</think>"}, None, ["see <think>x</think>"]),
    ]
    for message, thought, said in cases:
        [turn] = turns({"role": "assistant", **message})
        assert (turn.reasoning and turn.reasoning.text) == thought
        assert texts(turn) == said


def test_what_a_user_writes_is_never_taken_for_reasoning() -> None:
    [turn] = turns({"role": "user", "content": "<think>r</think>a"})
    assert turn.reasoning is None


def test_a_refusal_is_shown_as_one() -> None:
    said, part = turns(
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "Never."}]},
    )
    assert (texts(said), texts(part)) == (["(refused) No."], ["Never."])


def test_what_a_transcript_kept_whole_is_shown() -> None:
    unknown, message = turns(
        {"role": "assistant", "item": {"type": "computer_call"}, "reasoning": "r"},
        {"role": "assistant", "item": {"role": "critic", "content": "weak"}},
    )
    assert texts(unknown) == ['{"type": "computer_call"}']
    assert unknown.reasoning is not None
    assert (message.role, texts(message), message.path) == ("critic", ["weak"], "/output/1")


def test_a_text_beyond_the_limit_is_cut_and_can_be_had_whole() -> None:
    text = "ab\n" * TEXT_LIMIT
    document = opened({"output": [{"role": "user", "content": text}]})
    [part] = document.turns(0, 1)[0].parts
    assert isinstance(part, Text)
    assert (part.text, part.size) == (text[:TEXT_LIMIT], len(text))
    assert msgspec.json.decode(document.raw(part.path)) == text


def test_a_very_long_text_is_counted_in_characters_wherever_its_pieces_end() -> None:
    for padding in range(13):
        text = "x" * padding + '\N{GRINNING FACE}é"\\\n' * (LONG // 8)
        # As JSON writes it, and with every character beyond ASCII escaped.
        escaped = "".join(f"\\u{unit:04x}" for unit in _units(text[-6_000:]))
        for written in (msgspec.json.encode(text), f'"{"y" * LONG}{escaped}"'.encode()):
            whole = msgspec.json.decode(written)
            record = b'{"output":[{"role":"user","content":' + written + b"}]}"
            [part] = RowDocument(record, Surroundings(), DONE).turns(0, 1)[0].parts
            assert isinstance(part, Text)
            assert (part.text, part.size) == (whole[:TEXT_LIMIT], len(whole))


def _units(text: str) -> list[int]:
    encoded = text.encode("utf-16-be")
    return [int.from_bytes(encoded[at : at + 2], "big") for at in range(0, len(encoded), 2)]


def test_a_turn_of_very_many_parts_and_calls_stays_small_and_says_so() -> None:
    parts = [{"type": "text", "text": "x" * TEXT_LIMIT}] * 500
    calls = [{"id": "c", "function": {"name": "f", "arguments": "{}"}}] * 500
    [turn] = turns({"role": "assistant", "content": parts, "tool_calls": calls})
    assert len(turn.parts) == MOST_PARTS + 2
    assert texts(turn)[-2] == f"({500 - MOST_PARTS} more parts are in the raw JSON of this turn)"
    assert texts(turn)[-1] == f"({500 - MOST_CALLS} more calls are in the raw JSON of this turn)"
    assert sum(map(len, texts(turn))) < 2 * TURN_TEXT_LIMIT
    assert len(turn.calls) == MOST_CALLS
