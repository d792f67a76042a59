"""Runners one level above training, and the handle through which they see it."""

import compiles
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from outer_fakes import climber

import paxenv
import paxenv_agents
from paxenv.single_player import SinglePlayer
from paxenv_agents.types import Sample
from runners.search.outer_options import ESConfig, OuterConfig
from runners.views.outer_loops.inner_loop import Hook
from runners.views.outer_loops.outer_runner import OnlineRunner, OuterRunner


def online(config=None, hooks=(), **options):
    agent, env, params = climber(**options)
    config = config or OuterConfig(num_steps=10, eval_episodes=3)
    return OnlineRunner(agent, env, params, config, hooks=hooks)


@pytest.fixture(scope="module")
def trained():
    """A climber after 10 steps, which are three updates of 4: runner, results."""
    runner = online()
    return runner, runner.run()


def test_an_online_runner_trains_and_evaluates(trained):
    """Rows 24 to 27: two dicts, the budget, and what the agent is worth after it."""
    runner, (train, evaluation) = trained
    assert train["env_step"] == train["step"] == 12
    assert train["iteration"] == 3
    assert train["train/player_1/loss/total"] == pytest.approx(-0.75)
    assert evaluation["mean_eval_reward"] == pytest.approx(2 * 0.75)
    assert evaluation["eval/mean_reward"] == evaluation["mean_eval_reward"]
    assert evaluation["eval/n_episodes"] == 3
    assert float(runner.agent.params["level"]) == pytest.approx(0.75)


def test_everything_of_the_learner_can_be_read_after_a_run(trained):
    """Row 49."""
    runner, _ = trained
    assert int(runner.agent.training_state.timesteps) == 12
    assert runner.agent.hyperparams["learning_rate"] == 0.25
    assert runner.agent.env is runner.agent.loop.experiment.env
    assert runner.agent.env_steps == 12


def test_an_evaluation_changes_nothing(trained):
    runner, (_, evaluation) = trained
    before = jax.tree.leaves(runner.agent.params)
    assert runner.evaluate() == evaluation
    assert jax.tree.leaves(runner.agent.params) == before


def test_a_subclass_writes_run_and_changes_the_game_on_the_way():
    """Rows 21 to 23: training goes on from game to game."""
    agent, env, params = climber()

    class Tasks(OuterRunner):
        def run(self):
            seen = []
            for unit in (1.0, 3.0):
                self.train(8, (env, params.replace(unit=jnp.float32(unit))))
                seen.append(self.evaluate()["mean_eval_reward"])
            return {"env_step": self.agent.env_steps}, {"seen": seen}

    runner = Tasks(agent, env, params, OuterConfig(num_steps=8, eval_episodes=3))
    train, evaluation = runner.run()
    assert train["env_step"] == 16
    # Two updates in each game: levels 0.5 and 1.0.
    assert evaluation["seen"] == pytest.approx([2 * 0.5, 2 * 3.0 * 1.0])


def test_a_runner_without_run_cannot_be_made():
    agent, env, params = climber()
    with pytest.raises(TypeError, match="run"):
        OuterRunner(agent, env, params)  # type: ignore[abstract]


def test_a_hyperparameter_is_set_by_name_and_used(trained):
    """The learner reads it from then on."""
    runner = online()
    runner.agent.set_hyperparam("lr", 2.0)
    runner.agent.set_hyperparam("env.unit", 10.0)
    runner.train(4)
    assert float(runner.agent.params["level"]) == pytest.approx(2.0)
    assert runner.evaluate()["mean_eval_reward"] == pytest.approx(2 * 10.0 * 2.0)


def test_an_agent_of_another_rate_compiles_nothing(trained):
    online().run()
    with compiles.counted() as seen:
        _, evaluation = online(learning_rate=0.125).run()
    assert len(seen) == 0
    assert evaluation["mean_eval_reward"] == pytest.approx(2 * 3 * 0.125)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lerning_rate", "did you mean 'learning_rate'"),
        ("env.units", "did you mean 'env.unit'"),
        ("_n_units", "Hyperparameters: "),
    ],
)
def test_an_unknown_name_is_an_error(trained, name, said):
    runner, _ = trained
    with pytest.raises(ValueError, match=said):
        runner.agent.set_hyperparam(name, 1.0)


