"""Training by plain functions: what comes back, and that every option is read."""

import dataclasses
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import bits
import compiles
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paxenv
import runners
from paxenv.auto_reset import AutoResetWrapper
from paxenv.single_player import SinglePlayer
from paxenv_agents.learners.dqn import DQNConfig
from paxenv_agents.learners.ppo import PPOConfig
from paxenv_agents.learners.sac import SACConfig
from paxenv_agents.registry import make_agent
from runners import RunnerConfig
from runners.storage.checkpoints.store import CheckpointStore
from runners.storage.jsonl import read_rows
from runners.storage.run_dir import RunDir

PPO = PPOConfig(n_steps=16, num_envs=4, hidden_sizes=(8,), num_minibatches=2)
DQN = DQNConfig(hidden_sizes=(8,), batch_size=8, train_every=4, target_every=8)
SAC = SACConfig(hidden_sizes=(8,), batch_size=8, train_every=8, target_every=8)
SHORT = RunnerConfig(total_timesteps=320, eval_every=10**6, plot=False)
REPLAY = RunnerConfig(
    *(200, 10**6, 3, 40),
    buffer_size=64,
    warmup_steps=40,
    plot=False,
)


@pytest.fixture(scope="module")
def cart_pole():
    return paxenv.make("CartPole-v1")


@pytest.fixture(scope="module")
def pendulum():
    return paxenv.make("Pendulum-v1")


def ppo(game, config=SHORT, **options):
    return runners.train_ppo(*game, ppo_config=PPO, runner_config=config, **options)


def test_ppo_returns_a_state_and_a_row_of_numbers_for_every_update(cart_pole):
    env, params = cart_pole
    state, history = ppo((AutoResetWrapper(env), params))
    assert type(history).__name__ == "PPOMetricsHistory"
    assert all(x.shape == (5,) and x.dtype == jnp.float32 for x in history)
    assert all(np.isfinite(x).all() for x in history)
    assert state.env_obs.shape == (4, 4)
    assert int(state.agent_state.step) == 320
    for key in (state.rng, state.agent_state.rng):
        assert jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    assert state.env_state.env.t.shape == (4,)
    # Games that are wrapped and games that are not are the same games.
    assert bits.equal(ppo(cart_pole)[0], state, equal_nan=True)


@pytest.mark.slow
def test_a_dilemma_is_trained_as_a_game_of_one_player():
    ipd, params = paxenv.make("IPD-v0", num_inner_steps=8)
    game = SinglePlayer(ipd, 0, (make_agent("TitForTat", ipd, player=1),))
    _, history = ppo((game, game.make_params(params)))
    assert np.isfinite(history.total_loss).all()
    with pytest.raises(ValueError, match="2 players, and one agent is trained"):
        ppo((ipd, params))


@pytest.mark.slow
def test_the_budget_is_rounded_down_and_too_little_is_refused(cart_pole):
    config = dataclasses.replace(SHORT, total_timesteps=200)
    assert ppo(cart_pole, config)[1].entropy.shape == (3,)
    with pytest.raises(ValueError, match=r"total_timesteps=63 is less than one .*: 64"):
        ppo(cart_pole, dataclasses.replace(SHORT, total_timesteps=63))


def test_shapes_that_are_given_are_checked(cart_pole, pendulum):
    with pytest.raises(ValueError, match=r"obs_shape=\(3,\), the game shows \(4,\)"):
        ppo(cart_pole, obs_shape=(3,))
    with pytest.raises(ValueError, match=r"n_actions=3, the game takes Discrete\(2"):
        ppo(cart_pole, n_actions=3)
    with pytest.raises(ValueError, match="action_dim=2, the game takes Box"):
        runners.train_sac(*pendulum, sac_config=SAC, runner_config=REPLAY, action_dim=2)


@pytest.mark.slow
def test_the_number_of_games_is_given_once(cart_pole):
    twice = dataclasses.replace(SHORT, num_envs=2)
    with pytest.raises(ValueError, match=r"num_envs is 4 .* and 2 in RunnerConfig"):
        ppo(cart_pole, twice)
    own = dataclasses.replace(PPO, num_envs=None)
    state, _ = runners.train_ppo(*cart_pole, ppo_config=own, runner_config=twice)
    assert state.env_obs.shape == (2, 4)


