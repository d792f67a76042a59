"""Stable-Baselines3 and plain Torch, as people use them."""

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from adapter_cases import GAMES, warnings_as_errors
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import SubprocVecEnv, VecMonitor, VecNormalize

import paxenv

pytestmark = pytest.mark.sb3
torch.set_num_threads(1)


@pytest.mark.parametrize("game", GAMES)
def test_every_game_passes_the_checker_with_warnings_as_errors(game: str) -> None:
    with warnings_as_errors():
        check_env(gymnasium.make(game).unwrapped)


def test_the_end_of_a_trial_is_told_in_sb3s_way() -> None:
    env = paxenv.sb3_vec_env("IPD", 2, opponent="AllC", num_inner_steps=3)
    assert env.reset().tolist() == [[0, 0, 0, 0, 1]] * 2
    for _ in range(2):
        *_, dones, infos = env.step(np.ones(2, int))
        assert not dones.any()
        assert infos == [{}, {}]
    obs, rewards, dones, infos = env.step(np.zeros(2, int))
    assert dones.all()
    assert rewards.dtype == np.float32
    assert rewards.flags.writeable
    assert obs.tolist() == [[0, 0, 0, 0, 1]] * 2
    for info in infos:
        assert info["terminal_observation"].tolist() == [1, 0, 0, 0, 0]
        assert info["TimeLimit.truncated"] is True
        assert (info["episode"]["r"], info["episode"]["l"]) == (-1.0, 3)
        assert info["episode_metrics/welfare"] == -8.0
    ended = paxenv.sb3_vec_env("IPD", 1, num_inner_steps=1, horizon="terminate")
    ended.reset()
    assert ended.step(np.zeros(1, int))[3][0]["TimeLimit.truncated"] is False


@pytest.mark.parametrize("options", [{}, {"observation": "index"}])
def test_a_model_goes_from_one_game_to_many_and_back(tmp_path, options) -> None:
    """Stable-Baselines3 compares spaces, and a dtype is a part of them."""
    one = gymnasium.make("pax/IPD-v0", num_inner_steps=4, **options)
    many = paxenv.sb3_vec_env("IPD-v0", 2, num_inner_steps=4, **options)
    assert many.action_space == one.action_space
    assert many.observation_space == one.observation_space
    assert many.reset().dtype == many.observation_space.dtype

    model = PPO("MlpPolicy", one, n_steps=4, batch_size=4, n_epochs=1, device="cpu")
    model.save(tmp_path / "model")
    trained = PPO.load(tmp_path / "model", env=many, device="cpu").learn(8)
    trained.save(tmp_path / "model")
    PPO.load(tmp_path / "model", env=one, device="cpu").learn(4)


def test_lanes_get_the_seeds_from_that_of_lane_0() -> None:
    """Seeding opens no trial by itself."""
    env = paxenv.sb3_vec_env("CoinGame", 3, seed=5)
    assert env.venv.state is None
    first = env.reset()
    other = paxenv.sb3_vec_env("CoinGame", 3)
    assert other.seed(5) == [5, 6, 7]
    assert other.venv.state is None
    np.testing.assert_array_equal(other.reset(), first)
    assert not np.array_equal(other.reset(), first)
    np.testing.assert_array_equal(
        paxenv.sb3_vec_env("CoinGame", 1, seed=6).reset()[0], first[1]
    )


def test_make_vec_env_needs_no_seed_and_takes_any() -> None:
    """It draws seeds of 32 bits, half of which have the highest bit set."""
    for seed in (None, 0, 2**32 - 1):
        envs = make_vec_env("pax/IPD-v0", n_envs=2, seed=seed)
        if seed is None:
            envs.seed(3_000_000_000)
        assert envs.reset().tolist() == [[0, 0, 0, 0, 1]] * 2
        envs.close()
    ours = paxenv.sb3_vec_env("IPD", 2)
    for _ in range(20):
        ours.seed(None)
        ours.reset()


def test_worker_processes_run_the_games() -> None:
    """Its default is to start them without a fork; the id brings the package along."""
    envs = make_vec_env(
        "paxenv:pax/IPD-v0",
        n_envs=2,
        seed=2**32 - 2,
        vec_env_cls=SubprocVecEnv,
        env_kwargs={"num_inner_steps": 2, "opponent": "AllC"},
    )
    assert envs.reset().tolist() == [[0, 0, 0, 0, 1]] * 2
    for _ in range(2):
        _, rewards, dones, infos = envs.step(np.ones(2, int))
    envs.close()
    assert rewards.tolist() == [0.0, 0.0]
    assert dones.all()
    assert [info["episode"]["l"] for info in infos] == [2, 2]


def test_monitors_and_normalisers_see_whole_episodes() -> None:
    venv = paxenv.sb3_vec_env("IPD", 2, opponent="AllC", max_episode_steps=3)
    envs = VecNormalize(VecMonitor(venv), norm_reward=True)
    envs.reset()
    for _ in range(3):
        *_, infos = envs.step(np.zeros(2, int))
    assert [(i["episode"]["r"], i["episode"]["l"]) for i in infos] == [(-3.0, 3)] * 2
    assert envs.get_original_reward().tolist() == [-1.0, -1.0]
    assert np.isfinite(infos[0]["terminal_observation"]).all()
    assert infos[0]["episode_metrics/welfare"] == -6.0


