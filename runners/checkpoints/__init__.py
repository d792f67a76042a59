"""Checkpoints of a run: how they are stored, found, pruned and read back."""