@pytest.mark.slow
def test_dqn_calls_back_and_returns_what_it_logged(cart_pole):
    seen = []
    result = runners.train_dqn(
        *cart_pole,
        dqn_config=DQN,
        runner_config=REPLAY,
        callback=lambda step, state, metrics: seen.append(
            (step, int(state.step), metrics)
        ),
    )
    assert [(step, counted) for step, counted, _ in seen] == [
        (step, step) for step in (40, 80, 120, 160, 200)
    ]
    assert [row["step"] for row in result.metrics_log] == [40, 80, 120, 160, 200]
    assert np.isfinite(seen[-1][2]["train/player_1/loss/q"])
    # Random play on cart-pole: every step is paid 1, episodes are 8 steps or more.
    assert all(8 <= r <= 200 and r == int(r) for r in result.episode_returns)
    assert sum(result.episode_returns) <= 200
    # Every episode is in one row; most rows are of several iterations.
    rows, returns = result.metrics_log, result.episode_returns
    assert sum(row["episode/count"] for row in rows) == len(returns)
    paid = [row["episode/count"] * row["episode/return/player_1"] for row in rows]
    assert np.nansum(paid) == pytest.approx(sum(returns))
    assert rows[-1]["episode/return_last_100/player_1"] == pytest.approx(
        np.mean(returns)
    )
    assert sum(row["train/player_1/gradient_steps"] for row in rows) == 41
    assert int(result.agent_state.replay.filled) == 64


@pytest.mark.slow
def test_sac_learns_from_random_actions_after_the_warm_up(pendulum, tmp_path):
    seen = []
    result = runners.train_sac(
        *pendulum,
        sac_config=SAC,
        runner_config=REPLAY,
        run_dir=tmp_path / "run",
        callback=lambda step, state, _: seen.append((step, int(state.step))),
    )
    assert seen == [(step, step) for step in (40, 80, 120, 160, 200)]
    rows = read_rows(RunDir(tmp_path / "run").metrics)
    assert [row["env_steps"] for row in rows] == [40, 80, 120, 160, 200]
    first, last = result.metrics_log[0], result.metrics_log[-1]
    assert first["train/player_1/gradient_steps"] == 1  # at step 40, not before
    assert np.isfinite(last["train/player_1/loss/critic"])
    assert len(result.episode_returns) == 1  # the time limit of 200 steps
    assert result.agent_state.params["log_alpha"] != 0.0


@pytest.mark.slow
def test_returns_are_those_of_single_episodes_however_many_end_at_once(cart_pole):
    config = dataclasses.replace(REPLAY, total_timesteps=1280, warmup_steps=1280)
    # 64 steps of each of 16 games between two turns: several end in most of them.
    own = dataclasses.replace(DQN, num_envs=16, train_every=1024, target_every=1024)
    result = runners.train_dqn(*cart_pole, dqn_config=own, runner_config=config)
    returns = result.episode_returns
    assert len(returns) > 16
    assert all(r == int(r) and 8 <= r <= 64 for r in returns)
    assert len(set(returns)) > 8
    (row,) = result.metrics_log
    assert row["episode/count"] == len(returns)
    np.testing.assert_allclose(row["episode/return/player_1"], np.mean(returns))


@pytest.mark.slow
def test_replay_on_the_host_learns_at_the_same_steps(cart_pole):
    def train(buffer):
        return runners.train_dqn(
            *cart_pole, dqn_config=DQN, runner_config=REPLAY, buffer=buffer
        )

    host, device = train("host"), train("device")
    assert host.agent_state.replay == ()
    assert int(host.agent_state.opt_state.count) == 41
    assert int(device.agent_state.opt_state.count) == 41
    assert [row["train/player_1/gradient_steps"] for row in host.metrics_log] == [
        row["train/player_1/gradient_steps"] for row in device.metrics_log
    ]
    # The warm-up is played by the same keys.
    assert (
        host.metrics_log[0]["episode/count"] == device.metrics_log[0]["episode/count"]
    )
    assert host.metrics_log[-1]["train/player_1/replay_size"] == 64
    assert np.isfinite(host.metrics_log[-1]["train/player_1/loss/q"])
    same = bits.equal(
        host.agent_state.params, device.agent_state.params, equal_nan=True
    )
    assert not same  # minibatches are drawn by a generator of NumPy's
    with pytest.raises(ValueError, match=r"buffer must be .* got 'disk'"):
        train("disk")


CHANGED = {
    "total_timesteps": 240,
    "log_interval": 80,
    "eval_every": 80,
    "eval_episodes": 5,
    "buffer_size": 32,
    "warmup_steps": 120,
    "num_envs": 2,
    "seed": 1,
}