def test_training_runs_under_the_flag_that_stops_at_nan():
    """Rows that were not run, and means of no episode, are missing, not wrong."""
    with jax.debug_nans(True):
        train_results, _ = online().run()
    assert train_results["env_step"] == 12


@pytest.mark.parametrize("value", ["0.1", float("nan"), [1.0, 2.0]])
def test_a_hyperparameter_is_a_number(trained, value):
    runner, _ = trained
    with pytest.raises(ValueError, match="lr must be a number, got"):
        runner.agent.set_hyperparam("lr", value)


def test_a_hyperparameter_is_one_that_the_config_would_take(trained):
    runner, _ = trained
    with pytest.raises(ValueError, match=r"^lr must be a finite number >= 0, got -1"):
        runner.agent.set_hyperparam("lr", -1.0)


@pytest.mark.slow
def test_an_option_makes_another_program_and_keeps_what_was_learnt():
    runner = online()
    runner.train(4)
    runner.agent.set_hyperparam("_batch_size", 4)
    runner.train(4)
    assert float(runner.agent.params["level"]) == pytest.approx(0.25 + 4 * 0.25)


def test_an_option_that_changes_the_networks_starts_afresh_with_a_warning():
    runner = online()
    runner.agent.set_hyperparam("lr", 0.5)
    with pytest.warns(UserWarning, match="starts afresh"):
        runner.agent.set_hyperparam("n_units", 7)
    assert runner.agent.params["critic"].shape == (7,)
    assert runner.agent.hyperparams["learning_rate"] == 0.5


def test_a_runner_may_update_by_itself_and_write_parameters():
    """Row 48."""
    runner = online()
    runner.agent.params = {**runner.agent.params, "level": jnp.float32(5.0)}
    nothing = dict.fromkeys(Sample._fields)
    sample = Sample(**{**nothing, "rewards": jnp.zeros((2, 1))})
    runner.agent.update(sample, jnp.zeros((1, 1)))
    assert float(runner.agent.params["level"]) == pytest.approx(5.25)
    with pytest.raises(ValueError, match="another agent"):
        runner.agent.params = {"level": jnp.float32(5.0)}
    with pytest.raises(ValueError, match="no replay"):
        _ = runner.agent.buffer


@pytest.mark.slow
def test_a_hook_sets_hyperparameters_inside_the_loop():
    """Row 50: the rate doubles after each update: 0.25 + 0.5 + 1."""

    def double(state, context):
        return state + 1, {"learning_rate": 2 * context.hyper["learning_rate"]}

    runner = online(hooks=(Hook(lambda: jnp.int32(0), double),))
    runner.train(12)
    assert float(runner.agent.params["level"]) == pytest.approx(1.75)
    assert [int(n) for n in runner.agent.hook_states] == [3]


def test_a_hook_that_sets_what_is_no_hyperparameter_is_an_error():
    hook = Hook(lambda: (), lambda state, context: (state, {"rate": 1.0}))
    runner = online(hooks=(hook,))
    with pytest.raises(ValueError, match="a hook sets rate"):
        runner.train(4)


def test_a_training_that_goes_on_ends_with_the_same_bits(trained):
    whole, results = trained
    first, second = online(), online()
    first.train(4)
    second.restore(first.snapshot())
    assert second.run() == results
    for a, b in zip(
        jax.tree.leaves(whole.agent.params),
        jax.tree.leaves(second.agent.params),
        strict=True,
    ):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_every_run_trains_its_whole_budget():
    """10 steps are three updates of 4, whatever went before."""
    runner = online()
    steps = [runner.train(4)["env_step"]]
    steps += [runner.run()[0]["env_step"] for _ in range(2)]
    assert steps == [4, 16, 28]
    assert runner.run()[0]["train/player_1/loss/total"] == pytest.approx(-10 * 0.25)


def test_a_run_that_goes_on_trains_what_is_left_of_it():
    config = OuterConfig(num_steps=10, eval_episodes=3, log_interval=4)
    first, second = online(config), online(config)
    first.run()
    first.should_stop = lambda: first.agent.env_steps >= 16
    assert first.run()[0]["env_step"] == 16  # Cut off after 4 of its steps.
    second.restore(first.snapshot())
    assert second.run()[0]["env_step"] == 24
    assert second.run()[0]["env_step"] == 36


