"""Evolution: its strategies, what they search, and the outer optimiser of them."""
