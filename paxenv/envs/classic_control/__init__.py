"""Classic control problems: one player, continuous states, Gymnasium's numbers."""
