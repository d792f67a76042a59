"""Policies and values: networks, and the distributions that they choose."""

from paxenv_agents.networks.feed_forward import MLPActor, MLPCritic

__all__ = ["MLPActor", "MLPCritic"]
