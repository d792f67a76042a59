"""Hard stops, drawn learning rates, frozen and preloaded opponents."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Counter, Dice, seated

from paxenv.envs.iterated_matrix_game import EnvParams, IteratedMatrixGame
from paxenv_agents.engine.lineup import Slot
from runners.config import ConfigError, load
from runners.engine.experiment import Experiment, train_chunk
from runners.engine.interventions import (
    DrawnNumbers,
    HardStop,
    LogUniform,
    Uniform,
    UniformStop,
)
from runners.engine.outer import Gradient
from runners.planning.plan import evaluation, prepare
from runners.session.training import program_of

PARAMS = EnvParams(payoff_matrix=[[-1, -1], [-3, 0], [0, -3], [-2, -2]])
KEY = jax.random.key(5)
META = ("num_inner_steps=5", "num_outer_steps=4", "num_envs=2", "plot=false")
NAIVE = "agent2={name: Naive, tabular: true, clock: inner, reset: trial}"


def meta(slot, *, num_opponents=1, num_outer_steps=6):
    env = IteratedMatrixGame(2, num_outer_steps)
    learner = Slot(seated(Counter, env, 1), (1,), clock="inner", reset="trial", **slot)
    return Experiment(
        env,
        (Slot(seated(Dice, env), (0,)), learner),
        Gradient(),
        num_opponents=num_opponents,
        chunk_size=2,
    )


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 4])
def test_a_slot_learns_in_the_first_k_inner_episodes_only(k):
    experiment = meta({"schedule": HardStop(k)})
    state, _ = train_chunk(experiment, experiment.init(KEY, PARAMS), 1)
    assert float(state.agents[1].params) == k


@pytest.mark.slow
def test_a_stop_is_drawn_for_each_opponent_and_trial_from_one_to_all():
    experiment = meta(
        {
            "schedule": HardStop(),
            "sampler": DrawnNumbers((("stop_after", UniformStop(6)),)),
            "per_opponent": True,
        },
        num_opponents=200,
    )
    state = experiment.init(KEY, PARAMS)
    first, _ = train_chunk(experiment, state, 1)
    second, _ = train_chunk(experiment, first, 1)
    stops = [np.asarray(s.agents[1].hyper["stop_after"]) for s in (first, second)]
    updates = [np.asarray(s.agents[1].params) for s in (first, second)]
    np.testing.assert_array_equal(stops, updates)
    assert set(stops[0].tolist()) == {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
    assert (stops[0] != stops[1]).mean() > 0.5


def after_a_trial(*words):
    """The second agent's training state after one trial of four inner episodes."""
    plan = prepare(load(["ipd/ppo_v_tft", NAIVE, *META, *words]))
    state = plan.experiment.init(KEY, plan.params)
    return train_chunk(plan.experiment, state, 1)[0].agents[1]


def assert_equal_states(a, b, names=("params", "opt_state", "timesteps")):
    for name in names:
        jax.tree.map(np.testing.assert_array_equal, getattr(a, name), getattr(b, name))


@pytest.mark.slow
@pytest.mark.fused
def test_a_learner_is_bit_for_bit_what_it_was_when_it_stopped():
    """Four inner episodes of which two teach, and a trial of two."""
    stopped = after_a_trial("agent2.stop_after=2")
    shorter = after_a_trial("num_outer_steps=2")
    whole = after_a_trial()
    assert_equal_states(stopped, shorter)
    moved = jax.tree.leaves(jax.tree.map(np.array_equal, stopped.params, whole.params))
    assert not all(moved)


@pytest.mark.slow
@pytest.mark.fused
def test_a_drawn_learning_rate_equals_a_configured_one():
    """A draw from [eta, eta] is a run with eta; the sign is the learner's."""
    drawn = after_a_trial("agent2.sample.learning_rate={log_uniform: [0.05, 0.05]}")
    given = after_a_trial("agent2.learning_rate=0.05")
    assert_equal_states(drawn, given, ("params", "opt_state", "hyper"))


@pytest.mark.slow
def test_a_run_equals_the_one_that_is_given_the_rate_that_was_drawn():
    """The draw is read off, and given to the learner's config instead."""
    words = ("agent2.sample={learning_rate: {log_uniform: [1e-3, 1]}}",)
    drawn = after_a_trial(*words)
    rate = float(drawn.hyper["learning_rate"])
    assert 1e-3 < rate < 1.0
    given = after_a_trial(f"agent2.learning_rate={rate!r}")
    assert_equal_states(drawn, given, ("params", "opt_state", "hyper"))


