"""Other libraries' ways to train, over the same engine."""
