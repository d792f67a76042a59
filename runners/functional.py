"""Training by plain functions: a game, its numbers, a config, and results as values."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from paxenv_agents.dqn import DQN, DQNConfig
from paxenv_agents.ppo import PPO, PPOConfig
from paxenv_agents.sac import SAC, SACConfig
from runners.devices import get_num_devices, replicate
from runners.one_player import check_spaces, game_of, num_games, params_of
from runners.places import not_empty
from runners.results import (
    DQNTrainResult,
    PPOMetricsHistory,
    PPOTrainResult,
    PPOTrainState,
    SACTrainResult,
)
from runners.run_dir import RunDir
from runners.runner_config import RunnerConfig
from runners.sharding import make_mesh
from runners.trainer import COUNT, RETURN, Callback, Trainer

#: Fields of `PPOMetricsHistory`, and the engine's names.
HISTORY = {
    "total_loss": "train/player_1/loss/total",
    "actor_loss": "train/player_1/loss/policy",
    "critic_loss": "train/player_1/loss/value",
    "entropy": "train/player_1/entropy",
    "approx_kl": "train/player_1/approx_kl",
}

Place = RunDir | str | os.PathLike[str]


def train_ppo(
    env: Any,
    env_params: Any,
    *,
    ppo_config: PPOConfig,
    runner_config: RunnerConfig,
    obs_shape: Sequence[int] | None = None,
    n_actions: int | None = None,
    run_dir: Place | None = None,
) -> PPOTrainResult:
    """Trains PPO on one device and returns (final state, metrics of every update).

    Rollouts of `ppo_config.n_steps` steps of `num_envs` games and updates alternate in
    one compiled loop, which the host visits where something is due.

    Args:
        env: A native game of one player, with or without `AutoResetWrapper`.
        env_params: Its numbers; None: its own.
        ppo_config: The algorithm; its `num_envs` wins over the runner's 1.
        runner_config: How long and how often; `total_timesteps` is rounded down to
            whole updates.
        obs_shape: Checked against the game, if given.
        n_actions: Checked against the game, if given.
        run_dir: Where rows of JSON and the picture go; a `RunDir` or a folder.

    Returns:
        The pair (state, metrics): leaves of games are `[num_envs, ...]`, each metric
        is float32 `[num_updates]`. Its attribute `metrics_log` holds every logged row
        and every evaluation.

    Raises:
        ValueError: If something does not fit, the budget is less than one update, or
            the checkpoint to go on from belongs to another training.
        FileExistsError: If `checkpoint_dir` holds checkpoints, or `run_dir` rows, and
            the config says neither `resume` nor `overwrite`.
        NonFiniteError: If a loss or a parameter becomes NaN or infinite.
    """
    game = game_of(env)
    check_spaces(game, obs_shape, n_actions)
    return _ppo(game, env_params, ppo_config, runner_config, None, run_dir)


def train_ppo_multigpu(
    env: Any,
    env_params: Any,
    *,
    ppo_config: PPOConfig,
    runner_config: RunnerConfig,
    obs_shape: Sequence[int] | None = None,
    n_actions: int | None = None,
    run_dir: Place | None = None,
    stacked: bool = True,
) -> PPOTrainResult:
    """Trains PPO on several devices; arguments and errors as in `train_ppo`.

    `num_envs` is the number of games of each device. Games are spread over all
    devices; gradients are means over all games; with `fsdp_devices > 1` parameters of
    4 MiB and more are divided over that many devices.

    Args:
        env: As in `train_ppo`.
        env_params: As in `train_ppo`.
        ppo_config: As in `train_ppo`.
        runner_config: As in `train_ppo`.
        obs_shape: As in `train_ppo`.
        n_actions: As in `train_ppo`.
        run_dir: As in `train_ppo`.
        stacked: Whether results have a leading axis of devices. The learner's state
            and the metrics, which are means over all devices, are then repeated for
            each of them (`unreplicate` gives one copy), games are
            `[num_devices, num_envs, ...]`. False: the learner's state as it lies on
            the devices, games `[num_devices * num_envs, ...]`, metrics
            `[num_updates]`.
    """
    game = game_of(env)
    check_spaces(game, obs_shape, n_actions)
    num_devices = get_num_devices(runner_config.num_devices)
    mesh = make_mesh(runner_config.fsdp_devices, num_devices)
    result = _ppo(game, env_params, ppo_config, runner_config, mesh, run_dir)
    if not stacked:
        return result
    state, history = result

    def by_device(tree: Any) -> Any:
        # [devices * games, ...] -> [devices, games, ...]
        return jax.tree.map(
            lambda x: x.reshape(num_devices, x.shape[0] // num_devices, *x.shape[1:]),
            tree,
        )

    state = PPOTrainState(
        agent_state=replicate(state.agent_state, num_devices),
        env_obs=by_device(state.env_obs),
        env_state=by_device(state.env_state),
        rng=replicate(state.rng, num_devices),
    )
    return PPOTrainResult(state, replicate(history, num_devices), result.metrics_log)


def train_dqn(
    env: Any,
    env_params: Any,
    *,
    dqn_config: DQNConfig,
    runner_config: RunnerConfig,
    obs_shape: Sequence[int] | None = None,
    n_actions: int | None = None,
    callback: Callback | None = None,
    run_dir: Place | None = None,
    buffer: str = "device",
) -> DQNTrainResult:
    """Trains DQN on one device and returns its result.

    Args:
        env: A native game of one player, with or without `AutoResetWrapper`.
        env_params: Its numbers; None: its own.
        dqn_config: The algorithm; where its `buffer_size` or `warmup_steps` is None,
            the runner's counts.
        runner_config: How long and how often; `resume` goes on with replay, games and
            keys as they were.
        obs_shape: Checked against the game, if given.
        n_actions: Checked against the game, if given.
        callback: `(step, agent_state, metrics)`, called every `log_interval` steps.
        run_dir: Where rows of JSON and the picture go; a `RunDir` or a folder.
        buffer: `"device"` keeps replay on the device, in `agent_state.replay`, and
            compiles whole chunks of training; `"host"` keeps it in NumPy arrays, for
            more than the device has memory, and takes each gradient step in a call.

    Returns:
        The learner's state; the returns of all finished episodes in order; the logged
        rows.

    Raises:
        ValueError, FileExistsError, NonFiniteError: As `train_ppo`.
    """
    game = game_of(env)
    check_spaces(game, obs_shape, n_actions)
    trainer = _off_policy(
        DQN, game, env_params, dqn_config, runner_config, callback, run_dir, buffer
    )
    return DQNTrainResult(trainer.state, trainer.episode_returns, trainer.metrics_log)


def train_sac(
    env: Any,
    env_params: Any,
    *,
    sac_config: SACConfig,
    runner_config: RunnerConfig,
    obs_shape: Sequence[int] | None = None,
    action_dim: int | None = None,
    callback: Callback | None = None,
    run_dir: Place | None = None,
    buffer: str = "device",
) -> SACTrainResult:
    """Trains SAC on one device; arguments, results and errors as in `train_dqn`.

    Args:
        env: As in `train_dqn`.
        env_params: As in `train_dqn`.
        sac_config: The algorithm.
        runner_config: As in `train_dqn`.
        obs_shape: As in `train_dqn`.
        action_dim: Numbers of an action; checked against the game, if given.
        callback: As in `train_dqn`.
        run_dir: As in `train_dqn`.
        buffer: As in `train_dqn`.
    """
    game = game_of(env)
    check_spaces(game, obs_shape, action_dim=action_dim)
    trainer = _off_policy(
        SAC, game, env_params, sac_config, runner_config, callback, run_dir, buffer
    )
    return SACTrainResult(trainer.state, trainer.episode_returns, trainer.metrics_log)


def _ppo(
    game: Any,
    env_params: Any,
    config: PPOConfig,
    runner_config: RunnerConfig,
    mesh: Mesh | None,
    run_dir: Place | None,
) -> PPOTrainResult:
    _check_configs(PPO, config, runner_config)
    games = num_games(config.num_envs, runner_config)
    trainer = Trainer(
        PPO.from_env(game, dataclasses.replace(config, num_envs=games)),
        *(game, params_of(game, env_params), runner_config),
        games if mesh is None else games * mesh.size,
        mesh=mesh,
        run_dir=_run_dir(run_dir),
    )
    trainer.run(keep=(*HISTORY.values(), RETURN, COUNT))
    return PPOTrainResult(
        _ppo_state(trainer), _ppo_history(trainer), trainer.metrics_log
    )


def _off_policy(
    agent_class: Any,
    game: Any,
    env_params: Any,
    config: Any,
    runner_config: RunnerConfig,
    callback: Callback | None,
    run_dir: Place | None,
    buffer: str,
) -> Trainer:
    _check_configs(agent_class, config, runner_config)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function, got {callback!r}")
    own = {
        name: getattr(runner_config, name)
        for name in ("buffer_size", "warmup_steps")
        if getattr(config, name) is None
    }
    games = num_games(config.num_envs, runner_config)
    config = dataclasses.replace(config, num_envs=games, **own)
    agent = agent_class.from_env(game, config)
    trainer = Trainer(
        *(agent, game, params_of(game, env_params), runner_config, games),
        run_dir=_run_dir(run_dir),
        buffer=buffer,
        callback=callback,
    )
    trainer.run()
    return trainer


def _check_configs(agent_class: Any, config: Any, runner_config: Any) -> None:
    agent_class.check_config(config)
    if not isinstance(runner_config, RunnerConfig):
        raise ValueError(f"runner_config must be a RunnerConfig, got {runner_config!r}")


def _run_dir(place: Place | None) -> RunDir | None:
    if place is None or isinstance(place, RunDir):
        return place
    not_empty("run_dir", place)
    return RunDir(place)


def _ppo_state(trainer: Trainer) -> PPOTrainState:
    state = trainer.program.state
    stream = jax.tree.map(lambda x: x[0, 0], state.stream)
    return PPOTrainState(
        agent_state=trainer.state,
        env_obs=stream.obs[0],
        env_state=stream.env_state,
        rng=state.key[0],
    )


def _ppo_history(trainer: Trainer) -> PPOMetricsHistory:
    return PPOMetricsHistory(
        **{field: jnp.asarray(trainer.history[name]) for field, name in HISTORY.items()}
    )
