"""Many sessions kept busy for a while: does memory stay constant?

Each session makes a step now and then, like an agent that waits for its model in between. Memory is
that of all processes of the server. It counts as constant if the last third of the time holds
little more than the second; in the first third caches are filled.
"""

import asyncio
import os
from statistics import mean

from benchmarks.browser_rollgym import command_for, server
from benchmarks.figure import Figures
from benchmarks.process_costs import tree_costs
from webgym.browser.contract.answers import Observe
from webgym.client.client import BrowserClient

PAUSE = 20.0
SAMPLE_INTERVAL = 5.0
GROWTH_GOAL = 1.05


async def hold(figures: Figures, url: str, seconds: float, sessions: int) -> None:
    """Report the growth of memory, the steps and the failures."""
    now = asyncio.get_running_loop().time
    failed, steps, memory = 0, 0, []
    pause = min(PAUSE, seconds / 10)
    async with server(sessions) as address, BrowserClient(address) as client:
        idle = tree_costs(os.getpid()).memory
        end = now() + seconds

        async def keep(number: int) -> None:
            nonlocal failed, steps
            async with client.session(lifetime_mins=max(1, int(seconds / 60) + 5)) as session:
                await asyncio.sleep(pause * number / sessions)
                step = 0
                while now() < end:
                    command = command_for(step, url, number + step)
                    answer = await session.step(command, Observe("coordinates", "png"))
                    failed += answer.error is not None or answer.screenshot is None
                    step, steps = step + 1, steps + 1
                    await asyncio.sleep(pause)

        async def watch() -> None:
            while now() < end:
                memory.append(tree_costs(os.getpid()).memory)
                await asyncio.sleep(min(SAMPLE_INTERVAL, pause))

        async with asyncio.TaskGroup() as group:
            group.create_task(watch())
            for number in range(sessions):
                group.create_task(keep(number))
        used = tree_costs(os.getpid()).cpu
    third = len(memory) // 3
    growth = mean(memory[2 * third :]) / mean(memory[third : 2 * third])
    figures.report("browser.hold.memory_growth", growth, "ratio", GROWTH_GOAL)
    figures.report("browser.hold.failed_steps", failed, "steps", 0)
    figures.report("browser.hold.steps", steps, "steps")
    figures.report("browser.hold.sessions", sessions, "sessions")
    figures.report("browser.hold.peak_memory", max(memory) / 2**20, "MiB")
    per_session = (mean(memory[third:]) - idle) / sessions / 2**20
    figures.report("browser.hold.memory_per_session", per_session, "MiB")
    figures.report("browser.hold.cpu_per_step", used / max(1, steps), "s")
