"""Episodes from their first page to their outcome."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollgym.records import (
    BrowserError,
    Completed,
    EnvironmentSessionError,
    Failed,
    FailureKind,
    ModelUnavailableError,
    Outcome,
    VerifierError,
)
from rollgym.store import BlobRef, BlobStore
from tests.integration.webgym.episode.playing import (
    START,
    ListedAgent,
    ListedBrowsers,
    ListedJudge,
    Notes,
    Planned,
    item,
    page,
    refusal,
)
from webgym.actions.space import Click, GiveAnswer, GoBack, Point, Scroll, Upload, Wait
from webgym.browser.contract.answers import Incident, Picture, StepAnswer
from webgym.browser.contract.commands import (
    Back,
    Command,
    PageDown,
    UploadCoords,
    UploadFile,
    VisitPage,
)
from webgym.browser.contract.errors import NoSessionError, SessionLostError
from webgym.episode import judging
from webgym.episode.interfaces import Decision, EpisodeSettings
from webgym.episode.judging import UnjudgedEpisodes
from webgym.episode.worker import EpisodeWorker
from webgym.rollout.environment_settings import EnvironmentSettings
from webgym.tasks.task import Difficulty
from webgym.trajectory.metrics import calculate_rollout_metrics
from webgym.trajectory.records import BLOCKED, INVALID_URL, UNPARSED, EpisodeVerdict, Trajectory

DONE = GiveAnswer("the kettle")
FOREVER = 3600.0


def rules(**changed: object) -> EpisodeSettings:
    return msgspec.structs.replace(EnvironmentSettings().episode, **changed)


class Stage:
    """A worker with everything around it listed."""

    def __init__(
        self,
        folder: Path,
        plan: Sequence[Planned],
        *,
        judge: ListedJudge | None = None,
        answer: Callable[[Command | None], StepAnswer] | None = None,
        settings: EpisodeSettings | None = None,
    ) -> None:
        self.judge = judge or ListedJudge()
        self.agent = ListedAgent(plan, self.judge)
        self.browsers = ListedBrowsers(answer)
        self.notes = Notes()
        self.unjudged = UnjudgedEpisodes(folder)
        self._folder = folder
        self._settings = settings or rules()

    def worker(self) -> EpisodeWorker:
        return EpisodeWorker(
            agent=self.agent,
            browsers=self.browsers,
            sessions=1,
            settings=self._settings,
            screenshots=BlobStore(self._folder),
            monitor=self.notes,
            unjudged=self.unjudged,
        )

    def play(self, **fields: object) -> Outcome:
        async def run() -> Outcome:
            deadline = asyncio.get_running_loop().time() + FOREVER
            return await self.worker()(item(**fields), 1, deadline)

        outcome = asyncio.run(run())
        assert self.browsers.held == 0
        return outcome


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - nobody would tell us
            await asyncio.sleep(0.01)


def trajectory_of(outcome: Outcome) -> Trajectory:
    return msgspec.json.decode(outcome.result, type=Trajectory)


def keys(outcome: Outcome) -> list[str | None]:
    return [step.action.key if step.action else None for step in trajectory_of(outcome).steps]


def test_an_answer_ends_the_episode_and_the_judge_says_what_it_is_worth(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [Click(Point(500, 500)), DONE])
    outcome = stage.play()
    assert isinstance(outcome, Completed)
    assert (outcome.reward, outcome.succeeded, outcome.measures["steps"]) == (1.0, True, 2.0)
    trajectory = trajectory_of(outcome)
    assert (trajectory.ending, trajectory.answer) == ("answer", "the kettle")
    rewards = [step.reward.reward for step in trajectory.steps if step.reward]
    assert rewards == [0.0, 1.0]
    assert trajectory.steps[0].action is not None
    assert trajectory.steps[0].action.pixel == (640, 384)


def test_an_agent_uploads_the_files_of_its_task_and_no_others(tmp_path: Path) -> None:
    stored = tmp_path / "stored"
    stored.write_bytes(b"a life")
    files = {"cv.pdf": str(stored), "hi.txt": "data:text/plain;base64,aGk="}
    spot = Point(0, 0)
    plan = [Upload(spot, "cv.pdf"), Upload(spot, "hi.txt"), Upload(spot, "passwd"), DONE]
    stage = Stage(tmp_path, plan)
    trajectory = trajectory_of(stage.play(files=files))
    assert stage.browsers.commands[1:] == [
        UploadCoords(0, 0, (UploadFile("cv.pdf", b"a life"),)),
        UploadCoords(0, 0, (UploadFile("hi.txt", b"hi"),)),
    ]
    refused = trajectory.steps[2].action
    assert refused is not None
    assert refused.problem is not None
    assert refused.problem.message.endswith("it has cv.pdf, hi.txt")
    assert "it has cv.pdf, hi.txt" in (stage.agent.seen[-1][1].feedback or "")
    missing = Stage(tmp_path / "other", plan).play(files={"cv.pdf": "/no/such/file"})
    assert isinstance(missing, Failed)
    assert "a file of the task cannot be read" in missing.failure.detail


def test_without_an_answer_it_ends_after_the_steps_of_its_difficulty(tmp_path: Path) -> None:
    settings = rules(max_steps={Difficulty.EASY: 3})
    judge = ListedJudge(EpisodeVerdict(reward=0.0, evaluation={}))
    stage = Stage(tmp_path, [Scroll("down")] * 9, judge=judge, settings=settings)
    trajectory = trajectory_of(stage.play())
    assert (len(trajectory.steps), trajectory.ending, trajectory.answer) == (3, "max_steps", None)
    assert trajectory.final_page is not None  # the page after the last action
    assert trajectory.final_page.page.url == f"{START}/next"
    assert trajectory.final_page.screenshot is not None
    assert len(stage.agent.seen) == 3


def test_recordings_of_the_session_are_kept_also_of_a_failed_episode(tmp_path: Path) -> None:
    class Recorded(ListedBrowsers):
        async def recording(self, kind: str) -> bytes:
            if kind == "video":
                raise SessionLostError("its browser died")
            return b"{}"

    def lose(command: Command | None) -> StepAnswer:
        raise SessionLostError("its browser died")

    for answer in (None, lose):
        folder = tmp_path / str(answer is None)
        stage = Stage(folder, [DONE], settings=rules(recorded=("har", "video")))
        stage.browsers = Recorded(answer)
        outcome = stage.play()
        assert isinstance(outcome, Failed if answer else Completed)
        (kind,) = (recordings := trajectory_of(outcome).recordings)
        assert BlobStore(folder).get(BlobRef(recordings[kind], 2)) == b"{}"


def test_a_task_that_is_over_ends_its_episode_and_is_not_counted_as_crashed(
    tmp_path: Path,
) -> None:
    """Also the last allowed action may end it, whatever the verdict is then."""
    for reward in (1.0, 0.0):
        judge = ListedJudge(EpisodeVerdict(reward=reward, evaluation={}))
        judge.ends = [None, "its page has ended"]
        settings = rules(max_steps={Difficulty.EASY: 2})
        folder = tmp_path / str(reward)
        stage = Stage(folder, [Scroll("down")] * 2, judge=judge, settings=settings)
        outcome = stage.play()
        assert keys(outcome) == ["scroll", "scroll", "answer"]
        trajectory = trajectory_of(outcome)
        assert (trajectory.ending, len(stage.agent.seen)) == ("task_over", 2)
        assert trajectory.steps[-1].observation.page.url == f"{START}/next"
        assert trajectory.steps[-1].reward is not None
        assert trajectory.steps[-1].reward.reward == reward
        metrics = calculate_rollout_metrics([trajectory])
        assert (metrics.crashed, metrics.success_rate) == (0, reward)


def test_a_solved_episode_without_an_answer_is_not_counted_as_crashed(tmp_path: Path) -> None:
    settings = rules(max_steps={Difficulty.EASY: 2})
    outcome = Stage(tmp_path, [Scroll("down")] * 2, settings=settings).play()
    assert keys(outcome) == ["scroll", "scroll", "answer"]
    metrics = calculate_rollout_metrics([trajectory_of(outcome)])
    assert (metrics.solved, metrics.successes, metrics.crashed) == (1, 1, 0)


def test_a_reply_that_is_no_action_is_a_step_and_is_told_to_the_model(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["there is no tool call", DONE])
    outcome = stage.play()
    assert keys(outcome) == [UNPARSED, "answer"]
    assert stage.browsers.commands == [VisitPage(START)]
    assert stage.agent.seen[1][1].feedback == "there is no tool call"
    first = trajectory_of(outcome).steps[0]
    assert stage.agent.seen[-1][0][0].step.same_as_next_screenshot
    assert first.response is not None
    assert (first.response.raw_response, first.same_as_next_screenshot) == ("gibberish", True)


def test_what_the_page_does_not_let_happen_is_recorded_and_told(tmp_path: Path) -> None:
    def answer(command: Command | None) -> StepAnswer:
        if isinstance(command, PageDown):
            return msgspec.structs.replace(page(), error=refusal("command_failed", "no").error)
        return page()

    stage = Stage(tmp_path, [Scroll("down"), DONE], answer=answer)
    outcome = stage.play()
    action = trajectory_of(outcome).steps[0].action
    assert action is not None
    assert action.problem is not None
    assert action.problem.message == "no"
    assert stage.agent.seen[1][1].feedback == "`scroll down` was not carried out: no"


def test_a_start_page_that_cannot_be_opened_fails_and_is_worth_another_try(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [], answer=lambda _: refusal("navigation_failed", "no such host"))
    outcome = stage.play()
    assert isinstance(outcome, Failed)
    assert (outcome.failure.kind, outcome.failure.retryable) == (FailureKind.ENVIRONMENT, True)
    assert keys(outcome) == [INVALID_URL]


def test_a_start_page_that_the_guard_refuses_is_not_tried_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [], answer=lambda _: refusal("navigation_refused", "a private address"))
    outcome = stage.play()
    assert isinstance(outcome, Failed)
    assert (outcome.failure.kind, outcome.failure.retryable) == (FailureKind.TASK, False)
    assert outcome.failure.detail.endswith(f"does not let sessions open {START}: a private address")


def test_going_back_from_the_start_page_three_times_is_worth_nothing(tmp_path: Path) -> None:
    nowhere = msgspec.structs.replace(page(), result={"moved": False})
    stage = Stage(tmp_path, [GoBack()] * 3, answer=lambda _: nowhere)
    outcome = stage.play()
    assert isinstance(outcome, Completed)
    assert (outcome.reward, trajectory_of(outcome).ending) == (0.0, "goback")
    visit = VisitPage(START)
    assert stage.browsers.commands == [visit, Back(), visit, Back(), visit, Back()]
    assert not stage.judge.asked


def test_going_back_from_the_address_of_the_start_page_follows_the_history(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        [GoBack()] * 4 + [DONE],
        answer=lambda command: page(f"{START}product" if isinstance(command, Back) else START),
    )
    assert trajectory_of(stage.play()).ending == "answer"
    assert stage.browsers.commands == [VisitPage(START)] + [Back()] * 4


def test_what_happens_to_the_agent_is_shown_to_it(tmp_path: Path) -> None:
    dialog = Incident("dialog", "confirm: Delete? (answered Cancel)")
    stage = Stage(
        tmp_path,
        [Scroll("down"), DONE],
        answer=lambda command: (
            msgspec.structs.replace(page(), incidents=(dialog,))
            if isinstance(command, PageDown)
            else page()
        ),
    )
    stage.play()
    assert [each.incidents for _, each in stage.agent.seen] == [(), (dialog,)]


def test_a_wall_ends_the_episode_where_the_judge_watches_for_it(tmp_path: Path) -> None:
    judge = ListedJudge()
    judge.walls.add(b"wall")
    stage = Stage(
        tmp_path,
        [Scroll("down")],
        judge=judge,
        answer=lambda command: page(picture=b"wall" if isinstance(command, PageDown) else None),
        settings=rules(watch_for_blocking=True),
    )
    outcome = stage.play()
    assert isinstance(outcome, Completed)
    assert (outcome.reward, outcome.measures["blocked"]) == (0.0, 1.0)
    assert keys(outcome) == ["scroll", BLOCKED]
    last = trajectory_of(outcome).final_reward
    assert last is not None
    assert last.is_blocked


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModelUnavailableError("gone"), FailureKind.MODEL_UNAVAILABLE),
        (BrowserError("lost"), FailureKind.BROWSER),
        (KeyError("a bug"), FailureKind.INTERNAL),
    ],
)
def test_what_breaks_keeps_the_steps_so_far_and_earns_nothing(
    tmp_path: Path, error: Exception, kind: FailureKind
) -> None:
    outcome = Stage(tmp_path, [Scroll("down"), error]).play()
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind is kind
    assert keys(outcome) == ["scroll", None]
    assert all(step.reward is None for step in trajectory_of(outcome).steps)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "JUDGE_PAUSES", (0.0, 0.0))


def test_a_judge_that_cannot_tell_fails_the_rollout_with_all_its_steps(tmp_path: Path) -> None:
    judge = ListedJudge(VerifierError("nonsense"))
    outcome = Stage(tmp_path, [DONE], judge=judge).play()
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind is FailureKind.VERIFIER
    assert keys(outcome) == ["answer"]
    assert len(judge.asked) == 3


def test_a_judge_that_will_never_tell_is_asked_once(tmp_path: Path) -> None:
    judge = ListedJudge(VerifierError("no judge", retryable=False))
    assert isinstance(Stage(tmp_path, [DONE], judge=judge).play(), Failed)
    assert len(judge.asked) == 1


def test_a_judge_that_can_tell_the_second_time_spares_the_episode_a_second_play(
    tmp_path: Path,
) -> None:
    class Hesitant(ListedJudge):
        async def evaluate(self, trajectory: Trajectory) -> EpisodeVerdict:
            self.asked.append(trajectory)
            if len(self.asked) == 1:
                raise VerifierError("just a moment")
            return EpisodeVerdict(reward=1.0, evaluation={})

    stage = Stage(tmp_path, [DONE], judge=Hesitant())
    assert isinstance(stage.play(), Completed)
    assert stage.browsers.commands == [VisitPage(START)]


def test_a_deadline_that_passes_after_an_error_of_the_judge_names_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "JUDGE_PAUSES", (60.0,))
    judge = ListedJudge(VerifierError("nonsense"))
    outcome = Stage(tmp_path, [DONE], judge=judge, settings=rules(evaluation_timeout=0.05)).play()
    assert isinstance(outcome, Failed)
    assert outcome.failure.detail == "there was no verdict within 0.05 s, after: nonsense"


class LateJudge(ListedJudge):
    """Gives no verdict until it is `ready`; `waits` says that it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = asyncio.Event()
        self.waits = False

    async def evaluate(self, trajectory: Trajectory) -> EpisodeVerdict:
        self.waits = True
        await self.ready.wait()
        return await super().evaluate(trajectory)


