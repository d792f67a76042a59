"""One seed, one lane, one trajectory: in every adapter, bit for bit."""

from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from adapter_cases import assert_same, at

import paxenv

SEED = 11
#: Trainers draw 32 bits, libraries that split seeds 64 and more.
LARGE_SEEDS = (3_000_000_000, 2**64 + 3)
STEPS = 40
#: A game with chance in its rules, and one with random ends inside trials.
CASES = {
    "CoinGame-v0": {"num_inner_steps": 4, "num_outer_steps": 2},
    "IPD-v0": {"num_inner_steps": 6, "num_outer_steps": 2, "random_ends": True},
}


def actions_of(space: gymnasium.Space, num_lanes: int = 1) -> np.ndarray:
    """Returns actions of valid steps, `[num_lanes, STEPS]`."""
    draws = np.random.default_rng(0).integers(0, space.n, (num_lanes, STEPS))  # type: ignore[attr-defined]
    return draws.astype(np.int32)


@pytest.mark.parametrize("seed", [SEED, *LARGE_SEEDS])
@pytest.mark.parametrize("game", CASES)
def test_the_single_environment_equals_the_replay(game: str, seed: int) -> None:
    env = gymnasium.make(f"pax/{game}", opponent="Random", **CASES[game]).unwrapped
    actions = actions_of(env.action_space)[0]
    expected = paxenv.replay(*env.native, seed, 0, actions)
    obs, _ = env.reset(seed=seed)
    for t in range(STEPS):
        assert_same(obs, at(expected.obs_before, t))
        obs, reward, terminated, truncated, info = env.step(actions[t])
        assert_same(obs, at(expected.obs, t))
        assert np.float32(reward) == expected.rewards[t]
        done = bool(expected.done[t])
        assert terminated is (done and bool(expected.info["terminated"][t]))
        assert truncated is (done and bool(expected.info["truncated"][t]))
        assert info["opponent_action"] == expected.info["opponent_action"][t]
        if done:
            obs, _ = env.reset()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("game", CASES)
def test_every_lane_of_the_vector_environment_equals_the_replay(
    game: str, mode: str
) -> None:
    envs = gymnasium.make_vec(
        f"pax/{game}", num_envs=3, opponent="Random", autoreset_mode=mode, **CASES[game]
    )
    actions = actions_of(envs.single_action_space, 3)
    t = np.zeros(3, int)
    lanes = np.arange(3)
    seen: list[list[Any]] = [[], [], []]
    envs.reset(seed=SEED)
    while (t < STEPS).any():
        obs, rewards, terminated, truncated, info = envs.step(
            actions[lanes, np.minimum(t, STEPS - 1)]
        )
        for i in lanes:
            final = info.get("_final_obs", np.zeros(3, bool))[i]
            if final:
                last = info["final_info"]
                step = (info["final_obs"][i], last["opponent_action"][i])
            elif info["valid"][i]:
                step = (obs[i], info["opponent_action"][i])
            else:
                continue
            seen[i].append((*step, rewards[i], terminated[i] or truncated[i]))
            t[i] += 1
    for i in lanes:
        expected = paxenv.replay(*envs.native, SEED, int(i), actions[i])
        wanted = (
            expected.obs,
            expected.info["opponent_action"],
            expected.rewards,
            expected.done,
        )
        for step in range(STEPS):
            assert_same(seen[i][step], at(wanted, step))


@pytest.mark.slow
@pytest.mark.parametrize("game", CASES)
def test_the_parallel_environment_equals_the_replay(game: str) -> None:
    env = paxenv.parallel_env(game, **CASES[game])
    actions = tuple(
        actions_of(env.action_space(a), 2)[p] for p, a in enumerate(env.possible_agents)
    )
    expected = paxenv.replay(*env.native, SEED, 0, actions)
    obs, _ = env.reset(seed=SEED)
    for t in range(STEPS):
        assert_same(tuple(obs.values()), at(expected.obs_before, t))
        joint = {a: actions[p][t] for p, a in enumerate(env.possible_agents)}
        obs, rewards, terminations, truncations, _ = env.step(joint)
        assert_same(tuple(obs.values()), at(expected.obs, t))
        paid = tuple(np.float32(r) for r in rewards.values())
        assert paid == tuple(r[t] for r in jax.device_get(expected.rewards))
        done = bool(expected.done[t])
        assert set(terminations.values()) == {
            done and bool(expected.info["terminated"][t])
        }
        assert set(truncations.values()) == {
            done and bool(expected.info["truncated"][t])
        }
        if done:
            obs, _ = env.reset()


@pytest.mark.slow
def test_seating_opponents_changes_nothing_in_the_game() -> None:
    """The joint replay of the actions that were played is the seated game."""
    env = gymnasium.make("pax/CoinGame-v0", opponent="Random", **CASES["CoinGame-v0"])
    seated, params = env.unwrapped.native  # type: ignore[attr-defined]
    actions = actions_of(env.action_space)[0]
    single = paxenv.replay(seated, params, SEED, 0, actions)
    joint = paxenv.replay(
        seated.env, params.game, SEED, 0, (actions, single.info["opponent_action"])
    )
    assert_same(single.obs, joint.obs[0])
    assert_same(single.rewards, joint.rewards[0])
    assert_same(single.done, joint.done)


@pytest.mark.parametrize("seed", LARGE_SEEDS)
@pytest.mark.parametrize("kind", [int, np.uint64])
def test_every_adapter_takes_a_seed_of_any_size(seed: int, kind: type) -> None:
    """The first trial of all is that of the lane of the seed, and of the next one."""
    numbers = [seed + i if kind is int else kind((seed + i) % 2**64) for i in (0, 1)]
    single = gymnasium.make("pax/CoinGame-v0").unwrapped
    first, second = (single.reset(seed=number)[0] for number in numbers)
    assert not np.array_equal(first, second)
    parallel = paxenv.parallel_env("CoinGame-v0")
    assert_same(parallel.reset(seed=numbers[1])[0]["player_0"], second)
    assert parallel.np_random_seed == numbers[1]
    many = gymnasium.make_vec("pax/CoinGame-v0", num_envs=2)
    assert_same(many.reset(seed=numbers[0])[0], np.stack([first, second]))
    assert many.np_random_seed == numbers[0]
