"""Agents that learn from samples."""