def test_judging_has_a_deadline_of_its_own_and_the_next_attempt_only_judges(
    tmp_path: Path,
) -> None:
    """Also after the process was killed: another worker finds the episode in the run directory."""
    judge = LateJudge()
    settings = rules(task_timeout=30.0, evaluation_timeout=0.05)
    stage = Stage(tmp_path, [Scroll("down"), DONE], judge=judge, settings=settings)
    first = stage.play()
    assert isinstance(first, Failed)
    assert (first.failure.kind, first.failure.retryable) == (FailureKind.VERIFIER, True)
    assert first.failure.detail == "there was no verdict within 0.05 s"
    judge.ready.set()
    again = Stage(tmp_path, [], judge=judge)
    second = again.play()
    assert isinstance(second, Completed)
    assert again.browsers.commands == []
    assert trajectory_of(second).session == trajectory_of(first).session
    assert keys(second) == ["scroll", "answer"]


def test_a_slow_judge_does_not_use_up_the_time_of_the_task(tmp_path: Path) -> None:
    judge = LateJudge()
    stage = Stage(tmp_path, [DONE], judge=judge, settings=rules(task_timeout=3.0))

    async def run() -> Outcome:
        loop = asyncio.get_running_loop()
        playing = asyncio.ensure_future(stage.worker()(item(), 1, loop.time() + FOREVER))
        await until(lambda: judge.waits)
        await asyncio.sleep(3.1)
        judge.ready.set()
        return await playing

    assert isinstance(asyncio.run(run()), Completed)


