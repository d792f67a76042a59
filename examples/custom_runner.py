"""A hand-written runner: a scan of steps, then an update, again and again.

PPO plays the iterated prisoner's dilemma against TitForTat and learns to cooperate.
The same experiment is `paxrun rl --env IPD --agent1 PPO --agent2 TitForTat`; write a
loop of your own when you need something that no experiment of `runners` can say.

    python examples/custom_runner.py
"""

import argparse
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import paxenv
import paxenv_agents
from paxenv_agents import MemoryState, Sample, TrainingState


class Carry(NamedTuple):
    """What a rollout takes from step to step; all but the states is `[games, ...]`.

    Attributes:
        keys: One key for each game.
        obs: What each player sees, a tuple in player order.
        states: Both players' training states; acting leaves them as they are.
        memories: Both players' memories.
        env_state: The games' states.
    """

    keys: jax.Array
    obs: tuple[Any, Any]
    states: tuple[TrainingState, TrainingState]
    memories: tuple[MemoryState, MemoryState]
    env_state: Any


class Runner:
    """Trains two independent agents on a two-player game.

    Attributes:
        env: The game.
        params: Its numbers.
        agents: One agent for each player.
        num_envs: Games played side by side.
    """

    def __init__(self, env: Any, params: Any, agents: tuple, num_envs: int) -> None:
        self.env, self.params = env, params
        self.agents, self.num_envs = agents, num_envs

    def run(self, key: jax.Array, num_updates: int) -> tuple[tuple, jax.Array]:
        """Returns (training states, rewards a step `[num_updates, 2]`)."""
        init_key, play_key = jax.random.split(key)
        states, memories = zip(
            *(
                agent.batch_init(
                    jax.random.fold_in(init_key, p), agent.init_hidden(self.num_envs)
                )
                for p, agent in enumerate(self.agents)
            ),
            strict=True,
        )

        def update(carry, key):
            states, memories = carry
            states, memories, rewards = self.iterate(key, states, memories)
            return (states, memories), rewards

        keys = jax.random.split(play_key, num_updates)
        (states, _), rewards = jax.lax.scan(update, (states, memories), keys)
        return states, rewards

    def iterate(self, key: jax.Array, states: tuple, memories: tuple) -> tuple:
        """Plays one episode in all games, then lets both agents learn from it."""
        reset_key, play_key = jax.random.split(key)
        obs, env_state = jax.vmap(self.env.reset, (0, None))(
            jax.random.split(reset_key, self.num_envs), self.params
        )
        memories = tuple(
            agent.batch_reset(memory)
            for agent, memory in zip(self.agents, memories, strict=True)
        )
        carry = Carry(
            jax.random.split(play_key, self.num_envs), obs, states, memories, env_state
        )
        carry, samples = jax.lax.scan(self.step, carry, None, self.env.num_inner_steps)
        learnt = [
            agent.update(sample, obs, state, memory)
            for agent, sample, obs, state, memory in zip(
                self.agents, samples, carry.obs, states, carry.memories, strict=True
            )
        ]
        states, memories, _ = zip(*learnt, strict=True)
        rewards = jnp.stack([sample.rewards.mean() for sample in samples])
        return states, memories, rewards

    def step(self, carry: Carry, unused: None) -> tuple[Carry, tuple[Sample, Sample]]:
        """Plays one step in all games: the body of the scan."""
        del unused
        keys = jax.vmap(functools.partial(jax.random.split, num=2))(carry.keys)
        acted = [
            agent.batch_policy(state, obs, memory)
            for agent, state, obs, memory in zip(
                self.agents, carry.states, carry.obs, carry.memories, strict=True
            )
        ]
        actions, _, memories = zip(*acted, strict=True)
        obs, env_state, rewards, _, info = jax.vmap(
            self.env.step, in_axes=(0, 0, 0, None)
        )(keys[:, 1], carry.env_state, actions, self.params)
        samples = tuple(
            Sample(
                observations=carry.obs[p],
                actions=actions[p],
                rewards=rewards[p],
                behavior_log_probs=memories[p].extras.get("log_probs"),
                behavior_values=memories[p].extras.get("values"),
                dones=info["terminated"],
                hiddens=carry.memories[p].hidden,
            )
            for p in range(2)
        )
        carry = Carry(keys[:, 0], obs, carry.states, memories, env_state)
        return carry, samples


def main() -> None:
    """Trains, then prints the rewards along the way and the learnt policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    num_updates = 3 if parser.parse_args().quick else 200

    env, params = paxenv.make("IPD", num_inner_steps=50)
    agents = (
        paxenv_agents.make_agent("PPO", env, player=0),
        paxenv_agents.make_agent("TitForTat", env, player=1),
    )
    runner = Runner(env, params, agents, num_envs=32)
    _, rewards = jax.jit(runner.run, static_argnums=1)(jax.random.key(0), num_updates)
    print("update   PPO  TitForTat   (reward a step; -1 is mutual cooperation)")
    for i in sorted({0, num_updates // 2, num_updates - 1}):
        print(f"{i + 1:6d} {rewards[i, 0]:5.2f} {rewards[i, 1]:10.2f}")


if __name__ == "__main__":
    main()
