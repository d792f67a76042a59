"""A policy at some observations: a distribution, and a network's outputs there."""

import jax
from flax import struct

from paxenv_agents.distributions import Distribution
from paxenv_agents.ops.lookup import look_up


class Law(struct.PyTreeNode):
    """The law of actions at observations `[...]`.

    Attributes:
        distribution: What the outputs mean.
        outputs: `[..., outputs]`.
    """

    distribution: Distribution = struct.field(pytree_node=False)
    outputs: jax.Array

    def sample(self, key: jax.Array) -> jax.Array:
        """Returns an action, drawn from `fold_in(key, 0)`. Not batched."""
        return self.distribution.sample(key, self.outputs)

    def mode(self) -> jax.Array:
        """Returns the action of a deterministic policy. Not batched."""
        return self.distribution.mode(self.outputs)

    def log_prob(self, actions: jax.Array) -> jax.Array:
        """Returns the log-likelihood `[...]` of actions `[..., *space]`."""
        return self.distribution.log_prob(self.outputs, actions)

    def entropy(self) -> jax.Array:
        """Returns the entropy `[...]` in nats."""
        return self.distribution.entropy(self.outputs)


class TabulatedLaw(struct.PyTreeNode):
    """The same where observations are a few states: numbers are made once a state.

    Attributes:
        distribution: What the outputs mean.
        outputs: Those of every state, `[S, outputs]`.
        states: Which states were observed, one-hot float `[..., S]`.
    """

    distribution: Distribution = struct.field(pytree_node=False)
    outputs: jax.Array
    states: jax.Array

    def sample(self, key: jax.Array) -> jax.Array:
        """Returns an action, drawn from `fold_in(key, 0)`. Not batched."""
        return self.distribution.sample_at(key, self.outputs, self.states)

    def mode(self) -> jax.Array:
        """Returns the action of a deterministic policy. Not batched."""
        return self.distribution.mode(look_up(self.states, self.outputs))

    def log_prob(self, actions: jax.Array) -> jax.Array:
        """Returns the log-likelihood `[...]` of actions `[..., *space]`."""
        return self.distribution.log_prob_at(self.outputs, self.states, actions)

    def entropy(self) -> jax.Array:
        """Returns the entropy `[...]` in nats."""
        return look_up(self.states, self.distribution.entropy(self.outputs))
