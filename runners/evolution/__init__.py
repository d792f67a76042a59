"""Evolution as the outer optimiser: strategies, populations, what is kept."""
