"""Stored experiments held against the outcomes that they state."""
