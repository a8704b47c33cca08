"""The exact tokens of a rollout and the policy versions of its turns, in a real browser."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, expect

from rollgym.records.tokens import TokenLog, TokenSample
from tests.e2e.viewer.serving import PHONE, Viewer, Visit, overflows, viewing, visiting

Json = dict[str, Any]
HOSTILE = "<img src=x onerror=alert(1)>"
LONG_TURNS = 5_000
LARGE_ID = 2**60 + 1


def said(text: str, tokens: list[str] | None = None) -> Json:
    part: Json = {"type": "output_text", "text": text}
    if tokens is not None:
        part["logprobs"] = [{"token": each, "logprob": -0.5} for each in tokens]
    return {"type": "message", "role": "assistant", "content": [part]}


def rollout(number: int, log: TokenLog, turns: list[Json], output: list[Json]) -> Json:
    params = {"input": [{"role": "user", "content": "Where is the Kestrel?"}]}
    return {
        "responses_create_params": params,
        "response": {"output": output},
        "reward": 1.0,
        "_ng_task_index": number,
        "_ng_rollout_index": 0,
        "rollgym_tokens": log.turns,
        "rollgym_turns": turns,
    }


def short_rollout() -> Json:
    """Three turns; the third one begins a branch, because messages were dropped."""
    call = {"type": "function_call", "call_id": "c", "name": "search", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "In port."}
    log = TokenLog()
    sure = [math.log(0.95), math.log(0.6), math.log(0.002)]
    first = TokenSample(prompt=[1, LARGE_ID], sampled=[3, 4, 5], logprobs=sure)
    log.add(first, item=0)
    log.add(TokenSample(prompt=[1, LARGE_ID, 3, 4, 5, 6], sampled=[7, 8]), item=2)
    log.add(TokenSample(prompt=[1, LARGE_ID, 9], sampled=[10], logprobs=[-0.1]), item=3)
    turns: list[Json] = [
        {"version": "41", "item": 0},
        {"version": "42", "parts": [["41", 1], ["42", 1]], "item": 2},
        {"item": 3},
    ]
    output = [call, result, said("In port", [HOSTILE, " port"]), said("Yes.")]
    return rollout(0, log, turns, output)


def long_rollout() -> Json:
    """Thousands of turns of one conversation, with 60 tokens each."""
    log, prompt = TokenLog(), [1]
    for number in range(LONG_TURNS):
        sampled = [(number * 60 + at) % 50_000 for at in range(40)]
        log.add(TokenSample(prompt=prompt, sampled=sampled, logprobs=[-0.25] * 40), item=number)
        prompt = [*prompt, *sampled, *range(20)]
    output = [said(f"Turn {number}.") for number in range(LONG_TURNS)]
    turns = [{"version": str(100 + number // 100), "item": number} for number in range(LONG_TURNS)]
    return rollout(1, log, turns, output)


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder: Path = tmp_path_factory.mktemp("tokens")
    rows = [short_rollout(), long_rollout()]
    path = folder / "tokens.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    with viewing([path]) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, viewer: Viewer) -> Iterator[Visit]:
    with visiting(browser, viewer) as started:
        yield started


def test_each_token_says_what_it_is_and_where_a_branch_broke(visit: Visit) -> None:
    page = visit.go("/s/tokens/rollouts/0-1")
    page.get_by_role("button", name="Tokens").click()
    panel = page.locator(".tokens")
    tokens = panel.locator(".tokens-list .token")
    # Ids, but texts where the response has them; a large id is not rounded.
    shown = ["1", str(LARGE_ID), "3", "4", "5", "6", "<img·src=x·onerror=alert(1)>", "·port"]
    expect(tokens).to_have_text(shown)
    expect(panel.locator(".is-sampled.p-certain")).to_have_count(2)  # one is in the legend
    expect(tokens.nth(4)).to_have_class("token is-sampled p-rare")
    runs = panel.locator(".tokens-list .tokens-turn")
    expect(runs).to_have_text(
        [
            *("turn 1 · prompt", "turn 1 · sampled · version 41", "turn 2 · prompt"),
            *("turn 2 · sampled · version 41", "turn 2 · sampled · version 42"),
        ]
    )
    tokens.nth(4).click()
    expect(panel.locator(".tokens-detail")).to_contain_text("id 5 · turn 1 · sampled here")
    expect(panel.locator(".tokens-detail")).to_contain_text("version 41 · log probability -6.21")
    expect(panel.locator(".tokens-about")).to_contain_text("policy version41, 42")
    panel.get_by_label("Branch").select_option("1")
    expect(tokens).to_have_text(["1", str(LARGE_ID), "9", "10"])
    expect(panel.locator(".tokens-about")).to_contain_text(
        "after 2 tokens, because its prompt is not the one before"
    )
    # The address has the branch.
    page = visit.go("/s/tokens/rollouts/0-1?tokens=2")
    expect(page.locator(".tokens-list .token")).to_have_count(4)
    visit.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert not overflows(visit.page)


def test_turns_have_their_policy_version_and_the_list_can_be_filtered_by_it(
    visit: Visit, viewer: Viewer
) -> None:
    page = visit.go("/s/tokens/rollouts/0-1")
    expect(page.locator(".turn-version")).to_have_text(["version 41", "version 41 → 42"])
    page = visit.go("/s/tokens")
    panel = page.get_by_role("region", name="Policy versions").first
    expect(panel).to_contain_text("149")
    page = visit.go("/s/tokens/rollouts?version=42&cols=title,field.policy_versions")
    expect(page.locator(".clip").filter(has_text="41, 42")).to_have_count(1)
    found = viewer.json("/api/s/tokens/rollouts?version=42&version=none")
    assert [entry["id"] for entry in found["entries"]] == ["0-1"]


def test_thousands_of_turns_are_shown_a_portion_at_a_time(visit: Visit) -> None:
    page = visit.go("/s/tokens/rollouts/0-2?tokens=1")
    tokens = page.locator(".tokens-list .token")
    expect(tokens.first).to_have_text("1")
    expect(page.locator(".tokens-about")).to_contain_text("in the loss200,000")
    assert tokens.count() < 10_000
    page.locator(".tokens-list").evaluate("list => { list.scrollTop = list.scrollHeight }")
    expect(page.locator(".tokens-turn").last).to_contain_text("turn 5000 · sampled · version 149")
