"""The runner of one agent: construction, training, names, checkpoints, evaluation."""

import contextlib
import dataclasses
import json
import math
import signal

import compiles
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from on_policy_fakes import SMALL, Counter, Parts

import paxenv
import paxenv_agents
from paxenv.single_player import SinglePlayer
from paxenv_agents.learners.ppo import PPO, PPOConfig
from paxenv_agents.networks.feed_forward import MLPActor, MLPCritic
from runners import EVENTS, OnPolicyRunner, agent_act_fn, register_algorithm
from runners.storage.checkpoints.files import read_record
from runners.storage.checkpoints.store import CheckpointError, NoCheckpointError
from runners.storage.jsonl import read_rows
from runners.storage.sinks import Position
from runners.storage.tensorboard import read_scalars
from runners.views.on_policy.log import OnPolicyLog

CONFIG = PPOConfig(n_steps=8, num_minibatches=2, num_epochs=2, hidden_sizes=(8,))
NUM_ENVS = 4


def cart_pole(**options):
    options = {"cfg": CONFIG, "num_envs": NUM_ENVS, "seed": 3, **options}
    return OnPolicyRunner("CartPole-v1", **options)


def parts(**options):
    game = Parts(num_inner_steps=5)
    return OnPolicyRunner(game, **{"cfg": SMALL, "num_envs": 2, **options})


def assert_same(x, y):
    for (path, a), b in zip(
        jax.tree.leaves_with_path(x), jax.tree.leaves(y), strict=True
    ):
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(a, b, err_msg=jax.tree_util.keystr(path))


def seen_rates(runner):
    """Returns a list that gets the learning rate of every iteration."""
    rates = []
    runner.add_callback(
        "post_iteration", lambda _, stats: rates.append(stats["train/learning_rate"])
    )
    return rates


# How long.


@pytest.mark.slow
def test_learn_returns_the_history_of_every_iteration():
    runner = parts()

    result = runner.learn(num_iterations=2)

    assert set(result) == {"history", "final_iteration", "total_timesteps"}
    history = result["history"]
    assert history["iterations"] == [1, 2]
    assert history["timesteps"] == [6, 12]
    assert history["episode_rewards"] == [pytest.approx(math.nan, nan_ok=True), 5.0]
    assert history["episode_lengths"] == [pytest.approx(math.nan, nan_ok=True), 5.0]
    assert len(history["policy_losses"]) == len(history["value_losses"]) == 2
    assert (result["final_iteration"], result["total_timesteps"]) == (2, 12)


@pytest.mark.slow
def test_total_timesteps_are_rounded_up_and_counted_from_the_beginning():
    runner = parts()

    assert runner.learn(total_timesteps=7)["final_iteration"] == 2
    assert runner.learn(total_timesteps=13)["history"]["iterations"] == [3]
    assert runner.learn(total_timesteps=13)["history"]["iterations"] == []
    assert runner.learn(num_iterations=2)["total_timesteps"] == 30


@pytest.mark.slow
def test_the_plan_of_the_config_says_how_long():
    runner = parts(cfg={**SMALL, "num_updates": 2, "learning_rate_end": 0.0})
    rates = seen_rates(runner)

    assert runner.learn()["final_iteration"] == 2
    assert rates == pytest.approx([3e-4, 0.0], rel=1e-6)


@pytest.mark.slow
def test_a_schedule_without_a_plan_ends_with_learn():
    runner = parts(cfg={**SMALL, "learning_rate_end": 0.0})
    rates = seen_rates(runner)

    runner.learn(num_iterations=4)

    assert rates == pytest.approx([3e-4, 2e-4, 1e-4, 0.0], rel=1e-5)


def test_learn_refuses_to_guess_or_to_run_less_than_an_iteration():
    runner = parts()

    with pytest.raises(ValueError, match="needs total_timesteps or num_iterations"):
        runner.learn()
    with pytest.raises(ValueError, match="5 is less than one iteration of 6"):
        runner.learn(total_timesteps=5)
    with pytest.raises(ValueError, match="num_iterations"):
        runner.learn(num_iterations=0)


# Same numbers.


