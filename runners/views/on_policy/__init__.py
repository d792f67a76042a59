"""Training of one on-policy agent as `OnPolicyRunner` offers it."""