@pytest.fixture(scope="module")
def unchanged(cart_pole):
    config = dataclasses.replace(REPLAY, eval_every=100)
    return config, runners.train_dqn(*cart_pole, dqn_config=DQN, runner_config=config)


@pytest.mark.slow
@pytest.mark.parametrize("field", CHANGED)
def test_every_number_of_the_runner_changes_something(cart_pole, unchanged, field):
    """The fields about files and devices have tests of their own."""
    base, before = unchanged
    config = dataclasses.replace(base, **{field: CHANGED[field]})
    after = runners.train_dqn(*cart_pole, dqn_config=DQN, runner_config=config)
    results = before, after
    rows = [
        json.dumps([{k: v for k, v in row.items() if "time/" not in k} for row in log])
        for log in (r.metrics_log for r in results)
    ]
    differs = {
        "buffer_size": lambda r: r.agent_state.replay.capacity,
        "warmup_steps": lambda r: int(r.agent_state.opt_state.count),
    }.get(field)
    assert rows[0] != rows[1]
    if differs is not None:
        assert differs(results[0]) != differs(results[1])


@pytest.mark.slow
def test_files_are_written_where_the_runner_says(cart_pole, tmp_path):
    """Checkpoint_*, max_checkpoints, keep_period, plot, run_dir."""
    config = dataclasses.replace(
        SHORT,
        checkpoint_dir=str(tmp_path / "saved"),
        checkpoint_interval=64,
        max_checkpoints=2,
        keep_period=128,
        log_interval=64,
        eval_every=128,
        plot=True,
    )
    _, history = ppo(cart_pole, config, run_dir=tmp_path / "run")
    with CheckpointStore(tmp_path / "saved") as store:
        assert store.steps() == [128, 256, 320]
    rows = read_rows(RunDir(tmp_path / "run").metrics)
    losses = [row["train/player_1/loss/total"] for row in rows]
    np.testing.assert_allclose(losses, history.total_loss, rtol=1e-6)
    evaluations = read_rows(RunDir(tmp_path / "run").eval_metrics)
    assert [row["env_steps"] for row in evaluations] == [128, 256]
    assert (tmp_path / "run" / "artifacts" / "reward_curve.png").is_file()
    without = dataclasses.replace(config, plot=False, overwrite=True)
    ppo(cart_pole, without, run_dir=tmp_path / "other")
    assert not list((tmp_path / "other").rglob("*.png"))


def test_checkpoints_that_are_there_are_resumed_overwritten_or_left_alone(
    cart_pole, tmp_path
):
    config = dataclasses.replace(SHORT, checkpoint_dir=str(tmp_path))
    first = ppo(cart_pole, config)
    with pytest.raises(FileExistsError, match="resume=True goes on"):
        ppo(cart_pole, config)
    resumed = ppo(cart_pole, dataclasses.replace(config, resume=True))
    assert bits.equal(resumed, first, equal_nan=True)
    # The number of games may stand in either config.
    elsewhere = runners.train_ppo(
        *cart_pole,
        ppo_config=dataclasses.replace(PPO, num_envs=None),
        runner_config=dataclasses.replace(config, num_envs=4, resume=True),
    )
    assert bits.equal(elsewhere, first, equal_nan=True)
    again = ppo(cart_pole, dataclasses.replace(config, overwrite=True, seed=1))
    assert not bits.equal(again, first, equal_nan=True)


@pytest.mark.slow
def test_a_longer_budget_goes_on_where_a_shorter_one_ended(cart_pole, tmp_path):
    """20 updates are 10 and 10 more."""
    longer = dataclasses.replace(SHORT, total_timesteps=20 * 64)
    half = dataclasses.replace(
        SHORT, total_timesteps=10 * 64, checkpoint_dir=str(tmp_path)
    )
    straight = ppo(cart_pole, longer)
    ppo(cart_pole, half)
    rest = dataclasses.replace(half, total_timesteps=20 * 64, resume=True)
    assert bits.equal(ppo(cart_pole, rest), straight, equal_nan=True)
    with pytest.raises(ValueError, match="=640 is less than the 1280 steps"):
        ppo(cart_pole, dataclasses.replace(half, resume=True))