@pytest.mark.slow
@pytest.mark.fused
def test_stages_one_by_one_give_the_same_bits_as_whole_chunks():
    """Fused = stepped, and = the methods of a loop of one's own."""
    fused, stepped, own = cart_pole(), cart_pole(), cart_pole()
    stepped.add_callback("post_update", lambda runner, stats: None)

    history = fused.learn(num_iterations=6)
    # NaN, where no episode has ended, equals NaN here.
    np.testing.assert_equal(stepped.learn(num_iterations=6), history)
    for _ in range(6):
        own.collect_rollout()
        own.update()

    assert_same(stepped.program.state, fused.program.state)
    assert_same(own.program.state, fused.program.state)


@pytest.mark.slow
def test_six_iterations_are_three_and_three_of_a_new_runner(tmp_path):
    straight, first, second = cart_pole(), cart_pole(save_dir=tmp_path), cart_pole()

    rows = straight.learn(num_iterations=6)["history"]
    with first:
        first.learn(num_iterations=3)
        path = first.save_checkpoint("half.pt")
    second.load_checkpoint(path)
    rest = second.learn(num_iterations=3)

    assert (second.iteration, second.total_timesteps) == (6, 192)
    np.testing.assert_equal(
        rest["history"], {name: values[3:] for name, values in rows.items()}
    )
    assert_same(second.program.state, straight.program.state)


# Parts of rewards.


@pytest.mark.slow
def test_parts_of_rewards_are_sums_over_whole_episodes():
    """Across rollouts of 3 steps, in episodes of 5 that time ends."""
    runner, seen = parts(), []
    runner.add_callback("post_iteration", lambda _, stats: seen.append(dict(stats)))

    runner.learn(num_iterations=5)  # steps 3, 6, 9, 12, 15

    ended = [s for s in seen if s["rollout/completed_episodes"] > 0]
    assert [s["rollout/completed_episodes"] for s in seen] == [0, 2, 0, 2, 2]
    for stats in ended:
        assert stats["reward_components/velocity"] == 10.0
        assert stats["reward_components/energy"] == -5.0
        assert stats["env/robot/height_mean"] == 3.0  # the mean of 1 to 5
        assert stats["episode/mean_reward"] == 5.0
        assert stats["episode/mean_length"] == 5.0
        assert stats["episode/truncated_fraction"] == 1.0


def test_callbacks_know_the_last_episodes_and_nan_before_the_first():
    """Rollouts of 3 steps, episodes of 5: none has ended in the first and the third."""
    runner, seen = parts(), []
    for event in ("post_rollout", "post_iteration"):
        runner.add_callback(event, lambda _, stats: seen.append(dict(stats)))

    runner.learn(num_iterations=3)

    means = (
        *("episode/mean_reward", "episode/mean_length", "rollout/mean_episode_reward"),
        *("episode/mean_reward_last_100", "episode/mean_length_last_100"),
    )
    for name in means:
        values = [stats[name] for stats in seen]
        assert values == pytest.approx([math.nan] * 2 + [5.0] * 4, nan_ok=True), name
    ended = [stats["rollout/completed_episodes"] for stats in seen]
    assert ended == [0, 0, 2, 2, 0, 0]
    assert math.isnan(seen[0]["reward_components/velocity"])
    assert seen[-1]["reward_components/velocity"] == 10.0
    assert runner.stats["rollout/mean_reward"] == 1.0


class Growing(Parts):
    """A step pays the episode's steps so far."""

    def step_game(self, draws, game, actions, params):
        obs, game, _, terminated, info = super().step_game(draws, game, actions, params)
        return obs, game, game, terminated, info


def test_a_row_holds_all_episodes_since_the_last_row(tmp_path):
    """A step pays its number; in 12 steps of 2 games 4 episodes of 5 steps end."""
    runner = OnPolicyRunner(
        *(Growing(num_inner_steps=5),),
        **{"cfg": SMALL, "num_envs": 2, "log_dir": tmp_path, "log_interval": 4},
    )
    told = []
    runner.add_callback("on_log", lambda _, stats: told.append(dict(stats)))
    with runner:
        runner.learn(num_iterations=9)

    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [4, 8, 9]
    assert [row["rollout/completed_episodes"] for row in rows] == [4, 4, 2]
    assert [row["episode/mean_reward"] for row in rows] == [15.0] * 3
    # Steps 1 to 12 pay 1 to 5 twice, and 1 and 2.
    assert rows[0]["rollout/mean_reward"] == pytest.approx(33 / 12)
    assert told[0]["rollout/completed_episodes"] == 4