def test_an_episode_that_needs_the_state_of_its_session_runs_again(tmp_path: Path) -> None:
    judge = ListedJudge(VerifierError("the server does not know the session"))
    stage = Stage(tmp_path, [DONE, DONE], judge=judge)
    assert isinstance(stage.play(verifier="miniwob"), Failed)
    judge.verdict = EpisodeVerdict(reward=1.0, evaluation={})
    assert isinstance(stage.play(verifier="miniwob"), Completed)
    assert stage.browsers.commands == [VisitPage(START)] * 2


def test_an_episode_whose_verifier_wants_another_one_runs_again(tmp_path: Path) -> None:
    judge = ListedJudge(EnvironmentSessionError("the site forgot the session"))
    stage = Stage(tmp_path, [DONE, DONE], judge=judge)
    assert isinstance(stage.play(), Failed)
    judge.verdict = EpisodeVerdict(reward=1.0, evaluation={})
    assert isinstance(stage.play(), Completed)
    assert stage.browsers.commands == [VisitPage(START)] * 2


def test_a_judge_that_cannot_watch_for_walls_does_not_end_the_episode(tmp_path: Path) -> None:
    class Blind(ListedJudge):
        async def screenshot_is_blocked(self, picture: Picture) -> bool:
            raise VerifierError("it is away")

    settings = rules(watch_for_blocking=True)
    outcome = Stage(tmp_path, [DONE], judge=Blind(), settings=settings).play()
    assert isinstance(outcome, Completed)


