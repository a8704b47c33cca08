"""The task monitor: the state of every rollout while a run goes on."""