def test_a_row_without_an_end_is_strict_json(tmp_path):
    with parts(log_dir=tmp_path, log_interval=1) as runner:
        runner.learn(num_iterations=3)

    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert [row["episode/mean_reward"] for row in rows] == [None, 5.0, None]
    assert [row["episode/mean_reward_last_100"] for row in rows] == [None, 5.0, 5.0]
    assert [row["episode/count"] for row in rows] == [0, 2, 0]
    assert not any("not_finite" in row for row in rows)


def test_a_row_of_a_run_that_goes_on_is_that_of_one_that_did_not_stop(tmp_path):
    """What was collected since the last row is in every checkpoint."""

    def make(name):
        return parts(log_dir=tmp_path / name, log_interval=4)

    with make("whole") as whole:
        whole.learn(num_iterations=4)
    with make("cut") as cut:
        for _ in range(3):
            cut.collect_rollout()
            cut.update()
        cut.save_checkpoint("half")
    with make("cut") as other:
        other.load_checkpoint("half")
        other.learn(num_iterations=1)

    whole_row, row = (
        read_rows(tmp_path / name / "metrics.jsonl")[-1] for name in ("whole", "cut")
    )
    for each in (whole_row, row):
        del each["time/fps"]
    assert row == whole_row
    assert row["rollout/completed_episodes"] == 4


@pytest.mark.parametrize("killed", [False, True])
def test_a_checkpoint_saved_before_its_row_leaves_no_gap_and_no_double(
    tmp_path, killed
):
    """A callback saves before the row of its iteration is written, or never is."""

    def save(runner, _):
        runner.save_checkpoint("three")
        if killed:
            raise KeyboardInterrupt

    with parts(log_dir=tmp_path, log_interval=1) as first:
        first.add_callback("post_iteration", save, 3)
        with pytest.raises(KeyboardInterrupt) if killed else contextlib.nullcontext():
            first.learn(num_iterations=4)
    with parts(log_dir=tmp_path, log_interval=1) as second:
        second.load_checkpoint("three")
        second.learn(num_iterations=2)

    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["episode/count"] for row in rows] == [0, 2, 0, 2, 2]


def test_parts_of_rewards_can_be_left_out():
    runner = parts(log_reward_components=False)
    runner.learn(num_iterations=2)

    assert not [name for name in runner.stats if "reward_components" in name]
    assert runner.stats["env/robot/height_mean"] == 3.0


# Logs.


def test_tags_and_axes_in_tensorboard(tmp_path):
    """Components, env and stats over iterations, the others over steps."""
    with parts(log_dir=tmp_path, log_interval=2) as runner:
        runner.learn(num_iterations=4)

    series = read_scalars(tmp_path)
    steps = {name: [step for step, _ in values] for name, values in series.items()}
    over_steps = {
        *("train/policy_loss", "train/value_loss", "train/entropy_loss"),
        *("train/approx_kl", "train/clip_fraction", "train/learning_rate"),
        *("episode/mean_reward", "episode/mean_length", "rollout/mean_reward"),
        *("rollout/mean_value", "rollout/mean_episode_reward"),
        *("rollout/completed_episodes", "time/fps", "time/iteration"),
    }
    over_iterations = {
        *("train_vs_iter/policy_loss", "episode_vs_iter/mean_reward"),
        *("reward_components/velocity", "env/robot/height_mean"),
        *("stats/advantage_mean", "stats/advantage_std", "stats/value_mean"),
        "stats/returns_mean",
    }
    assert {tuple(steps[name]) for name in over_steps} == {(12, 24)}
    assert {tuple(steps[name]) for name in over_iterations} == {(2, 4)}
    assert [value for _, value in series["reward_components/velocity"]] == [10.0, 10.0]


