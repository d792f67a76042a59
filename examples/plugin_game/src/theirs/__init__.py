"""A public-goods game and an agent for paxenv."""
