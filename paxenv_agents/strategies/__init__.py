"""Fixed strategies: agents with an empty training state, one idea a module."""