TRAINERS = {
    "PPO": ("train_ppo", "ppo_config", "CartPole-v1", PPO, SHORT),
    "DQN": ("train_dqn", "dqn_config", "CartPole-v1", DQN, REPLAY),
    "SAC": ("train_sac", "sac_config", "Pendulum-v1", SAC, REPLAY),
    "DQN host": ("train_dqn", "dqn_config", "CartPole-v1", DQN, REPLAY),
}
KILLED = """
import os, signal, sys
from test_functional import train
from runners.storage.checkpoints.store import CheckpointStore
save = CheckpointStore.save
def killed(self, step, state, meta, **options):
    save(self, step, state, meta, **options)
    if meta["iteration"] >= 2:
        self.wait()
        os.kill(os.getpid(), signal.SIGKILL)
CheckpointStore.save = killed
train(sys.argv[1], sys.argv[2])
"""


def train(name, folder, **changes):
    function, option, game, own, config = TRAINERS[name]
    config = dataclasses.replace(
        config, checkpoint_dir=str(folder), checkpoint_interval=64, **changes
    )
    options = {option: own, "runner_config": config}
    if name.endswith(" host"):
        options["buffer"] = "host"
    return getattr(runners, function)(*paxenv.make(game), **options)


@pytest.mark.slow
def test_a_killed_training_goes_on_in_a_new_process_bit_for_bit(tmp_path):
    """Parameters, optimiser, replay, games, keys, histories.

    With replay on the host; `test_faults` kills the others.
    """
    name, folders = "DQN host", [tmp_path / "straight", tmp_path / "resumed"]
    train(name, folders[0])
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, name, str(folders[1])],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert killed.returncode == -9, killed.stderr
    train(name, folders[1], resume=True)
    one, other = map(_saved, folders)
    assert one[0].keys() == other[0].keys()
    for entry in one[0]:
        np.testing.assert_array_equal(one[0][entry], other[0][entry], err_msg=entry)
    one, other = map(_gathered, folders)
    assert one == other


def _saved(folder):
    from runners.storage.checkpoints.files import find_checkpoint, read_record
    from runners.storage.checkpoints.store import read_arrays

    path = find_checkpoint(folder)
    record = read_record(path)
    arrays = read_arrays(path, list(record.entries))
    return {k: np.asarray(v) for k, v in arrays.items()}, record.meta