@pytest.mark.slow
def test_the_entropy_loss_is_minus_the_entropy():
    runner = cart_pole()
    runner.learn(num_iterations=1)

    assert -math.log(2) <= runner.stats["train/entropy_loss"] < -0.6


def test_a_run_that_goes_on_writes_no_row_twice(tmp_path):
    with parts(log_dir=tmp_path, log_interval=1) as runner:
        runner.learn(num_iterations=2)
        runner.save_checkpoint("two")
        runner.learn(num_iterations=2)
        runner.load_checkpoint("two")
        runner.learn(num_iterations=1)

    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    steps = [step for step, _ in read_scalars(tmp_path)["train/policy_loss"]]
    assert steps == [6, 12, 18]


# Checkpoints.


def test_checkpoints_are_saved_at_intervals_and_at_the_end(tmp_path):
    with parts(save_dir=tmp_path, save_interval=2) as runner:
        runner.learn(num_iterations=5)

    names = sorted(path.name for path in (tmp_path / "named").iterdir())
    assert names == ["checkpoint_2.pt", "checkpoint_4.pt", "checkpoint_final.pt"]


def test_checkpoints_are_found_by_name_step_path_and_time(tmp_path):
    with parts(save_dir=tmp_path, save_interval=1) as runner:
        runner.learn(num_iterations=3)
        found = {}
        for which in (
            *("checkpoint_2.pt", 12, tmp_path / "named" / "checkpoint_2.pt"),
            "latest",
        ):
            runner.load_checkpoint(which)
            found[which] = runner.iteration
        assert list(found.values()) == [2, 2, 2, 3]
        with pytest.raises(NoCheckpointError, match=r"'none\.pt'.*checkpoint_1"):
            runner.load_checkpoint("none.pt")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint after two iterations: its path, and the runner."""
    runner = parts(save_dir=tmp_path_factory.mktemp("saved"))
    with runner:
        runner.learn(num_iterations=2)
    return runner.save_checkpoint("two"), runner


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cfg": {**SMALL, "gamma": 0.5}}, r"gamma is 0\.5, was 0\.99"),
        ({"cfg": {**SMALL, "n_steps": 4}}, "n_steps is 4, was 3"),
        ({"num_envs": 3}, r"num_envs is 3, was 2\. .*weights_only=True"),
        ({"seed": 9}, "seed is 9, was 0"),
        ({"actor_cfg": {"hidden_dims": [4]}}, "agent.actor"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused_by_name(saved, options, said):
    runner = parts(**options)
    with pytest.raises(CheckpointError, match=said):
        runner.load_checkpoint(saved[0])
    assert runner.iteration == 0


def test_a_plan_may_be_longer_and_rates_may_change_when_it_is_said(saved, caplog):
    path, old = saved
    runner = parts(cfg={**SMALL, "learning_rate": 0.5, "num_updates": 9})
    with pytest.raises(CheckpointError, match=r"learning_rate is 0\.5.*change_rates"):
        runner.load_checkpoint(path)

    runner.load_checkpoint(path, change_rates=True)

    assert runner.iteration == 2
    assert runner.hyperparams["learning_rate"] == 0.5
    assert runner.hyperparams["gamma"] == old.hyperparams["gamma"]
    assert "learning_rate is 0.5, was 0.0003" in caplog.text
    assert_same(runner.state.params, old.state.params)


def test_weights_alone_fit_any_number_of_games(saved):
    path, old = saved
    runner = parts(cfg={**SMALL, "learning_rate": 0.5}, num_envs=3, seed=5)
    fresh = jax.tree.map(np.asarray, runner.state.opt_state)

    runner.load_checkpoint(path, weights_only=True)

    assert_same(runner.state.params, old.state.params)
    assert_same(runner.state.opt_state, fresh)
    assert (runner.iteration, runner.hyperparams["learning_rate"]) == (0, 0.5)
    wide = parts(cfg={**SMALL, "hidden_sizes": (5,)})
    with pytest.raises(CheckpointError, match=r"has shape \(1, 4\), expected \(1, 5\)"):
        wide.load_checkpoint(path, weights_only=True)


def test_a_runner_goes_on_after_it_was_closed(tmp_path):
    """Logs and checkpoints open again: nothing is in a file twice, nothing is lost."""
    runner = parts(log_dir=tmp_path, log_interval=1)
    for _ in range(2):
        with runner:
            runner.learn(num_iterations=1)

    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [1, 2]
    runner.load_checkpoint("checkpoint_final.pt")
    assert runner.iteration == 2
    runner.close()


def test_the_record_names_networks_of_ones_own_and_does_not_grow(tmp_path):
    own = {"actor_class": MLPActor, "actor_cfg": {"hidden_dims": [5]}}
    sizes = []
    with parts(save_dir=tmp_path, **own) as runner:
        for _ in range(3):
            runner.learn(num_iterations=60)
            path = runner.save_checkpoint()
            sizes.append(len(json.dumps(read_record(path).meta)))

    agent = read_record(path).meta["settings"]["agent"]
    assert agent["actor"]["hidden_dims"] == [5]
    assert "hidden_sizes" not in agent["config"]
    assert max(sizes) - min(sizes) < 20  # digits of its clock


@pytest.mark.slow
def test_the_best_evaluation_is_saved_as_best(tmp_path):
    with cart_pole(save_dir=tmp_path) as runner:
        runner.learn(num_iterations=1)
        first = runner.eval(4)["eval/mean_reward"]
        runner.set_hyperparam("learning_rate", 0.03)
        scores = {1: first}
        for i in (2, 3):
            runner.learn(num_iterations=1)
            scores[i] = runner.eval(4)["eval/mean_reward"]
        runner.load_checkpoint("best")

        assert scores[runner.iteration] == max(scores.values())


def test_without_a_place_no_checkpoint_can_be_saved():
    with pytest.raises(ValueError, match="give a save_dir"):
        parts().save_checkpoint("model.pt")
    with pytest.raises(NoCheckpointError, match="no place to look for 'latest'"):
        parts().load_checkpoint()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_a_checkpoint(tmp_path, number):
    """Ctrl-C and SIGTERM end a run cleanly, at the end of the iteration."""
    with parts(save_dir=tmp_path) as runner:
        runner.add_callback("post_rollout", lambda *_: signal.raise_signal(number))
        result = runner.learn(num_iterations=100)

    assert result["final_iteration"] == 1
    with parts(save_dir=tmp_path) as other:
        other.load_checkpoint("checkpoint_final.pt")
        assert_same(other.program.state, runner.program.state)


# Evaluation.


def test_evaluation_changes_nothing_of_training():
    """The state stays bitwise; min <= mean <= max."""
    runner = cart_pole()
    runner.learn(num_iterations=1)
    before = jax.tree.map(np.asarray, runner.state.params)
    stream = jax.tree.map(np.asarray, runner.program.state.stream.obs)

    stats = runner.eval(num_episodes=6)

    assert_same(runner.state.params, before)
    assert_same(runner.program.state.stream.obs, stream)
    low, high = stats["eval/min_reward"], stats["eval/max_reward"]
    assert low <= stats["eval/mean_reward"] <= high
    assert stats["eval/n_episodes"] == 6
    assert stats["mean_eval_reward"] == stats["eval/mean_reward"]
    assert runner.eval(num_episodes=6) == stats


def test_evaluation_plays_in_the_game_that_is_given():
    runner = parts(eval_env=Parts(num_inner_steps=3))

    stats = runner.eval(2)

    assert stats["eval/mean_length"] == 3.0
    assert stats["eval/truncated_fraction"] == 1.0


# Arguments.


@pytest.mark.slow
def test_a_dilemma_is_trained_against_a_co_player():
    env, params = paxenv.make("IPD", num_inner_steps=4)
    game = SinglePlayer(env, 0, (paxenv_agents.make_agent("TitForTat", env, 1),))
    runner = OnPolicyRunner(
        game, env_params=game.make_params(params), cfg=CONFIG, num_envs=2
    )

    runner.learn(num_iterations=1)

    assert runner.stats["episode/mean_length"] == 4.0
    with pytest.raises(ValueError, match=r"2 players.*SinglePlayer"):
        OnPolicyRunner((env, params))


@pytest.mark.slow
def test_networks_are_made_of_classes_and_their_keywords():
    runner = cart_pole(
        actor_class=MLPActor,
        critic_class=MLPCritic,
        actor_cfg={"hidden_dims": [5]},
        critic_cfg={"hidden_dims": [7]},
    )

    shapes = {x.shape for x in jax.tree.leaves(runner.state.params)}

    assert {(4, 5), (5, 2), (4, 7), (7, 1)} <= shapes


def test_an_agent_that_is_ready_is_taken_as_it_is():
    env, params = paxenv.make("CartPole-v1")
    agent = PPO.from_env(env, CONFIG)

    runner = OnPolicyRunner((env, params), agent=agent, cfg=CONFIG, num_envs=NUM_ENVS)

    assert runner.agent == agent
    made = OnPolicyRunner(
        (env, params), agent=PPO(env=env, cfg=CONFIG), num_envs=NUM_ENVS
    )
    assert made.agent == agent
    with pytest.raises(ValueError, match="leave out agent, or actor_cfg"):
        cart_pole(agent=agent, actor_cfg={})
    with pytest.raises(ValueError, match="cfg is not the config of the agent"):
        cart_pole(agent=agent, cfg=PPOConfig())


@dataclasses.dataclass(frozen=True)
class Renamed(PPO):
    """Another learner."""


def test_an_algorithm_is_registered_by_name():
    register_algorithm("Renamed", Renamed, PPOConfig)

    assert type(cart_pole(algorithm="renamed").agent) is Renamed
    with pytest.raises(ValueError, match=r"algorithm 'nothing' is unknown.*ppo"):
        cart_pole(algorithm="nothing")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_envs": 0}, "num_envs must be a whole number >= 1, got 0"),
        ({"non_finite": "stpo"}, "non_finite must be one of .*, got 'stpo'"),
        ({"cfg": {"lerning_rate": 1.0}}, "did you mean 'learning_rate'"),
        ({"log_dir": ""}, "folder is empty"),
        ({"log_interval": -1}, "log_interval must be a whole number >= 0, got -1"),
        ({"save_interval": "a"}, "save_interval must be a whole number >= 0, got 'a'"),
        ({"algorithm": None}, "algorithm must be a registered name .*, got None"),
        ({"actor_class": 3}, "actor_class .* must be classes of Flax modules, got 3"),
        ({"cfg": None, "agent": "PPO"}, r"'PPO'; make_agent\('PPO', env\) makes one"),
        ({"cfg": None, "agent": PPO}, r"a class that makes one: write PPO\.from_env"),
        (
            {"cfg": None, "agent": PPO(env=paxenv.make("Pendulum-v1")[0], cfg=CONFIG)},
            r"made for the observation_space Box\(.*\(3,\), float32\), CartPole has",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(options, said):
    with pytest.raises(ValueError, match=said):
        cart_pole(**options)


def test_arguments_of_a_wrong_type_are_refused_by_their_value():
    with pytest.raises(TypeError, match="must be a text or a path, got 3"):
        cart_pole(save_dir=3)
    with pytest.raises(ValueError, match=r"total_timesteps must be .*, got 'a'"):
        cart_pole().learn("a")
    with pytest.raises(ValueError, match=r"agent_class must be .*, got <class 'int'>"):
        register_algorithm("x", int, int)
    with pytest.raises(ValueError, match="agent must be an agent, got a class"):
        agent_act_fn(PPO)


def test_a_learner_without_a_config_trains_and_is_saved(tmp_path):
    def make(**options):
        game = Parts(num_inner_steps=5)
        agent = Counter.from_env(game)
        return OnPolicyRunner(game, agent=agent, num_envs=2, **options)

    runner = make(log_dir=tmp_path)
    runner.learn(num_iterations=1)
    runner.learn(num_iterations=2)
    assert runner.state.params.tolist() == [3.0]

    path = tmp_path / "named" / "checkpoint_final.pt"
    whole, weights = make(), make()
    whole.load_checkpoint(path)
    weights.load_checkpoint(path, weights_only=True)
    assert (whole.iteration, whole.state.params.tolist()) == (3, [3.0])
    assert (weights.iteration, weights.state.params.tolist()) == (0, [3.0])


@pytest.mark.parametrize("value", [math.nan, "0.1", None])
def test_a_hyperparameter_is_a_number(value):
    runner = parts()
    with pytest.raises(ValueError, match="learning_rate must be a number, got"):
        runner.set_hyperparam("learning_rate", value)


def test_a_hyperparameter_is_one_that_the_config_would_take():
    runner = parts()
    said = r"learning_rate must be a finite number >= 0, got -1\.0"
    with pytest.raises(ValueError, match=said):
        runner.set_hyperparam("learning_rate", -1.0)


def test_an_off_policy_learner_is_refused():
    from paxenv_agents.learners.dqn import DQN, DQNConfig

    with pytest.raises(ValueError, match="DQN is not an on-policy learner"):
        OnPolicyRunner.register_algorithm("dqn", DQN, DQNConfig)


@dataclasses.dataclass(frozen=True)
class TorchDevice:
    """What is read of a `torch.device`."""

    type: str
    index: int | None


@pytest.mark.slow
@pytest.mark.parametrize(
    "device",
    [None, "cpu", "cpu:0", TorchDevice("cpu", None), TorchDevice("cpu", 0)],
)
def test_devices_are_named_in_every_way(device):
    runner = parts(device=device)
    runner.learn(num_iterations=1)

    kernel = jax.tree.leaves(runner.state.params)[0]
    assert kernel.devices() == {jax.local_devices()[0]}


def test_a_jax_device_is_taken_and_an_unknown_one_refused():
    last = jax.local_devices()[-1]
    runner = parts(device=last)
    runner.learn(num_iterations=1)

    assert jax.tree.leaves(runner.state.params)[0].devices() == {last}
    with pytest.raises(ValueError, match="no device 'nonsense:0'"):
        parts(device="nonsense:0")
    with pytest.raises(ValueError, match="no device 'cpu:99'"):
        parts(device="cpu:99")
    with pytest.raises(ValueError, match="got 7"):
        parts(device=7)


def test_the_learning_rate_is_shown_and_set():
    runner = parts()
    runner.collect_rollout()
    runner.update()

    assert runner.adjust_learning_rate() == pytest.approx(3e-4)
    runner.adjust_learning_rate(0.5)
    runner.collect_rollout()
    assert runner.update()["train/learning_rate"] == 0.5


def test_the_log_of_another_training_is_put_aside(tmp_path, caplog):
    def log():
        return OnPolicyLog(tmp_path)

    for training in (1, 2, 3):
        one = log()
        one.write(Position(training, 8 * training), {"x": 1.0})
        one.close()
        one.write(Position(training + 1, 8 * training + 8), {"x": 2.0})
        one.close()

    rows = [
        read_rows(folder / "metrics.jsonl")
        for folder in (tmp_path / "earlier_1", tmp_path / "earlier_2", tmp_path)
    ]
    assert [[row["iteration"] for row in part] for part in rows] == [
        [1, 2],
        [2, 3],
        [3, 4],
    ]
    assert read_scalars(tmp_path)["x"] == [(24, 1.0), (32, 2.0)]
    assert "the log of the training before is in" in caplog.text


@pytest.mark.slow
def test_a_runner_of_another_rate_compiles_nothing():
    def learnt(rate):
        runner = parts(cfg={**SMALL, "learning_rate": rate})
        runner.learn(num_iterations=2)
        return runner.stats["train/learning_rate"]

    assert learnt(0.5) == 0.5
    with compiles.counted() as seen:
        assert learnt(0.25) == 0.25
    assert len(seen) == 0


def test_an_update_without_a_rollout_is_refused():
    with pytest.raises(RuntimeError, match=r"call rollout\(\) first"):
        parts().update()


@pytest.mark.slow
def test_the_six_events_of_an_iteration_are_listed_first():
    assert EVENTS[:6] == (
        *("pre_iteration", "pre_rollout", "post_rollout"),
        *("pre_update", "post_update", "post_iteration"),
    )
