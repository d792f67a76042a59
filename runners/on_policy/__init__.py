"""The loop around one learner that collects and updates in turn: `OnPolicyRunner`."""
