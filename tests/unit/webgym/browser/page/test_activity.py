"""What a page is busy with, from the events that tell it."""

import msgspec
import pytest

from tests.cases import for_each
from webgym.browser.page.activity import (
    ANSWER_GOES_ON,
    BACKGROUND_AFTER,
    MAX_REPEATS,
    REQUESTED_FOR,
    PageActivity,
)


class Story:
    """An activity, and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 100.0
        self.activity = PageActivity("main", lambda: self.time)

    def tell(self, method: str, **params: object) -> None:
        self.activity.handle_event(method, msgspec.Raw(msgspec.json.encode(params)))

    def begin_loading(self, frame: str = "main") -> None:
        self.tell("Page.frameStartedLoading", frameId=frame)

    def navigate(self, loader: str, **more: object) -> None:
        self.tell("Page.frameNavigated", frame={"id": "main", "loaderId": loader, **more})

    def begin_navigating(self, loader: str, kind: str = "differentDocument") -> None:
        told = {"frameId": "main", "loaderId": loader, "navigationType": kind}
        self.tell("Page.frameStartedNavigating", **told)

    def request(
        self, number: str, loader: str = "one", kind: str = "Fetch", **more: object
    ) -> None:
        told = {"requestId": number, "loaderId": loader, "type": kind, **more}
        self.tell("Network.requestWillBeSent", **told)


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_page_at_rest_does_nothing(story: Story) -> None:
    assert not story.activity.is_navigating
    assert story.activity.pending_requests() == 0


def test_a_navigation_lasts_from_its_begin_to_its_end(story: Story) -> None:
    story.begin_loading()
    states = [(story.activity.is_navigating, True)]
    story.navigate("two", url="http://a/")
    states.append((story.activity.is_navigating, story.activity.dom_ready))
    story.tell("Page.domContentEventFired", timestamp=1)
    states.append((story.activity.is_navigating, story.activity.dom_ready))
    story.tell("Page.frameStoppedLoading", frameId="main")
    states.append((story.activity.is_navigating, story.activity.dom_ready))
    assert states == [(True, True), (True, False), (True, True), (False, True)]
    assert story.activity.document == 1
    assert story.activity.main.url == "http://a/"


def test_the_navigation_of_an_inner_frame_does_not_count(story: Story) -> None:
    story.begin_loading("inner")
    story.tell("Page.frameNavigated", frame={"id": "inner", "parentId": "main", "url": "http://b/"})
    assert not story.activity.is_navigating
    assert story.activity.document == 0


def test_a_navigation_that_was_asked_for_is_awaited_for_a_moment(story: Story) -> None:
    story.tell("Page.frameRequestedNavigation", frameId="main", disposition="currentTab")
    assert story.activity.is_navigating
    story.time += REQUESTED_FOR
    assert not story.activity.is_navigating


def test_one_that_opens_elsewhere_is_not(story: Story) -> None:
    story.tell("Page.frameRequestedNavigation", frameId="main", disposition="newTab")
    assert not story.activity.is_navigating


def test_a_document_is_awaited_until_its_server_has_answered(story: Story) -> None:
    story.begin_navigating("two")
    story.time += 10 * REQUESTED_FOR
    awaited = [story.activity.awaits_document, story.activity.is_requested]
    story.navigate("two")
    awaited += [story.activity.awaits_document, story.activity.is_requested]
    assert awaited == [True, True, False, False]


def test_a_navigation_that_leads_to_no_document_ends_too(story: Story) -> None:
    story.begin_loading()
    story.begin_navigating("two")
    story.tell("Network.loadingFailed", requestId="two")
    assert not story.activity.awaits_document
    story.begin_navigating("three")
    story.tell("Page.frameStoppedLoading", frameId="main")
    assert not story.activity.is_navigating


@for_each("kind", ["sameDocument", "historySameDocument"])
def test_within_a_document_nothing_is_awaited(story: Story, kind: str) -> None:
    story.begin_navigating("two", kind)
    assert not story.activity.awaits_document


def test_a_document_that_was_given_up_is_not_waited_for(story: Story) -> None:
    story.begin_loading()
    story.navigate("two")
    story.request("1", loader="two")
    story.activity.give_up()
    assert story.activity.is_loading
    assert story.activity.pending_requests() == 0
    assert not story.activity.is_navigating
    story.navigate("three")
    assert story.activity.is_navigating


def test_what_was_asked_for_before_the_step_is_not_its_consequence(story: Story) -> None:
    story.request("1")
    story.time += 0.1
    story.activity.begin_step()
    assert story.activity.pending_requests() == 0
    story.request("2")
    assert story.activity.pending_requests() == 1


def test_a_request_that_repeats_itself_is_a_poll(story: Story) -> None:
    def poll(number: int, **asked: str) -> int:
        story.request(str(number), request={"url": f"http://a/poll?{number}", **asked})
        return story.activity.pending_requests()

    for number in range(MAX_REPEATS + 1):
        assert poll(number) == 1
        story.tell("Network.loadingFinished", requestId=str(number))
    assert poll(10) == 0
    assert poll(11, url="http://a/other") == 1
    assert poll(12, method="POST") == 2
    story.activity.begin_step()
    assert poll(13) == 2
    story.navigate("two")
    assert poll(14) == 1


def test_requests_at_the_same_time_are_no_polls(story: Story) -> None:
    for number in range(20):
        story.request(str(number), request={"url": f"http://a/part?{number}"})
    assert story.activity.pending_requests() == 20


def test_requests_are_pending_until_they_end_or_fail(story: Story) -> None:
    story.request("1")
    story.request("2")
    story.tell("Network.loadingFinished", requestId="1")
    assert story.activity.pending_requests() == 1
    story.tell("Network.loadingFailed", requestId="2")
    assert story.activity.pending_requests() == 0


def test_a_redirect_is_one_request(story: Story) -> None:
    story.request("1")
    story.request("1")
    story.tell("Network.loadingFinished", requestId="1")
    assert story.activity.pending_requests() == 0


@for_each("kind", ["WebSocket", "EventSource", "Ping", "Media"])
def test_what_never_ends_is_not_waited_for(story: Story, kind: str) -> None:
    story.request("1", kind=kind)
    assert story.activity.pending_requests() == 0


def test_the_script_of_a_worker_is_not_waited_for(story: Story) -> None:
    story.request("1", loader="", kind="Script")
    assert story.activity.pending_requests() == 0


def test_a_long_poll_is_not_waited_for_when_it_is_repeated(story: Story) -> None:
    story.request("1", kind="Fetch")
    story.time += 2 * BACKGROUND_AFTER
    assert story.activity.pending_requests() == 1
    assert story.activity.has_unfinished
    story.activity.begin_step()
    story.tell("Network.loadingFinished", requestId="1")
    story.request("2", kind="Fetch")
    assert story.activity.pending_requests() == 0
    assert not story.activity.has_unfinished


def test_a_body_that_comes_is_waited_for_and_one_that_stays_away_is_not(story: Story) -> None:
    story.request("1")
    story.tell("Network.responseReceived", requestId="1", response={"status": 200})
    story.time += ANSWER_GOES_ON / 2
    story.tell("Network.dataReceived", requestId="1", dataLength=10)
    story.time += ANSWER_GOES_ON / 2
    assert story.activity.pending_requests() == 1
    story.time += ANSWER_GOES_ON / 2
    assert story.activity.pending_requests() == 0


def test_a_new_document_forgets_the_requests_of_the_last(story: Story) -> None:
    story.request("1", loader="one")
    story.request("2", loader="two")
    story.navigate("two")
    assert story.activity.pending_requests() == 1


def test_the_status_is_that_of_the_document(story: Story) -> None:
    def respond(frame: str, kind: str, status: int) -> None:
        story.tell(
            "Network.responseReceived",
            requestId="1",
            frameId=frame,
            type=kind,
            response={"status": status},
        )

    respond("main", "Document", 404)
    respond("main", "Image", 200)
    respond("inner", "Document", 500)
    assert story.activity.status == 404


def test_a_page_that_could_not_be_reached_keeps_its_address(story: Story) -> None:
    story.navigate("two", url="chrome-error://chromewebdata/", unreachableUrl="http://gone/")
    assert story.activity.main.unreachable_url == "http://gone/"


def test_a_flood_of_requests_is_bounded(story: Story) -> None:
    for number in range(5_000):
        story.request(str(number))
    assert story.activity.pending_requests() <= 2_000
