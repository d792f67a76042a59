"""Interventions: what is changed about learners and payoffs between and in trials.

Each is a frozen value, so that equal experiments compile once. Those for one slot are
its `sampler`, its `schedule` and its `observe`; a sampler of payoffs is the
`params_sampler` of an experiment.
"""
