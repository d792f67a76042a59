"""Tags that are folded into a run's key, so that no two uses share numbers."""

#: Lanes; initialisation of agents; the outer optimiser; samplers. Under each of them
#: lies the trial, then the opponent, then the lowest player.
LANES, AGENTS, OUTER, SAMPLERS = range(4)
