"""Types of arrays in signatures, as tests check them."""

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

import paxenv
from paxenv import payoffs, spaces
from paxenv.envs.infinite_matrix_game import memory_one_values


def test_an_array_of_another_shape_or_dtype_is_found():
    state = jnp.int32(3)
    assert spaces.encode_state(state, 4, "index") == 3
    for wrong in (state[None], state.astype(jnp.float32)):
        with pytest.raises(TypeCheckError, match="parameter 'state'"):
            spaces.encode_state(wrong, 4, "index")


def test_params_hold_whatever_jax_puts_into_them():
    env, params = paxenv.make("IPD")
    assert env.params_axes(payoff_matrix=0).payoff_matrix == 0
    sizes = jax.tree.map(lambda x: x.size, params)
    assert sizes.payoff_matrix == 8


def test_a_whole_number_is_a_float():
    ones, zeros = jnp.ones(4), jnp.zeros(4)
    payoff = payoffs.preset("IPD").payoff
    values = memory_one_values(ones, 1, zeros, 0, payoff, 0.5)
    assert values.tolist() == [-3.0, 0.0]