def test_another_autoreset_mode_is_refused() -> None:
    from paxenv.adapters.sb3_vec_env import SB3VecEnv

    venv = gymnasium.make_vec("pax/IPD-v0", num_envs=2)
    with pytest.raises(ValueError, match=r"SameStep.*NextStep"):
        SB3VecEnv(venv)


def test_it_serves_wrappers_pickle_and_pictures() -> None:
    env = VecNormalize(paxenv.sb3_vec_env("IPD", 2, render_mode="rgb_array"))
    env.reset()
    assert env.get_attr("num_envs") == [2, 2]
    assert env.env_method("render", indices=[0])[0][0].dtype == np.uint8
    assert env.get_images()[0].shape[-1] == 3
    twin = pickle.loads(pickle.dumps(env.venv))
    np.testing.assert_array_equal(
        twin.step(np.ones(2, int))[1], env.venv.step(np.ones(2, int))[1]
    )
    env.close()


def test_ppo_learns_to_cooperate_with_tit_for_tat() -> None:
    """Threshold: cooperation pays -1 a step, defection -1.9, alternation -1.5."""
    env = paxenv.sb3_vec_env("IPD", 32, opponent="TitForTat", num_inner_steps=20)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=64,
        batch_size=512,
        learning_rate=3e-3,
        gamma=0.97,
        seed=0,
        device="cpu",
    )
    model.learn(60_000)
    test_env = paxenv.sb3_vec_env(
        "IPD", 8, opponent="TitForTat", num_inner_steps=20, seed=1_000
    )
    mean, _ = evaluate_policy(model, test_env, n_eval_episodes=16)
    assert mean / 20 >= -1.1


def test_ppo_runs_on_one_registered_environment() -> None:
    model = PPO(
        "MlpPolicy", "pax/IPD-v0", n_steps=32, batch_size=32, seed=0, device="cpu"
    )
    model.learn(32)
    assert model.num_timesteps == 32


def test_observations_are_torch_tensors_without_a_warning() -> None:
    with warnings_as_errors():
        env = gymnasium.make("pax/CoinGame-v0")
        obs, _ = env.reset(seed=0)
        assert torch.as_tensor(obs).shape == obs.shape
        assert torch.from_numpy(obs).sum() == obs.sum()


def test_writing_to_torch_arrays_leaves_the_games_alone() -> None:
    """They share memory with JAX arrays, not with the state."""
    for mode in ("NextStep", "SameStep"):
        options: dict[str, Any] = {"num_envs": 3, "autoreset_mode": mode}
        envs = gymnasium.make_vec("pax/CoinGame-v0", arrays="torch", **options)
        twin = gymnasium.make_vec("pax/CoinGame-v0", **options)
        obs, _ = envs.reset(seed=0)
        twin.reset(seed=0)
        obs.fill_(9)
        for t in range(20):
            actions = torch.full((3,), t % 5)
            step, expected = envs.step(actions), twin.step(actions.numpy())
            for ours, theirs in zip(step[:4], expected[:4], strict=True):
                assert isinstance(ours, torch.Tensor)
                np.testing.assert_array_equal(ours.numpy(), theirs)
            for tensor in _tensors(step[4]):
                tensor.fill_(1)
            for tensor in step[:4]:
                tensor.fill_(1)


def test_plain_torch_reinforce_learns_on_torch_arrays() -> None:
    """Against AllC defection pays 0 and cooperation -1: from -0.5 to above -0.1."""
    torch.manual_seed(0)
    envs = gymnasium.make_vec(
        "pax/IPD-v0",
        num_envs=64,
        opponent="AllC",
        num_inner_steps=10,
        arrays="torch",
        autoreset_mode="SameStep",
    )
    policy = torch.nn.Linear(5, 2)
    optimiser = torch.optim.Adam(policy.parameters(), lr=0.1)
    obs, _ = envs.reset(seed=0)
    means = []
    for _ in range(40):
        log_probs, rewards = [], []
        for _ in range(10):
            dist = torch.distributions.Categorical(logits=policy(obs.float()))
            actions = dist.sample()
            obs, reward, *_ = envs.step(actions)
            log_probs.append(dist.log_prob(actions))
            rewards.append(reward)
        paid = torch.stack(rewards)
        returns = paid.flip(0).cumsum(0).flip(0)
        loss = -(
            torch.stack(log_probs) * (returns - returns.mean(1, keepdim=True))
        ).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        means.append(paid.mean().item())
    assert means[0] < -0.3
    assert np.mean(means[-5:]) > -0.1


def _tensors(info: dict) -> list:
    found = []
    for value in info.values():
        found += _tensors(value) if isinstance(value, dict) else [value]
    return found
