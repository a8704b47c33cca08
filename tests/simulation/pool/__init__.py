"""A pool under the simulated clock and disk: both sides may die between any two steps.

A seed decides the lives of the pool, what its workers and trainers do, and when either of them
dies (`plan`). A life opens the run and serves until it is stopped, loses its disk or dies; the next
one continues (`world`). What the trainers got and what was answered to them is written down from
outside (`log`) and checked against the journal, which is parsed as plain JSON (`promises`).
"""
