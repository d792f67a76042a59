"""Where a run lies: its folder, its logs, its checkpoints."""
