from tests.unit.webgym.policies.pages import seen
from webgym.environment.actions import Answer
from webgym.policies.chat import SeenChat
from webgym.policies.memory import Conversations
from webgym.policies.policy import Decision


def counting(most: int = 10) -> Conversations[list[int]]:
    return Conversations(lambda _: [], most)


def ask(known: Conversations[list[int]], step: int, conversation: str = "one") -> str:
    def decide(state: list[int]) -> Decision:
        state.append(step)
        return Decision(Answer(str(state)), "")

    chat: SeenChat = seen("A task", None, step, conversation=conversation)
    action = known.decide(chat, decide).action
    assert isinstance(action, Answer)
    return action.text


def test_each_conversation_has_a_memory_of_its_own() -> None:
    known = counting()
    assert [ask(known, 1), ask(known, 1, "two"), ask(known, 2)] == ["[1]", "[1]", "[1, 2]"]


def test_a_request_that_is_sent_again_gets_the_same_answer_and_changes_nothing() -> None:
    known = counting()
    assert [ask(known, 1), ask(known, 2), ask(known, 2), ask(known, 3)] == [
        "[1]",
        "[1, 2]",
        "[1, 2]",
        "[1, 2, 3]",
    ]


def test_a_conversation_that_begins_again_remembers_nothing() -> None:
    known = counting()
    assert [ask(known, 1), ask(known, 2), ask(known, 1), ask(known, 2)][2:] == ["[1]", "[1, 2]"]


def test_the_least_recent_conversations_are_forgotten() -> None:
    known = counting(most=2)
    for name in ("one", "two", "one", "three"):
        ask(known, 5, name)
    assert len(known) == 2
    assert ask(known, 6, "two") == "[6]"


def test_a_chat_of_nobody_is_not_remembered() -> None:
    known = counting()
    assert [ask(known, 1, ""), ask(known, 2, ""), len(known)] == ["[1]", "[2]", 0]