class SlowAgent(ListedAgent):
    """Decides once, and then takes for ever."""

    ponders = False

    async def decide(self, *args: Any, **kwargs: Any) -> Decision:
        if self.seen:
            self.ponders = True
            await asyncio.sleep(60)
        return await super().decide(*args, **kwargs)


def test_the_end_of_its_time_ends_an_episode_with_its_steps(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [], settings=rules(task_timeout=1.0))
    stage.agent = SlowAgent([Wait(0), DONE], stage.judge)
    outcome = stage.play()
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind is FailureKind.TIMEOUT
    assert keys(outcome) == ["wait", None]


def test_an_episode_that_is_cancelled_keeps_its_steps(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [])
    stage.agent = agent = SlowAgent([Wait(0), DONE], stage.judge)

    async def run() -> Outcome:
        deadline = asyncio.get_running_loop().time() + FOREVER
        playing = asyncio.ensure_future(stage.worker()(item(), 1, deadline))
        await until(lambda: agent.ponders)
        playing.cancel()
        return await playing

    outcome = asyncio.run(run())
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind is FailureKind.CANCELLED
    assert keys(outcome) == ["wait", None]
    assert stage.browsers.held == 0


def test_waiting_for_a_browser_does_not_use_up_the_time_of_the_task(tmp_path: Path) -> None:
    class Unhurried(ListedAgent):
        async def decide(self, *args: Any, **kwargs: Any) -> Decision:
            await asyncio.sleep(0.3)
            return await super().decide(*args, **kwargs)

    stage = Stage(tmp_path, [], settings=rules(task_timeout=1.0))
    stage.agent = Unhurried([DONE] * 6, stage.judge)

    async def run() -> list[Outcome]:
        worker, deadline = stage.worker(), asyncio.get_running_loop().time() + FOREVER
        return await asyncio.gather(*(worker(item(), 1, deadline) for _ in range(6)))

    outcomes = asyncio.run(run())
    assert all(isinstance(each, Completed) for each in outcomes)
    assert stage.browsers.most_held == 1
    assert max(each.phases["browser"] for each in outcomes) > 1.0, "the wait is kept as a phase"


