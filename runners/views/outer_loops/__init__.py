"""Loops one level above training: an inner loop is repeated, changed and searched."""
