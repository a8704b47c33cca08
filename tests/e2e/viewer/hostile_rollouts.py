"""Rollouts in which every text is an attempt to run something, or to be noticed somewhere.

Each string of `hostile(canary)` would, were it ever taken for markup, script or an address, set
`window.pwned`, open a dialog, or ask the canary, a server that must not get any request.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

PER_FAILURE = 7
"""Strings that one failed rollout has."""


def hostile(canary: str) -> list[str]:
    """The strings. `canary` is the address of the server that must not be asked."""
    run = "window.pwned=1;alert(1)"
    return [
        f"<script>{run}</script>",
        f"</script><script>{run}</script>",
        f"<img src=x onerror='{run}'>",
        f"<img src='{canary}/img'>",
        f"<svg onload='{run}'><script>{run}</script></svg>",
        f"<svg><use href='{canary}/use#a'/><image href='{canary}/image'/></svg>",
        f"<iframe src='{canary}/frame' srcdoc='<script>parent.{run}</script>'></iframe>",
        f"<object data='{canary}/object'></object><embed src='{canary}/embed'>",
        f"<link rel=stylesheet href='{canary}/css'><link rel=prefetch href='{canary}/prefetch'>",
        f"<meta http-equiv=refresh content='0;url={canary}/refresh'>",
        f"<base href='{canary}/base/'>",
        f"<style>@import url({canary}/import); * {{ background: url({canary}/style) }}</style>",
        f"<div style='background:url({canary}/background)'>",
        f"<form action='{canary}/form'><input autofocus onfocus='{run}'></form>",
        f"<details open ontoggle='{run}'><summary>x</summary></details>",
        f"<video><source onerror='{run}' src='{canary}/video'></video>",
        f"<math><mtext><mglyph><style><img src=x onerror='{run}'></style></mglyph></mtext></math>",
        f"<template><script>{run}</script></template>",
        f"<noscript><p title='</noscript><img src=x onerror={run}>'></noscript>",
        f"[click](javascript:{run}) and [data](data:text/html,<script>{run}</script>)",
        f"![picture]({canary}/markdown.png) ![x](data:image/svg+xml,<svg onload='{run}'/>)",
        f"[reference]: javascript:{run}\n[reference] <javascript:{run}> <{canary}/auto>",
        f"```html\n<script>{run}</script>\n```\n`<img src=x onerror={run}>`",
        f"| <img src=x onerror={run}> | b |\n|---|---|\n| [x](javascript:{run}) | {canary}/table |",
        f"$\\href{{javascript:{run}}}{{x}}$ $\\includegraphics{{{canary}/tex}}$ $$<script>{run}$$",
        f"\\(\\text{{<img src=x onerror={run}>}}\\) \\[\\unicode{{x}}<svg onload={run}>\\]",
        f"<think><script>{run}</script></think>after",
        f"javascript:{run}",
        f'";{run}//',
        f"';{run}//",
        "${" + run + "}{{" + run + "}}<%= " + run + " %>",
        "__proto__",
        "constructor",
        "\u202egnp.elif\u2066<b>\u0000\u0007\x1b]0;title\x07\x1b[31m",
        "&lt;script&gt;" + run + "&lt;/script&gt; &#x3c;script&#x3e;",
        "\ufeff<\u0073cript>" + run + "</script>",
        "<!--" + "-->" + f"<img src=x onerror={run}>" + "<![CDATA[" + f"<script>{run}</script>]]>",
        f"//{canary.removeprefix('http://')}/protocol-relative",
        "../../../../etc/passwd",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "a" * 3000 + f"<script>{run}</script>",
        ">" * 500 + "\n" + "- " * 500 + "\n" + "*" * 1001 + "_" * 1001 + "`" * 1001,
    ]


def rollout_rows(canary: str) -> Iterator[dict[str, Any]]:
    """A completed rollout for each string, which is everywhere in it; failed ones with several."""
    texts = hostile(canary)
    for index, text in enumerate(texts):
        yield _completed(index, text, canary)
    for index in range(0, len(texts), PER_FAILURE):
        yield _failed(index, texts[index : index + PER_FAILURE])


def write_rollouts(path: Path, canary: str) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rollout_rows(canary)))


def _completed(index: int, text: str, canary: str) -> dict[str, Any]:
    call = {"id": text, "type": "function", "function": {"name": text, "arguments": text}}
    odd = {"id": "2", "function": {"name": text, "arguments": {text: {text: [text]}}}}
    pictures = [
        {"type": "image_url", "image_url": {"url": f"{canary}/picture.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,PHN2Zy8+"}},
        {"type": "image_url", "image_url": {"url": text}},
        {"type": "text", "text": text},
        {"type": text, text: text},
    ]
    return {
        "responses_create_params": {
            "input": [
                {"role": "system", "content": text},
                {"role": text, "content": text},
                {"role": "user", "content": text},
            ],
            "model": text,
            "tools": [{"type": "function", "name": text, "description": text}],
            text: text,
        },
        "agent_ref": {"name": text},
        "domain": text,
        "task_id": text,
        "_ng_task_index": index,
        "_ng_rollout_index": 0,
        "output": [
            {"role": "assistant", "reasoning": text, "content": text, "tool_calls": [call, odd]},
            {"role": "tool", "tool_call_id": text, "content": text},
            {"role": "user", "content": pictures},
            {"role": text, "content": {text: text}},
            text,
            {"role": "assistant", "content": text},
        ],
        "response": {"id": text, "model": text, "status": text},
        "reward": index % 3 / 2,
        "success": index % 3 == 2,
        "judge_text": text,
        text: text,
        "metadata": {
            "ending": text,
            "timings": {text: 1.0},
            "spans": [{"phase": text, "start": 0.0, "seconds": 1.0, "label": text}],
            text: text,
        },
    }


def _failed(index: int, texts: list[str]) -> dict[str, Any]:
    text, everything = texts[0], "\n".join(texts)
    return {
        "_ng_task_index": index,
        "_ng_rollout_index": 1,
        "attempt": 1,
        "final": True,
        "agent_ref": {"name": text},
        "_ng_failure_class": text,
        "failure": {
            "kind": text,
            "detail": everything,
            "causes": [{"type": each, "message": each} for each in texts],
            "traceback": everything,
        },
        "seconds": 1.0,
        "started": 1.0e9,
    }
