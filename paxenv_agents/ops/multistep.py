"""Returns over several steps, where episodes may end and steps may not be played."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Scalar = float | Float[Array, ""]


def generalised_advantages(
    r_t: Float[Array, " T *batch"],
    v_t: Float[Array, " T *batch"],
    v_last: Float[Array, "*batch"],
    gamma: Scalar,
    lambda_: Scalar,
    *,
    terminated: Bool[Array, " T *batch"],
    truncated: Bool[Array, " T *batch"],
    final_values: Float[Array, " T *batch"],
    valid: Bool[Array, " T *batch"],
) -> Float[Array, " T *batch"]:
    """Returns the advantage of each step, 0 where a step was not valid.

    A_t = r_t + gamma * V'_t - V_t + gamma * lambda * A_{t+1}. V'_t is 0 where the step
    terminated, `final_values` where it was truncated, and V of the next valid step
    (or `v_last`) elsewhere; the last term is 0 at both ends. Steps that are not valid
    are skipped as if they were not there. With `lambda_` 1, `A + V` is the discounted
    reward to go.

    Args:
        r_t: Rewards.
        v_t: Value of what was observed before each step.
        v_last: Value of what was observed after the last step.
        gamma: Discount in [0, 1].
        lambda_: Decay of the trace in [0, 1].
        terminated: Ends after which the value is 0.
        truncated: Ends by time.
        final_values: Value of the observation to which a truncated step led.
        valid: Whether the step was played.

    Source: Schulman et al., High-Dimensional Continuous Control Using Generalized
    Advantage Estimation (2016), eq. 16; time limits: Pardo et al., Time Limits in
    Reinforcement Learning (2018), section 3.
    """

    def backward(carry, step):
        advantage, v_next = carry
        reward, value, terminated, truncated, final_value, valid = step
        bootstrap = jnp.where(truncated, final_value, v_next)
        bootstrap = jnp.where(terminated, 0.0, bootstrap)
        trace = jnp.where(terminated | truncated, 0.0, advantage)
        new = reward + gamma * bootstrap - value + gamma * lambda_ * trace
        carry = jnp.where(valid, new, advantage), jnp.where(valid, value, v_next)
        return carry, jnp.where(valid, new, 0.0)

    steps = (r_t, v_t, terminated, truncated, final_values, valid)
    opening = (jnp.zeros_like(v_last), v_last)
    _, advantages = jax.lax.scan(backward, opening, steps, reverse=True)
    return advantages
