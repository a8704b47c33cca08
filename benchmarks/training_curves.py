"""Draws the rewards of the training runs of examples/grpo, from the files of the runs.

    python -m benchmarks.training_curves RUN … --output docs/images/grpo.svg

The line of a run is the mean reward of the rollouts of its last five steps (`metrics.jsonl`), the
dots are the success on held-out tasks (`before.json`, `after.json`).
"""

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

WIDTH, HEIGHT, MARGIN = 640, 360, 48
SMOOTHED = 5
COLOURS = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed")


def draw(runs: Sequence[Path], output: Path) -> None:
    """Write the picture of these runs."""
    steps = max((line["step"] for run in runs for line in _metrics(run)), default=1)
    parts = [*_axes(steps)]
    for number, run in enumerate(runs):
        parts += _curve(run, steps, COLOURS[number % len(COLOURS)], number)
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    output.write_text("\n".join([head, background, *parts, "</svg>\n"]))


def _metrics(run: Path) -> list[dict[str, Any]]:
    """A line for each step. A resumed run made some steps twice: the last time counts."""
    path = run / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [*{line["step"]: line for line in lines}.values()]


def _curve(run: Path, steps: int, colour: str, number: int) -> Iterator[str]:
    rewards = [line["reward"] for line in sorted(_metrics(run), key=lambda line: line["step"])]
    means = [fmean(rewards[max(0, end - SMOOTHED) : end]) for end in range(1, len(rewards) + 1)]
    points = " ".join(f"{_x(step, steps)},{_y(mean)}" for step, mean in enumerate(means, 1))
    yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
    held_out = []
    for name in ("before", "after"):
        path = run / f"{name}.json"
        if path.exists():
            found = json.loads(path.read_text())
            x, y = _x(found["step"], steps), _y(found["success"])
            yield f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/>'
            held_out.append(f"{found['success']:.2f}")
    text = f"{run.name}: held-out {' → '.join(held_out)}" if held_out else run.name
    yield _text(WIDTH - MARGIN, HEIGHT - MARGIN - 10 - 16 * number, text, "end", colour)


def _axes(steps: int) -> Iterator[str]:
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        line = f'x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{_y(share)}" y2="{_y(share)}"'
        yield f'<line {line} stroke="#ddd"/>'
        yield _text(MARGIN - 8, _y(share) + 4, f"{share:g}", "end")
    yield _text(MARGIN, HEIGHT - MARGIN + 20, "0")
    yield _text(WIDTH - MARGIN, HEIGHT - MARGIN + 20, str(steps), "end")
    yield _text(WIDTH / 2, HEIGHT - MARGIN + 20, "training steps", "middle")
    title = "Line: mean reward in training. Dots: success on held-out tasks, before and after."
    yield _text(MARGIN, MARGIN - 20, title)


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "#333") -> str:
    place = f'x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}" font-size="12"'
    return f"<text {place}>{text}</text>"


def _x(step: float, steps: int) -> float:
    return round(MARGIN + (WIDTH - 2 * MARGIN) * step / steps, 1)


def _y(share: float) -> float:
    return round(HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * share, 1)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of training runs")
    parser.add_argument("--output", type=Path, required=True, help="SVG file to write")
    options = parser.parse_args()
    draw(options.runs, options.output)


if __name__ == "__main__":
    main()