def _gathered(folder):
    """Returns what the journal of a folder of checkpoints holds, by file."""
    files = {path.name: path.read_bytes() for path in folder.glob("history/*.f32")}
    rows = [
        json.loads(line)["step"]
        for path in folder.glob("history/*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return files, rows


def _training(cart_pole, folder, own=PPO, **changes):
    config = dataclasses.replace(SHORT, checkpoint_dir=str(folder), **changes)
    return runners.train_ppo(*cart_pole, ppo_config=own, runner_config=config)


@pytest.fixture(scope="module")
def saved(cart_pole, tmp_path_factory):
    """Checkpoints after 5 updates, of 64 steps each."""
    folder = tmp_path_factory.mktemp("saved")
    _training(cart_pole, folder)
    return folder


@pytest.mark.parametrize(
    ("own", "changes", "said"),
    [
        ({"learning_rate": 0.01}, {}, "learning_rate is 0.01, was 0.0003"),
        ({"n_steps": 32}, {}, "n_steps is 32, was 16"),
        ({"entropy_coeff": 0.5}, {}, "entropy_coeff is 0.5, was 0.01"),
        ({"clip_epsilon": 0.1}, {}, "clip_epsilon is 0.1, was 0.2"),
        ({"hidden_sizes": (16,)}, {}, r"hidden_sizes is \[16\], was \[8\]"),
        ({"gamma": 0.9}, {"seed": 1}, "gamma is 0.9, was 0.99; seed is 1, was 0"),
        ({"num_envs": 2}, {}, "num_envs is 2, was 4; num_games is 2, was 4"),
        (
            {"n_steps": 32},
            {"change_rates": True},
            "n_steps is 32, was 16. Give it what it was trained with",
        ),
    ],
)
def test_another_training_does_not_go_on_from_a_checkpoint(
    cart_pole, saved, own, changes, said
):
    with pytest.raises(ValueError, match=f"belongs to another training: .*{said}"):
        _training(
            cart_pole, saved, dataclasses.replace(PPO, **own), resume=True, **changes
        )


def test_another_game_does_not_go_on_from_a_checkpoint(cart_pole, saved):
    env, params = cart_pole
    heavier = params.replace(gravity=params.gravity * 2)
    with pytest.raises(ValueError, match=r"params.gravity is 19.6.*, was 9.8"):
        _training((env, heavier), saved, resume=True)


def test_budget_and_intervals_may_change_and_are_said(cart_pole, saved, caplog):
    _training(cart_pole, saved, resume=True, log_interval=64)
    assert caplog.messages == [
        "going on from step 320 with runner.log_interval is 64, was 1000"
    ]


def test_other_rates_are_taken_where_that_is_asked_for(cart_pole, tmp_path, caplog):
    _training(cart_pole, tmp_path)
    faster = dataclasses.replace(PPO, learning_rate=0.5)
    state, _ = _training(
        cart_pole,
        tmp_path,
        faster,
        total_timesteps=640,
        resume=True,
        change_rates=True,
    )
    assert float(state.agent_state.hyper["learning_rate"]) == 0.5
    assert int(state.agent_state.step) == 640
    assert "learning_rate is 0.5, was 0.0003" in caplog.text
    # The new number is in the next record, so the old one is another training now.
    with pytest.raises(ValueError, match=r"learning_rate is 0.0003, was 0.5"):
        _training(cart_pole, tmp_path, total_timesteps=640, resume=True)


def test_a_record_has_one_size_however_long_the_training_was(cart_pole, tmp_path):
    folder = tmp_path / "checkpoints"
    _training(
        cart_pole, folder, log_interval=64, checkpoint_interval=64, max_checkpoints=9
    )
    sizes = {
        path.parents[1].name: len(path.read_text())
        for path in folder.glob("step_*/meta/record.json")
    }
    assert len(sizes) == 5
    # Numbers of more digits only.
    assert sizes["step_320"] - sizes["step_64"] < 32


@pytest.mark.parametrize(
    "train",
    [
        runners.train_ppo,
        pytest.param(runners.train_ppo_multigpu, marks=pytest.mark.slow),
    ],
)
def test_evaluations_come_back_without_a_folder(cart_pole, train):
    config = dataclasses.replace(SHORT, eval_every=128, num_devices=1)
    result = train(*cart_pole, ppo_config=PPO, runner_config=config)
    state, history = result
    assert (state, history) == (result.state, result.history)
    evaluations = [row for row in result.metrics_log if "eval/mean_reward" in row]
    assert [row["step"] for row in evaluations] == [128, 256]
    assert all(row["eval/n_episodes"] == 10 for row in evaluations)


def test_a_picture_without_a_place_is_said(cart_pole):
    with pytest.warns(UserWarning, match="plot=True has no place") as caught:
        ppo(cart_pole, dataclasses.replace(SHORT, plot=True))
    assert caught[0].filename == __file__


def test_overwriting_leaves_nothing_of_the_training_before(cart_pole, tmp_path):
    """Rows, evaluations, picture, checkpoints and what they remember."""
    run, folder = tmp_path / "run", tmp_path / "saved"
    config = dataclasses.replace(
        SHORT, log_interval=64, eval_every=64, checkpoint_dir=folder, plot=True
    )
    ppo(cart_pole, config, run_dir=run)
    again = dataclasses.replace(
        *(config,), total_timesteps=64, eval_every=10**6, plot=False, overwrite=True
    )
    ppo(cart_pole, again, run_dir=run)
    rows = read_rows(RunDir(run).metrics)
    assert [row["iteration"] for row in rows] == [1]
    assert RunDir(run).eval_metrics.read_text() == ""
    assert not list(tmp_path.rglob("*.png"))
    assert [path.name for path in folder.glob("step_*")] == ["step_64"]
    assert [path.stat().st_size for path in folder.glob("history/*.f32")] == [4] * 7


@pytest.mark.parametrize("choice", ["resume", "overwrite"])
def test_rows_of_an_attempt_without_a_checkpoint_go(cart_pole, tmp_path, choice):
    run = RunDir(tmp_path / "run")
    run.metrics.parent.mkdir(parents=True)
    run.metrics.write_text('{"seed": 0, "iteration": 3, "env_steps": 192}\n')
    config = dataclasses.replace(
        SHORT, log_interval=160, checkpoint_dir=tmp_path / "saved"
    )
    with pytest.raises(FileExistsError, match="rows of another training"):
        ppo(cart_pole, config, run_dir=run)
    ppo(cart_pole, dataclasses.replace(config, **{choice: True}), run_dir=run)
    assert [row["iteration"] for row in read_rows(run.metrics)] == [3, 5]


def test_overwriting_needs_something_to_overwrite(cart_pole):
    with pytest.raises(ValueError, match="checkpoint_dir and run_dir, and neither"):
        ppo(cart_pole, dataclasses.replace(SHORT, overwrite=True))


SIGNATURES = {
    "train_ppo": (
        "(env, env_params, *, ppo_config, runner_config, obs_shape=None, "
        "n_actions=None, run_dir=None)"
    ),
    "train_ppo_multigpu": (
        "(env, env_params, *, ppo_config, runner_config, obs_shape=None, "
        "n_actions=None, run_dir=None, stacked=True)"
    ),
    "train_dqn": (
        "(env, env_params, *, dqn_config, runner_config, obs_shape=None, "
        "n_actions=None, callback=None, run_dir=None, buffer='device')"
    ),
    "train_sac": (
        "(env, env_params, *, sac_config, runner_config, obs_shape=None, "
        "action_dim=None, callback=None, run_dir=None, buffer='device')"
    ),
    "evaluate": (
        "(act_fn, agent_state, env, env_params, *, n_episodes, max_steps, rng)"
    ),
}
SURFACE = [
    "RunnerConfig",
    "train_ppo",
    "train_ppo_multigpu",
    "train_dqn",
    "train_sac",
    "evaluate",
    "jit_evaluate",
    "EvalMetrics",
    "PPOTrainState",
    "PPOMetricsHistory",
    "DQNTrainResult",
    "SACTrainResult",
    "get_num_devices",
    "replicate",
    "unreplicate",
    "shard_pytree",
    "replicate_on_mesh",
    "split_key_across_devices",
]


def test_the_published_names_are_imported_from_one_place():
    assert len(SURFACE) == 18
    assert set(SURFACE) <= set(runners.__all__)
    assert all(getattr(runners, name) is not None for name in SURFACE)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_the_published_ones(name):
    signature = inspect.signature(getattr(runners, name))
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == SIGNATURES[name]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dqn_config": SACConfig()}, "DQN takes a DQNConfig, got SACConfig"),
        ({"dqn_config": {"num_envs": 2}}, "DQN takes a DQNConfig, got {'num_envs': 2}"),
        ({"runner_config": {}}, "runner_config must be a RunnerConfig, got {}"),
        ({"callback": 3}, "callback must be a function, got 3"),
        ({"run_dir": ""}, "run_dir is empty"),
        (
            {"env_params": paxenv.make("Pendulum-v1")[1]},
            r"pendulum\.EnvParams, CartPole takes .*cart_pole\.EnvParams",
        ),
    ],
)
def test_arguments_that_are_something_else_are_refused_by_name(options, said):
    env, params = paxenv.make("CartPole-v1")
    given = {"env_params": params, "dqn_config": DQNConfig(), "runner_config": SHORT}
    with pytest.raises(ValueError, match=said):
        runners.train_dqn(env, **{**given, **options})


