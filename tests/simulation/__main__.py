"""`python -m tests.simulation`: run many seeds, or follow one.

For every ten seeds, one of a pool is run too.

python -m tests.simulation --seeds 20000 [--start 0] [--jobs 2]
python -m tests.simulation --replay 4711
"""

import argparse
import sys
import time
from collections import Counter

from tests.simulation.campaign import Finding, run_campaign
from tests.simulation.invariants import Violation, check, check_same_decisions
from tests.simulation.pool.campaign import run_pool_seeds
from tests.simulation.simulate import plan_of, run_plan
from tests.simulation.tally import Tally, render
from tests.simulation.timeline import describe

SHOWN_FINDINGS = 20
PROGRESS_SECONDS = 5.0
POOL_SHARE = 10
"""One pool for so many collections."""


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 when every promise held, 1 when one was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description="Simulate collections with faults and check what is promised of them.",
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, help="processes; default: one for each core")
    parser.add_argument("--replay", type=int, metavar="SEED", help="follow one seed")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        return replay(options.replay)
    if options.seeds < 1:
        parser.error("run at least one seed")
    return run(range(options.start, options.start + options.seeds), options.jobs)


def run(seeds: range, jobs: int | None) -> int:
    """Run seeds and say what was exercised."""
    began = said = time.monotonic()
    done = 0
    counts: Tally = Counter()
    findings: list[Finding] = []
    for batch in run_campaign(seeds, jobs):
        done += batch.seeds
        counts += batch.counts
        findings += batch.findings
        now = time.monotonic()
        if now - said >= PROGRESS_SECONDS:
            said = now
            print(
                f"{done:,} of {len(seeds):,} seeds, {done / (now - began):.0f} a second, "
                f"{len(findings)} broke a promise",
                flush=True,
            )
    pools = range(seeds.start, seeds.start + -(-len(seeds) // POOL_SHARE))
    findings += run_pool_seeds(pools)
    seconds = time.monotonic() - began
    print(render(counts))
    print(f"and {len(pools):,} seeds of pools")
    print(f"{done:,} seeds in {seconds:.1f} s, {done / seconds:.0f} a second")
    if not findings:
        print("every promise held")
        return 0
    findings.sort(key=lambda finding: finding.seed)
    for finding in findings[:SHOWN_FINDINGS]:
        print(f"seed {finding.seed}: {finding.seen}")
        if not finding.seen.startswith("(pool)"):
            print(f"  python -m tests.simulation --replay {finding.seed}")
    print(f"{len(findings)} seeds broke a promise")
    return 1


def replay(seed: int) -> int:
    """Run one seed and tell its story."""
    plan = plan_of(seed)
    story = run_plan(plan)
    for line in describe(story):
        print(line)
    print()
    try:
        check(story)
        check_same_decisions(story, run_plan(plan))
    except Violation as violation:
        print(f"seed {seed} broke {violation}")
        return 1
    print(f"seed {seed}: every promise held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
