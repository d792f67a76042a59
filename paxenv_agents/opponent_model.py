"""A co-player's policy, fitted from what it was seen to do."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from paxenv_agents.actor_critic import ActorCritic
from paxenv_agents.ops import policy_gradient
from paxenv_agents.types import Sample, TrainingState


def fitted(
    model: ActorCritic,
    key: jax.Array,
    seen: Sample,
    num_steps: int,
    learning_rate: float,
) -> TrainingState:
    """Returns the model under which the actions seen are the likeliest.

    Minimises the mean of -log pi(action | observation) over the valid steps by Adam,
    from fresh parameters. States that were never seen stay as they were at first,
    which is nearly uniform. The value estimates are not fitted.

    Args:
        model: An agent for the co-player's seat, for its network.
        key: Of the fresh parameters; consumed.
        seen: The co-player's observations and actions, `[T, E, ...]`.
        num_steps: Steps of Adam over the whole sample.
        learning_rate: Its step size.
    """
    state = model.init_state(key)
    weights = jnp.ones(seen.rewards.shape, jnp.float32)
    if seen.valid is not None:
        weights = seen.valid.astype(jnp.float32)
    optimiser = optax.adam(learning_rate)

    def loss(params: Any) -> jax.Array:
        log_probs, _, _ = model.evaluate(state.replace(params=params), seen)
        return -policy_gradient.weighted_mean(log_probs, weights)

    def step(carry: Any, nothing: None) -> tuple[Any, None]:
        del nothing
        params, opt_state = carry
        updates, opt_state = optimiser.update(jax.grad(loss)(params), opt_state)
        return (optax.apply_updates(params, updates), opt_state), None

    opening = (state.params, optimiser.init(state.params))
    (params, _), _ = jax.lax.scan(step, opening, None, num_steps)
    return state.replace(params=params)