def test_rates_are_uniform_or_log_uniform_between_their_bounds():
    """10,000 draws; the standard error of the mean of U(0, 1) is 0.003."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(KEY, jnp.arange(10_000))
    plain = np.asarray(jax.vmap(Uniform(1e-5, 1.0))(keys))
    logs = np.log10(np.asarray(jax.vmap(LogUniform(1e-4, 1.0))(keys)))
    assert plain.mean() == pytest.approx(0.5, abs=0.01)
    assert logs.mean() == pytest.approx(-2.0, abs=0.04)
    assert -4 <= logs.min() < -3.99
    assert -0.01 < logs.max() <= 0


def test_a_number_drawn_beside_another_changes_nothing_about_it():
    one = DrawnNumbers((("a", Uniform(0.0, 1.0)),))
    two = DrawnNumbers((("a", Uniform(0.0, 1.0)), ("b", Uniform(0.0, 1.0))))
    both = two(KEY, {"c": jnp.float32(7)})
    assert float(one(KEY, {})["a"]) == float(both["a"]) != float(both["b"])
    assert float(both["c"]) == 7


def test_an_agent_that_is_not_to_learn_is_a_part_of_the_game():
    plan = prepare(load(["ipd/ppo", *META, "agent2.learning=false"]))
    assert [slot.learns for slot in plan.experiment.slots] == [True, False]
    assert any("PPO (player 2) plays untrained" in n for n in plan.notices)


@pytest.mark.slow
def test_a_preloaded_opponent_plays_what_it_is_given_in_training(trained):
    model = trained.path / "models" / "player1.msgpack"
    words = ("agent2.learning=false", f"agent2.model_path={model}", "num_opponents=3")
    plan = prepare(load(["ipd/ppo", "agent2=Naive", *META, *words]))
    assert plan.notices == () or "untrained" not in " ".join(plan.notices)
    program = program_of(plan)
    before = jax.tree.map(np.asarray, program.state.agents[1].params)
    program.run(1)
    jax.tree.map(np.testing.assert_array_equal, before, program.state.agents[1].params)
    fresh = plan.experiment.init(KEY, plan.params).agents[1].params
    same = jax.tree.map(lambda a, b: np.array_equal(a[0], b), before, fresh)
    assert not all(jax.tree.leaves(same))


@pytest.mark.slow
def test_every_opponent_starts_each_trial_from_the_weights_it_is_given(trained):
    model = trained.path / "models" / "player1.msgpack"
    words = (f"agent2.model_path={model}", "num_opponents=3", "agent2.reset=trial")
    plan = prepare(
        load(["ipd/ppo", "agent2=Naive", *META, *words, "agent2.clock=inner",
              "agent2.learning_rate=0", "agent2.shared_torso=true"])
    )  # fmt: skip
    program = program_of(plan)
    before = jax.tree.map(np.asarray, program.state.agents[1].params)
    assert all(x.shape[1] == 3 for x in jax.tree.leaves(before))
    program.run(2)
    jax.tree.map(np.testing.assert_array_equal, before, program.state.agents[1].params)


def test_an_evaluation_lets_those_learn_who_learn_within_a_trial():
    words = ["ipd/ppo_v_tft", NAIVE, *META, "agent2.stop_after=2"]
    trained = prepare(load(words)).experiment.slots
    for plan in (
        evaluation(prepare(load(words))),
        prepare(load([*words, "runner=eval"])),
    ):
        slots = plan.experiment.slots
        assert [slot.learns for slot in slots] == [False, True]
        assert slots[1].schedule == trained[1].schedule == HardStop(2)
        assert slots[1].reset == "trial"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("agent2.stop_after=5", r"uniform or in \[0, 4\]"),
        (
            "agent2.stop_after=often",
            "must be uniform or a number of inner episodes, got 'often'",
        ),
        ("agent1.stop_after=1", r"set agent1\.clock=inner and num_outer_steps to 2"),
        ("agent2.sample={learning_rat: {uniform: [0, 1]}}", "did you mean 'learning_r"),
        ("agent2.sample={learning_rate: {normal: [0, 1]}}", "no distribution 'normal'"),
        ("agent2.sample={learning_rate: 1}", "must be one distribution, such as"),
        ("agent2.sample={learning_rate: {log_uniform: [0, 1]}}", "needs bounds > 0"),
        ("agent2.sample={learning_rate: {uniform: [1, 0]}}", r"\[low, high\]"),
        ("agent2.reset=0", "reset must be never, trial or a number of trials, got 0"),
        (
            "agent2.reset=often",
            "must be never, trial or a number of trials, got 'often'",
        ),
    ],
)
def test_a_setting_that_does_not_fit_says_why(word, message):
    with pytest.raises(ConfigError, match=message):
        prepare(load(["ipd/ppo_v_tft", NAIVE, *META, word]))
