"""Whole collections under a simulated clock, a simulated disk and simulated workers.

A seed decides everything: the tasks, the policy, what each worker does at each attempt, and the
lives of the process (`plan`). A life opens the run and collects until it ends, is stopped, loses
its disk or dies at some operation; the next one resumes (`world`). What happened is written down
from outside (`log`, `records`), and the promises are checked against that (`invariants`).

The clock (`loop`) jumps to the next timer, so a life of hours takes a millisecond, and a seed that
fails once fails always.
"""
