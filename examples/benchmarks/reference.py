"""Plainly written games: the yardstick for our rates.

The way one first writes them in JAX: a state of coordinates, a split of the key for
every draw, one-hot observations by scatter, and a whole reset computed at every step.
"""

import jax
import jax.numpy as jnp

MOVES = jnp.array([[0, 1], [0, -1], [1, 0], [-1, 0], [0, 0]])
COIN_STEPS, MATRIX_STEPS = 16, 100


def coin_reset(key):
    """Returns (observations, state): four entities anywhere on a 3x3 torus."""
    places = jax.random.randint(key, (4, 2), 0, 3)
    return coin_observe(places), (places, jnp.zeros((), jnp.int32))


def coin_observe(places):
    """Returns both players' egocentric planes [self, other, own coin, other coin]."""

    def view(order):
        planes = jnp.zeros((3, 3, 4), jnp.int8)
        centred = (places[jnp.array(order)] - places[order[0]] + 1) % 3
        return planes.at[centred[:, 0], centred[:, 1], jnp.arange(4)].set(1).reshape(36)

    return view((0, 1, 2, 3)), view((1, 0, 3, 2))


def coin_step(key, state, actions):
    """Plays one step of the two-coin game of the published systems; resets itself."""
    places, t = state
    key, respawn_key, reset_key = jax.random.split(key, 3)
    players = (places[:2] + MOVES[actions]) % 3
    coins = places[2:]
    on = jnp.all(players[:, None] == coins[None], -1)  # [player, coin]
    own, other = jnp.diagonal(on), jnp.diagonal(on[:, ::-1])
    rewards = own * 1.0 + other * 1.0 - 2.0 * other[::-1]
    taken = on.any(0)
    fresh = jax.random.randint(respawn_key, (2, 2), 0, 3)
    places = jnp.concatenate([players, jnp.where(taken[:, None], fresh, coins)])
    over = t + 1 == COIN_STEPS
    _, (opening, _) = coin_reset(reset_key)
    places = jnp.where(over, opening, places)
    return coin_observe(places), (places, jnp.where(over, 0, t + 1)), rewards, over


def matrix_reset(key):
    """Returns (observations, state) of the iterated prisoner's dilemma."""
    start = jax.nn.one_hot(4, 5, dtype=jnp.int8)
    return (start, start), jnp.zeros((), jnp.int32)


def matrix_step(key, state, actions):
    """Plays one step of the iterated prisoner's dilemma; resets itself."""
    payoff = jnp.array([[-1.0, -1.0], [-3.0, 0.0], [0.0, -3.0], [-2.0, -2.0]])
    own, other = actions[0] * 2 + actions[1], actions[1] * 2 + actions[0]
    over = state + 1 == MATRIX_STEPS
    seen = jnp.where(over, 4, jnp.stack([own, other]))
    obs = jax.nn.one_hot(seen, 5, dtype=jnp.int8)
    return (obs[0], obs[1]), jnp.where(over, 0, state + 1), payoff[own], over


def env(game, n):
    """Returns (init, step, number of actions) of `n` games, as `contestants.env`."""
    reset, step, num_actions = {
        "coin": (coin_reset, coin_step, 5),
        "ipd": (matrix_reset, matrix_step, 2),
    }[game]

    def init(key):
        return jax.vmap(reset)(jax.random.split(key, n))[1]

    def play(key, state, actions):
        obs, state, rewards, _ = jax.vmap(step, in_axes=(0, 0, 1))(
            jax.random.split(key, n), state, actions
        )
        return state, obs, rewards[:, 0], rewards[:, 1]

    return init, play, num_actions
