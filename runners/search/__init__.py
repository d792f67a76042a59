"""Evolution: strategies, search spaces, and the outer optimiser."""
