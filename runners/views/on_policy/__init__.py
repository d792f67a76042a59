"""Training of one on-policy agent by `OnPolicyRunner`."""

from runners.views.on_policy.callbacks import EVENTS
from runners.views.on_policy.runner import OnPolicyRunner
from runners.views.on_policy.setup import register_algorithm

__all__ = ["EVENTS", "OnPolicyRunner", "register_algorithm"]