def test_algorithms_have_configs_with_defaults():
    assert (PPOConfig().n_steps, PPOConfig().hidden_sizes) == (128, (64, 64))
    for config in (DQNConfig(), SACConfig()):
        assert (config.buffer_size, config.warmup_steps) == (None, None)


@pytest.mark.slow
def test_training_is_one_compiled_call_however_many_updates(cart_pole):
    """118: no Python between updates unless something is due."""
    calls = []
    from runners.engine.program import CompiledProgram

    run = CompiledProgram.run

    def counted(self, length):
        calls.append(length)
        return run(self, length)

    quiet = dataclasses.replace(SHORT, total_timesteps=64 * 40, log_interval=10**6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompiledProgram, "run", counted)
        ppo(cart_pole, quiet)
    assert sum(calls) == 40
    assert len(calls) <= 5


NUMBERS = {"learning_rate": 0.02, "gamma": 0.5, "max_grad_norm": 3}


@pytest.mark.parametrize(
    "name",
    [
        "PPO",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("DQN", "SAC", "DQN host")),
    ],
)
def test_other_numbers_of_the_algorithm_compile_nothing(name):
    function, option, game, own, config = TRAINERS[name]
    own = dataclasses.replace(own, max_grad_norm=2.0)
    config = dataclasses.replace(config, eval_every=100)

    def train(own):
        buffer = {"buffer": "host"} if name.endswith(" host") else {}
        getattr(runners, function)(
            *paxenv.make(game), **{option: own, "runner_config": config}, **buffer
        )

    train(own)
    with compiles.counted() as seen:
        train(dataclasses.replace(own, **NUMBERS))
    assert len(seen) == 0