def test_rows_are_logged_where_they_are_due():
    runner, rows = (
        online(OuterConfig(num_steps=10, eval_episodes=3, log_interval=8)),
        [],
    )
    runner.on_row = lambda iteration, steps, row: rows.append((iteration, steps))
    runner.train(20)
    assert rows == [(2, 8), (4, 16), (5, 20)]
    runner.train(4)
    assert rows[3:] == [(6, 24)]  # Due where it would be in one training.


def test_a_row_is_about_all_iterations_since_the_last_one():
    """Two episodes of two steps end in each update of 4 steps; the level rises."""
    runner = online(OuterConfig(num_steps=12, eval_episodes=3, log_interval=8))
    rows = []
    runner.on_row = lambda i, steps, row: rows.append(row)
    train, _ = runner.run()
    assert [row["episode/count"] for row in rows] == [4, 2]
    # Levels 0, 0.25 and 0.5, each paid twice an episode.
    means = [row["episode/return/player_1"] for row in rows]
    assert means == pytest.approx([0.25, 1.0])
    last = [row["episode/return_last_100/player_1"] for row in rows]
    assert last == pytest.approx([0.25, 0.5])
    assert train["episode/count"] == 2


def test_what_a_hook_sees_does_not_depend_on_where_calls_end():
    """The metrics of the iteration before, also across two calls of train."""

    def look(seen, context):
        return jnp.append(seen[1:], context.metrics["train/player_1/loss/total"]), {}

    hook = Hook(lambda: jnp.zeros(3), look, event="pre_update")
    whole, parts = online(hooks=(hook,)), online(hooks=(hook,))
    whole.train(12)
    for _ in range(3):
        parts.train(4)
    (seen,), (wanted,) = parts.agent.hook_states, whole.agent.hook_states
    np.testing.assert_array_equal(seen, wanted)
    np.testing.assert_allclose(seen, [np.nan, -0.25, -0.5])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: OuterConfig(num_steps=0), "num_steps"),
        (lambda: OuterConfig(seed=-1), "seed"),
        (
            lambda: online(ESConfig()).config and online("x"),
            "must be of the class OuterC",
        ),
        (
            lambda: OnlineRunner(paxenv_agents.PPO, "CartPole-v1"),
            r"got a class that makes one: write PPO\.from_env\(env\)",
        ),
        (
            lambda: OnlineRunner(paxenv_agents.TitForTat, "CartPole-v1"),
            r"got what makes one: write TitForTat\.from_env\(env\)",
        ),
        (lambda: OnlineRunner(None, "CartPole-v1"), "agent must be .*, got None"),
        (lambda: online(hooks=(3,)), "hooks must be of the class Hook, got 3"),
        (lambda: OnlineRunner("TitForTat", "CartPole-v1"), "TitForTat"),
        (lambda: OnlineRunner("PPO", "IPD"), "has 2 players"),
    ],
)
def test_a_mistake_is_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_a_game_of_other_spaces_is_refused(trained):
    runner, _ = trained
    with pytest.raises(ValueError, match="observation_space"):
        runner.train(4, "CartPole-v1")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PPO", "DQN"])
def test_a_dilemma_is_an_inner_loop_with_the_other_player_inside(name):
    """PPO against AllD: nothing pays but to defect, -2 a step."""
    game, params = paxenv.make("IPD-v0", num_inner_steps=10)
    env = SinglePlayer(game, 0, (paxenv_agents.make_agent("AllD", game, player=1),))
    agent = paxenv_agents.make_agent(name, env, player=0, hidden_sizes=(8,))
    config = OuterConfig(num_steps=512, num_envs=4, eval_episodes=4)
    runner = OnlineRunner(agent, env, env.make_params(params), config)
    train, evaluation = runner.run()
    assert train["env_step"] == 512
    assert -30.0 <= evaluation["mean_eval_reward"] <= -20.0
    if name == "DQN":
        assert int(runner.agent.buffer.filled) > 0
    runner.agent.set_hyperparam("env.payoff_matrix", jnp.zeros((4, 2)))
    assert runner.evaluate()["mean_eval_reward"] == 0.0
