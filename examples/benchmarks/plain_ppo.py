"""PPO as one first writes it in JAX: one scan, samples permuted, no masks, no flags.

Two independent learners on an iterated matrix game; what `ppo_rates.py` compares with.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

HIDDEN, EPOCHS, MINIBATCHES = 16, 2, 4
GAMMA, LAMBDA, CLIP = 0.96, 0.95, 0.2
PAYOFF = jnp.array([[-1.0, -3.0, 0.0, -2.0], [-1.0, 0.0, -3.0, -2.0]])


class Network(nn.Module):
    """A torso with two heads."""

    @nn.compact
    def __call__(self, x):
        """Returns (logits of two actions, value)."""
        for _ in range(2):
            x = nn.tanh(nn.Dense(HIDDEN)(x))
        return nn.Dense(2)(x), nn.Dense(1)(x)[..., 0]


NETWORK = Network()
OPTIMISER = optax.chain(
    optax.clip_by_global_norm(0.5), optax.scale_by_adam(eps=1e-5), optax.scale(-1e-2)
)


def ppo(num_games, num_steps):
    """Returns (go, joint steps of one go); `go()` makes one update of both learners."""

    def init(key):
        params = NETWORK.init(key, jnp.zeros(5))
        return params, OPTIMISER.init(params)

    learners = jax.vmap(init)(jax.random.split(jax.random.key(0), 2))

    def rollout(params, key):
        start = jnp.broadcast_to(jax.nn.one_hot(4, 5), (2, num_games, 5))

        def step(obs, key):
            logits, values = jax.vmap(NETWORK.apply)(params, obs)
            actions = jax.random.categorical(key, logits)
            log_probs = jax.nn.log_softmax(logits)
            taken = jnp.take_along_axis(log_probs, actions[..., None], -1)[..., 0]
            mine, theirs = actions, actions[::-1]
            rewards = PAYOFF[jnp.array([0, 1])[:, None], 2 * actions[0] + actions[1]]
            return jax.nn.one_hot(2 * mine + theirs, 5), (
                obs,
                actions,
                rewards,
                taken,
                values,
            )

        return jax.lax.scan(step, start, jax.random.split(key, num_steps))[1]

    def advantages(rewards, values):
        def back(carry, x):
            advantage, after = carry
            reward, value = x
            advantage = reward + GAMMA * after - value + GAMMA * LAMBDA * advantage
            return (advantage, value), advantage

        zeros = jnp.zeros(num_games)
        return jax.lax.scan(back, (zeros, zeros), (rewards, values), reverse=True)[1]

    def loss(params, batch):
        obs, actions, old, old_values, advantage, target = batch
        logits, values = NETWORK.apply(params, obs)
        log_probs = jax.nn.log_softmax(logits)
        taken = jnp.take_along_axis(log_probs, actions[:, None], -1)[:, 0]
        ratio = jnp.exp(taken - old)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        held = jnp.clip(ratio, 1 - CLIP, 1 + CLIP)
        gain = jnp.minimum(ratio * advantage, held * advantage).mean()
        near = old_values + jnp.clip(values - old_values, -CLIP, CLIP)
        error = jnp.maximum((values - target) ** 2, (near - target) ** 2).mean()
        entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
        return -gain + 0.5 * error - 0.02 * entropy

    def update(learner, trajectory, key):
        obs, actions, rewards, old, values = trajectory
        advantage = advantages(rewards, values)
        size = num_steps * num_games
        batch = jax.tree.map(
            lambda x: x.reshape(size, *x.shape[2:]),
            (obs, actions, old, values, advantage, advantage + values),
        )

        def epoch(learner, key):
            order = jax.random.permutation(key, size).reshape(MINIBATCHES, -1)

            def minibatch(learner, index):
                params, opt_state = learner
                part = jax.tree.map(lambda x: x[index], batch)
                grads = jax.grad(loss)(params, part)
                updates, opt_state = OPTIMISER.update(grads, opt_state)
                return (optax.apply_updates(params, updates), opt_state), None

            return jax.lax.scan(minibatch, learner, order)[0], None

        return jax.lax.scan(epoch, learner, jax.random.split(key, EPOCHS))[0]

    @jax.jit
    def iteration(learners, key):
        play, learn = jax.random.split(key)
        steps = rollout(learners[0], play)
        trajectory = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), steps)
        return jax.vmap(update)(learners, trajectory, jax.random.split(learn, 2))

    box = [learners, jax.random.key(1)]

    def go():
        box[1], key = jax.random.split(box[1])
        box[0] = jax.block_until_ready(iteration(box[0], key))

    go()
    return go, num_games * num_steps