def test_who_waits_for_a_browser_in_vain_is_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [], settings=rules(wait_timeout=0.1))
    stage.agent = SlowAgent([Wait(0), DONE], stage.judge)

    async def run() -> tuple[Outcome, bool]:
        worker, deadline = stage.worker(), asyncio.get_running_loop().time() + FOREVER
        playing = asyncio.ensure_future(worker(item(), 1, deadline))
        await until(lambda: bool(stage.agent.seen))
        waiting = asyncio.ensure_future(worker(item(), 1, deadline))
        await asyncio.sleep(0.02)
        waits = worker.waits(item().key)
        outcome = await waiting
        playing.cancel()
        await playing
        return outcome, waits

    outcome, waits = asyncio.run(run())
    assert waits
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind is FailureKind.BROWSER_UNAVAILABLE
    assert outcome.failure.detail == "no browser: none was free within 0.1 s"
    assert not outcome.failure.retryable, "it has waited as long as it may"
    assert outcome.phases["browser"] >= 0.1
    assert trajectory_of(outcome).ending == "no_browser"


class FullBrowsers(ListedBrowsers):
    """Has no session, and notes how long it was asked to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.error: Exception | None = None

    async def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> ListedBrowsers:
        self.waits.append(wait_seconds)
        if self.error:
            raise self.error
        await asyncio.Event().wait()
        raise AssertionError


def test_all_attempts_wait_for_a_browser_up_to_one_deadline(tmp_path: Path) -> None:
    """Also where the client itself would wait for ever, and also when the wait is cancelled."""
    stage = Stage(tmp_path, [], settings=rules(wait_timeout=40.0))
    stage.browsers = full = FullBrowsers()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        worker = stage.worker()
        full.error = NoSessionError("the server is full")
        first = await worker(item(), 1, loop.time() + FOREVER)
        assert isinstance(first, Failed)
        assert first.failure.retryable
        assert first.failure.detail == "no browser: the server is full"
        await asyncio.sleep(0.05)
        full.error = None
        second = asyncio.ensure_future(worker(item(), 2, loop.time() + FOREVER))
        await until(lambda: len(full.waits) == 2)
        assert full.waits[1] <= full.waits[0] - 0.05
        second.cancel()
        ended = await second
        assert isinstance(ended, Failed)
        assert ended.failure.detail.startswith("no browser: the episode was cancelled")
        assert trajectory_of(ended).ending == "no_browser"

    asyncio.run(run())
    stage = Stage(tmp_path, [], settings=rules(wait_timeout=0.05))
    stage.browsers = FullBrowsers()
    outcome = stage.play()
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind is FailureKind.BROWSER_UNAVAILABLE


def test_the_browser_is_given_back_before_the_judge_is_asked(tmp_path: Path) -> None:
    held: list[int] = []
    stage = Stage(tmp_path, [DONE])

    class Counting(ListedJudge):
        async def evaluate(self, trajectory: Trajectory) -> EpisodeVerdict:
            held.append(stage.browsers.held)
            return await super().evaluate(trajectory)

    stage.judge = Counting()
    stage.agent = ListedAgent([DONE], stage.judge)
    stage.play()
    assert held == [0]


def test_who_watches_is_told_every_phase(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [Scroll("down"), DONE])
    stage.play()
    assert stage.notes.phases == [
        ("waiting", 0),
        ("navigate", 1),
        ("screenshot", 1),
        ("model", 1),
        ("execute", 1),
        ("screenshot", 2),
        ("model", 2),
        ("reward", 2),
    ]


def test_pictures_of_old_rounds_are_not_kept_in_memory(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [*[Scroll("down")] * 7, DONE])
    stage.play()
    past = stage.agent.seen[-1][0]
    assert [each.observation.picture is not None for each in past] == [False] * 3 + [True] * 4


def test_a_row_that_is_no_web_task_fails_before_a_browser_is_taken(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [])
    outcome = stage.play(difficulty=0)
    assert isinstance(outcome, Failed)
    assert outcome.failure.kind is FailureKind.TASK
    assert stage.browsers.most_held == 0


def test_the_address_of_the_test_sites_is_put_in_when_the_episode_begins(tmp_path: Path) -> None:
    settings = rules(sites_url="http://127.0.0.1:7300/")
    stage = Stage(tmp_path, [DONE], settings=settings)
    outcome = stage.play(website="{sites}/shop/")
    assert stage.browsers.commands == [VisitPage("http://127.0.0.1:7300/shop/")]
    assert b"{sites}/shop/" in bytes(trajectory_of(outcome).task)
