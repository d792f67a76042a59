"""Training by plain functions of a game, its numbers and a config."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import PyTree

from paxenv_agents.learners.dqn import DQN, DQNConfig
from paxenv_agents.learners.ppo import PPO, PPOConfig
from paxenv_agents.learners.sac import SAC, SACConfig
from paxenv_agents.types import TrainingState
from runners.engine.devices import get_num_devices, replicate
from runners.engine.placement import make_mesh
from runners.session.runner_config import (
    OnePlayerGame,
    RunnerConfig,
    check_spaces,
    game_of,
    num_games,
    params_of,
)
from runners.storage.places import not_empty
from runners.storage.run_dir import RunDir
from runners.views.trainer import COUNT, RETURN, Callback, Trainer


class PPOTrainState(NamedTuple):
    """The state of a PPO training, from which it can be resumed.

    Attributes:
        agent_state: The learner's training state.
        env_obs: The games' observations, `[num_envs, ...]`.
        env_state: The games' states, leaves `[num_envs, ...]`.
        rng: The key of the outer loop.
    """

    agent_state: TrainingState
    env_obs: PyTree
    env_state: PyTree
    rng: jax.Array


class PPOMetricsHistory(NamedTuple):
    """Means over each update, float32 `[num_updates]`.

    From several devices `[num_devices, num_updates]`, one row for each device.

    Attributes:
        total_loss: The loss that is minimised.
        actor_loss: The policy's part.
        critic_loss: The value's part, before its weight.
        entropy: The entropy of the policy, nats.
        approx_kl: Estimated divergence of the new policy from the one that played.
    """

    total_loss: jax.Array
    actor_loss: jax.Array
    critic_loss: jax.Array
    entropy: jax.Array
    approx_kl: jax.Array


class _StateAndHistory(NamedTuple):
    state: PPOTrainState
    history: PPOMetricsHistory


class PPOTrainResult(_StateAndHistory):
    """The result of a PPO training: the pair (state, history), and its log.

    Attributes:
        state: The state of the training.
        history: Means over each update.
        metrics_log: One dict for each logged row and each evaluation, with its `step`.
    """

    metrics_log: list[dict[str, Any]]

    def __new__(
        cls,
        state: PPOTrainState,
        history: PPOMetricsHistory,
        metrics_log: Sequence[dict[str, Any]] = (),
    ) -> Self:
        """Returns the pair with its log, which takes no part in comparisons."""
        pair = super().__new__(cls, state, history)
        pair.metrics_log = list(metrics_log)
        return pair


class DQNTrainResult(NamedTuple):
    """The result of a DQN training.

    Attributes:
        agent_state: The learner's training state.
        episode_returns: The return of every finished episode, in order of iteration,
            step and number of the game.
        metrics_log: One dict for each logged row and each evaluation, with its `step`.
    """

    agent_state: TrainingState
    episode_returns: list[float]
    metrics_log: list[dict[str, Any]]


class SACTrainResult(NamedTuple):
    """The result of a SAC training; fields as in `DQNTrainResult`."""

    agent_state: TrainingState
    episode_returns: list[float]
    metrics_log: list[dict[str, Any]]


#: Fields of `PPOMetricsHistory`, and the engine's names.
HISTORY = {
    "total_loss": "train/player_1/loss/total",
    "actor_loss": "train/player_1/loss/policy",
    "critic_loss": "train/player_1/loss/value",
    "entropy": "train/player_1/entropy",
    "approx_kl": "train/player_1/approx_kl",
}
#: Metrics that are kept of every update of PPO: its history and those of the picture.
PPO_METRICS = (*HISTORY.values(), RETURN, COUNT)

Place = RunDir | str | os.PathLike[str]


def train_ppo(
    env: OnePlayerGame,
    env_params: PyTree,
    *,
    ppo_config: PPOConfig,
    runner_config: RunnerConfig,
    obs_shape: Sequence[int] | None = None,
    n_actions: int | None = None,
    run_dir: Place | None = None,
) -> PPOTrainResult:
    """Trains PPO on one device and returns (final state, metrics of every update).

    Rollouts of `ppo_config.n_steps` steps of `num_envs` games and updates alternate in
    one compiled loop, which the host interrupts for logs, evaluations and checkpoints.

    Args:
        env: A native game of one player, with or without `AutoResetWrapper`.
        env_params: Its numbers; None: its own.
        ppo_config: The algorithm; its `num_envs` wins over the runner's 1.
        runner_config: Lengths and intervals; `total_timesteps` is rounded down to
            whole updates.
        obs_shape: Checked against the game, if given.
        n_actions: Checked against the game, if given.
        run_dir: The place of JSON rows and the picture; a `RunDir` or a folder.

    Returns:
        The pair (state, metrics): leaves of games are `[num_envs, ...]`, each metric
        is float32 `[num_updates]`. Its attribute `metrics_log` holds every logged row
        and every evaluation.

    Raises:
        ValueError: If arguments do not fit together, the budget is less than one
            update, or the checkpoint to resume from belongs to another training.
        FileExistsError: If `checkpoint_dir` holds checkpoints, or `run_dir` rows, and
            the config sets neither `resume` nor `overwrite`.
        NonFiniteError: If a loss or a parameter becomes NaN or infinite.
    """
    trainer = _trained(
        *(PPO, env, env_params, ppo_config, runner_config, run_dir),
        {"obs_shape": obs_shape, "n_actions": n_actions},
        keep=PPO_METRICS,
    )
    return _ppo_result(trainer)


def train_ppo_multigpu(
    env: OnePlayerGame,
    env_params: PyTree,
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
            `[num_devices, num_envs, ...]`. False: the learner's state in its own
            sharding, games `[num_devices * num_envs, ...]`, metrics `[num_updates]`.
    """
    num_devices = get_num_devices(runner_config.num_devices)
    mesh = make_mesh(runner_config.fsdp_devices, num_devices)
    trainer = _trained(
        *(PPO, env, env_params, ppo_config, runner_config, run_dir),
        {"obs_shape": obs_shape, "n_actions": n_actions},
        keep=PPO_METRICS,
        mesh=mesh,
    )
    result = _ppo_result(trainer)
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
    env: OnePlayerGame,
    env_params: PyTree,
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
            the runner's is used.
        runner_config: Lengths and intervals; `resume` restores replay, games and keys.
        obs_shape: Checked against the game, if given.
        n_actions: Checked against the game, if given.
        callback: `(step, agent_state, metrics)`, called every `log_interval` steps.
        run_dir: The place of JSON rows and the picture; a `RunDir` or a folder.
        buffer: `"device"` keeps replay on the device, in `agent_state.replay`, and
            compiles whole chunks of training; `"host"` keeps it in NumPy arrays, which
            may exceed the device's memory, and takes each gradient step in a call.

    Returns:
        The learner's state; the returns of all finished episodes in order; the logged
        rows.

    Raises:
        ValueError, FileExistsError, NonFiniteError: As in `train_ppo`.
    """
    trainer = _trained(
        *(DQN, env, env_params, dqn_config, runner_config, run_dir),
        {"obs_shape": obs_shape, "n_actions": n_actions},
        callback=callback,
        buffer=buffer,
    )
    return DQNTrainResult(trainer.state, trainer.episode_returns, trainer.metrics_log)


def train_sac(
    env: OnePlayerGame,
    env_params: PyTree,
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
    trainer = _trained(
        *(SAC, env, env_params, sac_config, runner_config, run_dir),
        {"obs_shape": obs_shape, "action_dim": action_dim},
        callback=callback,
        buffer=buffer,
    )
    return SACTrainResult(trainer.state, trainer.episode_returns, trainer.metrics_log)


def _trained(
    agent_class: Any,
    env: OnePlayerGame,
    env_params: PyTree,
    config: Any,
    runner_config: RunnerConfig,
    run_dir: Place | None,
    spaces: Mapping[str, Any],
    *,
    keep: tuple[str, ...] = (),
    mesh: Mesh | None = None,
    **how: Any,
) -> Trainer:
    """Trains a learner of some class to the end, and returns its `Trainer`.

    `spaces` is checked against the game, as in `check_spaces`; `how` are fields of
    the `Trainer`.
    """
    game = game_of(env)
    check_spaces(game, **spaces)
    agent_class.check_config(config)
    if not isinstance(runner_config, RunnerConfig):
        raise ValueError(f"runner_config must be a RunnerConfig, got {runner_config!r}")
    own = {
        name: getattr(runner_config, name)
        for name in ("buffer_size", "warmup_steps")
        if getattr(config, name, 0) is None
    }
    games = num_games(config.num_envs, runner_config)
    config = dataclasses.replace(config, num_envs=games, **own)
    if run_dir is not None and not isinstance(run_dir, RunDir):
        not_empty("run_dir", run_dir)
        run_dir = RunDir(run_dir)
    trainer = Trainer(
        agent_class.from_env(game, config),
        *(game, params_of(game, env_params), runner_config),
        games if mesh is None else games * mesh.size,
        mesh=mesh,
        run_dir=run_dir,
        **how,
    )
    trainer.run(keep)
    return trainer


def _ppo_result(trainer: Trainer) -> PPOTrainResult:
    whole = trainer.program.state
    stream = jax.tree.map(lambda x: x[0, 0], whole.stream)
    state = PPOTrainState(
        agent_state=trainer.state,
        env_obs=stream.obs[0],
        env_state=stream.env_state,
        rng=whole.key[0],
    )
    kept = {
        field: jnp.asarray(trainer.history[name]) for field, name in HISTORY.items()
    }
    return PPOTrainResult(state, PPOMetricsHistory(**kept), trainer.metrics_log)
