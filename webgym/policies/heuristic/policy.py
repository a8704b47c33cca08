"""The heuristic baseline: it matches the words of the task to what the page shows.

In each round it finishes what it has begun; answers, if the page says what was asked with enough of
the question's own words; or takes the most promising of all things that it could do there: fill in
what the task gives, press what it names, search for its names, follow links that fit. What was
tried is not tried again, so that it comes to an end: at the latest it answers with the best it saw.
"""

import re
from collections.abc import Iterator, Sequence
from random import Random

from rollgym.records import derive_seed
from webgym.context.page_text import PageText
from webgym.environment.actions import Answer, GoBack, Scroll, Wait
from webgym.policies.chat import SeenChat
from webgym.policies.heuristic.intents import Pursuit
from webgym.policies.heuristic.passages import Passage, read_passages
from webgym.policies.heuristic.proposals import Proposal
from webgym.policies.heuristic.state import State, page_key
from webgym.policies.heuristic.words import plain
from webgym.policies.memory import Conversations
from webgym.policies.policy import Decision
from webgym.policies.reading import spoken

CONFIDENT = 0.68
LOWEST_SCORE, LOWEST_LINK = 0.3, 0.4
WAIT_SECONDS = 1.5
MOST_WAITS, MOST_SCROLLS, MOST_BACKS = 2, 6, 2
BLOCKED = "The site is blocked: it asks for a proof that I am human."
DONE, UNKNOWN = "Done.", "I could not find it."
_BLOCKS = re.compile(
    r"verify (?:that )?you are (?:a )?human|captcha|are you a robot|unusual traffic|"
    r"security of your connection|access denied"
)
_LOADS = re.compile(r"\b(?:loading|please wait|one moment|warming up)\b")
_THANKS = re.compile(
    r"\bthank you for your \w+|\byour (?:order|booking) (?:number|reference) is\b|\bis confirmed\b|"
    r"\bhas been (?:placed|booked|cancelled|sent)\b"
)
_GROWS = re.compile(r"\b(?:scroll down|as you scroll|load(?:ing|s|ed)? more|loading)\b")


class HeuristicPolicy:
    """Decides by words alone; the same for the same seed and the same chats."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._conversations = Conversations(lambda chat: State(chat.task))

    def decide(self, chat: SeenChat) -> Decision:
        """The next action of this conversation."""
        return self._conversations.decide(chat, lambda state: self._decide(state, chat))

    def _decide(self, state: State, chat: SeenChat) -> Decision:
        page = chat.page
        if page is None:
            return Decision(Answer(UNKNOWN), "End the task: the chat shows no page as text.")
        state.note(page)
        said = plain(f"{page.title} {spoken(page.text)}")
        if _BLOCKS.search(said):
            return Decision(Answer(BLOCKED), "Say that the site is blocked.")
        going_on = self._go_on(state, page)
        if going_on is not None:
            return going_on
        passages = read_passages(page.text)
        answer = self._answer(state, page, passages)
        is_over = state.steps >= state.patience or _is_done(state, said)
        if answer is not None or is_over:
            return answer or _finish(state)
        return self._act(state, chat, page, passages) or self._look(state, chat, page, said)

    def _go_on(self, state: State, page: PageText) -> Decision | None:
        """The next action of what was begun."""
        pursuit = state.pursuit
        if pursuit is None or pursuit.is_over:
            return None
        action = pursuit.next(page)
        return None if action is None else Decision(action, str(pursuit.intent))

    def _answer(self, state: State, page: PageText, passages: list[Passage]) -> Decision | None:
        """Where the page says what was asked."""
        if state.question is None:
            return None
        found = state.question.best(passages, page.title)
        if found is None:
            return None
        if state.best is None or found > state.best or not state.task.is_question:
            state.best = found
        if state.task.is_question and found.score >= CONFIDENT:
            return Decision(Answer(found.text), "Answer with what the page says.", found.text)
        return None

    def _act(
        self, state: State, chat: SeenChat, page: PageText, passages: list[Passage]
    ) -> Decision | None:
        """The most promising thing that was not tried yet; the seed decides between equals."""
        draw = Random(derive_seed(self._seed, chat.task, state.steps))  # noqa: S311 - no secret
        new = [
            (proposal.score, draw.random(), proposal)
            for proposal in _proposals(state, page, passages)
            if proposal.score >= _lowest(state, proposal) and state.is_new(proposal, page)
        ]
        ranked = sorted(new, key=lambda each: each[:2], reverse=True)
        return _begin(state, chat, page, [proposal for _, _, proposal in ranked])

    def _look(self, state: State, chat: SeenChat, page: PageText, said: str) -> Decision:
        """Nothing speaks for itself: wait, scroll, look around, or be done."""
        here = page_key(page.url)
        if _LOADS.search(said) and state.looked[here, "wait"] < MOST_WAITS:
            state.looked[here, "wait"] += 1
            return Decision(Wait(WAIT_SECONDS), "Wait for the page.")
        if (
            page.scroll.below
            and _GROWS.search(said)
            and state.looked[here, "scroll"] < MOST_SCROLLS
        ):
            state.looked[here, "scroll"] += 1
            return Decision(Scroll("down"), "See what comes further down.")
        if not state.task.is_question and state.has_acted:
            return _finish(state)
        return self._explore(state, chat, page) or _finish(state)

    def _explore(self, state: State, chat: SeenChat, page: PageText) -> Decision | None:
        """Follow any link that is new; where there is none, go back."""
        links = [each for each in state.clicks.links(page, []) if state.is_new(each, page)]
        links.sort(key=lambda each: -each.score)
        decision = _begin(state, chat, page, links)
        if decision is not None:
            return decision
        if state.went_back < MOST_BACKS and len(state.visited) > 1:
            state.went_back += 1
            return Decision(GoBack(), "There is nothing here: go back.")
        return None


def _begin(
    state: State, chat: SeenChat, page: PageText, ranked: Sequence[Proposal]
) -> Decision | None:
    """Begin with the first that can be done."""
    for proposal in ranked:
        pursuit = Pursuit(proposal.intent, chat.mode)
        action = pursuit.next(page)
        state.begin(proposal, page, pursuit)
        if action is not None:
            return Decision(action, str(proposal.intent))
    return None


def _is_done(state: State, said: str) -> bool:
    """Whether the page thanks for what was to be done."""
    return not state.task.is_question and state.has_acted and bool(_THANKS.search(said))


def _lowest(state: State, proposal: Proposal) -> float:
    """Who has something to do does not follow a link just to see what is there."""
    wanders = proposal.intent.role == "link" and not state.task.is_question
    return LOWEST_LINK if wanders else LOWEST_SCORE


def _proposals(state: State, page: PageText, passages: list[Passage]) -> Iterator[Proposal]:
    yield from state.fields.proposals(page)
    yield from state.clicks.searches(page, is_start=len(state.visited) == 1)
    yield from state.clicks.buttons(page)
    yield from state.clicks.links(page, passages)


def _finish(state: State) -> Decision:
    if not state.task.is_question:
        told = f"{DONE} {state.best.text}" if state.best else DONE
        return Decision(Answer(told), "Everything that could be done is done.")
    text = state.best.text if state.best else UNKNOWN
    return Decision(Answer(text), "Answer with the best that was seen.")
