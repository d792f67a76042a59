"""The files of a run: its folder, its logs, its checkpoints."""
