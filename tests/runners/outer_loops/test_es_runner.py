"""Evolution around training: every individual is its own, and really trains.

A climber's level rises by its learning rate (times its batch size) with each update, an
update takes 4 steps, and an episode of two steps pays the level twice.
"""

import bits
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from outer_fakes import climber

from paxenv_agents.learners.dqn import DQN
from paxenv_agents.learners.ppo import PPO
from runners.engine import population
from runners.search.dims import SearchDim
from runners.search.outer_options import ESConfig
from runners.search.space import make_space
from runners.views.outer_loops.es_runner import ESRunner
from runners.views.outer_loops.inner_loop import Hook

RATE = SearchDim("learning_rate", 0.0, 1.0)
ENTROPY = SearchDim("entropy_coeff", 0.0, 10.0)
#: Three updates.
BUDGET = 12


def make(*targets, hooks=(), options=None, **config):
    agent, env, params = climber(**(options or {}))
    settings = {
        "strategy": "SimpleES",
        "population_size": 6,
        "iterations": 2,
        "num_steps_per_iteration": BUDGET,
        "eval_episodes": 2,
        **config,
    }
    config = ESConfig(search_targets=targets, **settings)
    return ESRunner(agent, env, params, config, hooks=hooks)


def spied(runner):
    """Returns a list that gets (parent, members, what became of them)."""
    seen = []
    judge = runner.generations.individuals.evaluate

    def spy(parent, members, **options):
        evaluated = judge(parent, members, **options)
        seen.append((parent, members, evaluated))
        return evaluated

    runner.generations.individuals.evaluate = spy
    return seen


@pytest.fixture(scope="module")
def searched():
    """A search over parameters and two hyperparameters."""
    runner = make("parameters", RATE, ENTROPY)
    seen, rows = spied(runner), []
    runner.on_row = lambda i, steps, row: rows.append((i, steps, row))
    return runner, seen, rows, runner.run()


def expected_fitness(runner, members, updates=3):
    """Returns two steps of the level to which each individual climbs."""
    places = members["hyper"]["learning_rate"]
    rates = RATE.value(places, jnp)
    return np.asarray(2 * (members["parameters"][0] + updates * rates))


@pytest.mark.slow
def test_every_individual_trains_from_a_clean_copy_with_its_own_values(searched):
    """The last one of the last generation too, and nothing leaks to it."""
    runner, seen, _, _ = searched
    for _, members, evaluated in seen[:2]:
        fitness = np.asarray(evaluated.statistics["mean_eval_reward"])
        np.testing.assert_allclose(
            fitness, expected_fitness(runner, members), rtol=1e-5
        )
        assert evaluated.steps.tolist() == [BUDGET] * 6
        assert len({round(float(x), 6) for x in fitness}) == 6


@pytest.mark.slow
def test_parameters_and_two_hyperparameters_get_three_values(searched):
    """A value is never that of another target."""
    runner, seen, _, _ = searched
    parent, members, _ = seen[0]
    solution = jax.tree.map(lambda x: x[0], members)
    learner, _ = runner.space.applied(parent.learner, parent.env_params, solution)
    got = (
        float(learner.params["level"]),
        float(learner.hyper["learning_rate"]),
        float(learner.hyper["entropy_coeff"]),
    )
    places = solution["hyper"]
    wanted = (
        float(solution["parameters"][0]),
        RATE.value(float(places["learning_rate"])),
        ENTROPY.value(float(places["entropy_coeff"])),
    )
    assert got == pytest.approx(wanted, rel=1e-5)
    assert len(set(got)) == 3


def test_keys_advance_from_generation_to_generation_and_follow_the_seed(searched):
    """The noise of a generation is its own."""
    _, seen, _, _ = searched
    keys = [
        jax.random.key_data(key).tolist()
        for parent, _, _ in seen
        for key in (parent.train_key, parent.eval_key)
    ]
    assert len({tuple(key) for key in keys}) == 6  # two generations and the end
    other = make("parameters", RATE, ENTROPY, seed=1)
    again = spied(other)
    other.next_generation()
    first, others = seen[0][1], again[0][1]
    assert (first["parameters"][0] != others["parameters"][0]).all()
    offsets = [np.asarray(m["parameters"][0]) for _, m, _ in seen[:2]]
    assert not np.allclose(
        offsets[0] - offsets[0].mean(), offsets[1] - offsets[1].mean()
    )


def test_only_parameters_of_the_policy_are_searched(searched):
    """A critic that no action depends on has no dimension."""
    runner, _, _, _ = searched
    assert runner.total_n_params == 1
    assert runner.strategy.num_dims == 3


@pytest.mark.parametrize(
    ("agent", "total"), [(PPO, 4 * 8 + 8 + 8 * 2 + 2), (DQN, 4 * 8 + 8 + 8 * 2 + 2)]
)
def test_a_value_head_and_a_target_network_are_not_counted(agent, total):
    import paxenv

    env, _ = paxenv.make("CartPole-v1")
    made = agent.from_env(env, hidden_sizes=(8,))
    params = jax.eval_shape(made.init_state, jax.random.key(0)).params
    assert sum(x.size for x in population.taken(made, params)) == total


def test_the_log_holds_fitness_as_it_is_and_never_a_rank(searched):
    _, seen, rows, _ = searched
    for (_, _, evaluated), (_, _, row) in zip(seen, rows, strict=False):
        fitness = np.asarray(evaluated.statistics["mean_eval_reward"])
        assert row["fitness/best"] == pytest.approx(fitness.max())
        assert row["fitness/mean"] == pytest.approx(fitness.mean())
        assert row["fitness/worst"] == pytest.approx(fitness.min())
    assert [(i, steps) for i, steps, _ in rows] == [(1, 72), (2, 144)]


def test_the_best_is_evaluated_again_and_returned_with_the_mean(searched):
    """What is returned is what was found, with every key that is read."""
    runner, seen, _, (train, evaluation) = searched
    fitness = np.stack([j.statistics["mean_eval_reward"] for _, _, j in seen[:2]])
    assert train["best"]["fitness"] == pytest.approx(fitness.max())
    assert train["best"]["generation"] == int(fitness.max(1).argmax())
    assert train["step"] == 2
    # The end trains two: the best solution and the middle of the search.
    assert train["env_step"] == 144 + 2 * BUDGET
    assert evaluation["mean_eval_reward"] == pytest.approx(fitness.max())
    assert evaluation["retrained"]["mean_eval_reward"] == pytest.approx(fitness.max())
    center = runner.generations.center
    middle = expected_fitness(runner, jax.tree.map(lambda x: x[None], center))[0]
    assert evaluation["final_mean"]["mean_eval_reward"] == pytest.approx(middle)
    assert 2 * float(runner.agent.params["level"]) == pytest.approx(fitness.max())
    assert train["best"]["values"]["learning_rate"] == pytest.approx(
        runner.agent.hyperparams["learning_rate"]
    )


def test_it_climbs(searched):
    _, _, rows, _ = searched
    assert rows[1][2]["fitness/mean"] > rows[0][2]["fitness/mean"]


@pytest.mark.slow
def test_without_training_an_individual_is_evaluated_as_it_is():
    runner = make("parameters", train_agent=False)
    seen = spied(runner)
    runner.next_generation()
    _, members, evaluated = seen[0]
    fitness = np.asarray(evaluated.statistics["mean_eval_reward"])
    np.testing.assert_allclose(fitness, 2 * members["parameters"][0], rtol=1e-5)
    assert evaluated.steps.tolist() == [0] * 6
    assert runner.env_steps == 0


@pytest.mark.slow
def test_repeats_train_an_individual_several_times_and_fitness_is_their_mean():
    """A climber ends at the same level in each: the mean is what one would get."""
    runner = make("parameters", RATE, repeats=3)
    seen = spied(runner)
    runner.next_generation()
    _, members, evaluated = seen[0]
    fitness = np.asarray(evaluated.statistics["mean_eval_reward"])
    np.testing.assert_allclose(fitness, expected_fitness(runner, members), rtol=1e-5)
    assert evaluated.steps.tolist() == [3 * BUDGET] * 6
    assert evaluated.statistics["eval/n_episodes"].tolist() == [6] * 6
    assert runner.env_steps == 6 * 3 * BUDGET


@pytest.mark.slow
def test_batch_sizes_are_grouped_by_value_and_the_best_of_all_groups_is_found():
    choices = SearchDim("_batch_size", scale="choice", choices=(1, 3))
    with pytest.warns(UserWarning, match="up to 2 are compiled"):
        runner = make(choices, sigma_hyper=3.0)
    seen = spied(runner)
    runner.next_generation()
    _, members, evaluated = seen[0]
    sizes = [choices.value(float(z)) for z in members["hyper"]["batch_size"]]
    assert set(sizes) == {1, 3}
    fitness = np.asarray(evaluated.statistics["mean_eval_reward"])
    # Two steps of three updates of 0.25 times the batch size.
    np.testing.assert_allclose(fitness, [2 * 3 * 0.25 * size for size in sizes])
    assert (
        len(runner.generations.individuals._loops) == 3
    )  # the parent's own, and one for each
    assert float(evaluated.learner.params["level"]) == pytest.approx(3 * 0.25 * 3)
    assert evaluated.steps.tolist() == [BUDGET] * 6


@pytest.mark.slow
def test_widths_that_change_the_networks_start_from_a_fresh_parent():
    units = SearchDim("n_units", scale="choice", choices=(2, 5))
    with pytest.warns(UserWarning, match="n_units"):
        runner = make(units, RATE, sigma_hyper=3.0)
    runner.run()
    widest = runner.best.learner.params["critic"].shape
    assert widest in ((2,), (5,))
    assert runner.agent.params["critic"].shape == widest


@pytest.mark.slow
def test_a_number_of_the_game_is_searched():
    runner = make(SearchDim("env.unit", 1.0, 3.0), SearchDim("env.table", 0.0, 2.0))
    seen = spied(runner)
    runner.next_generation()
    _, members, evaluated = seen[0]
    assert members["hyper"]["env.table"].shape == (6, 2, 2)
    unit = SearchDim("u", 1.0, 3.0).value(members["hyper"]["env.unit"], jnp)
    table = SearchDim("t", 0.0, 2.0).value(members["hyper"]["env.table"], jnp)
    level = 3 * 0.25
    wanted = np.asarray(2 * level * unit * table.mean((1, 2)))
    fitness = np.asarray(evaluated.statistics["mean_eval_reward"])
    np.testing.assert_allclose(fitness, wanted, rtol=1e-5)


@pytest.mark.slow
def test_individuals_can_be_evaluated_in_the_game_that_was_given():
    runner = make(SearchDim("env.unit", 1.0, 3.0), evaluate_in="given")
    row = runner.next_generation()
    assert row["fitness/best"] == row["fitness/worst"] == pytest.approx(2 * 0.75)


@pytest.mark.slow
def test_an_individual_that_diverged_is_counted_and_never_best():
    log = SearchDim("learning_rate", scale="choice", choices=(0.5, float("nan")))
    runner = make(log, sigma_hyper=3.0)
    row = runner.next_generation()
    assert 0 < row["population/failed"] < 6
    assert row["fitness/best"] == pytest.approx(2 * 3 * 0.5)
    assert float(runner.best.learner.params["level"]) == pytest.approx(1.5)


@pytest.mark.slow
def test_the_state_of_a_hook_spans_inner_loops_if_its_scope_is_the_run():
    """Row 50: one hook counts all updates of a run, the other those of its loop."""

    def counting(scope):
        return Hook(lambda: jnp.int32(0), lambda n, context: (n + 1, {}), scope=scope)

    runner = make(RATE, hooks=(counting("run"), counting("loop")))
    carried = []

    def held():
        return [int(n) for n in runner.agent.hook_states]

    runner.on_row = lambda *_: carried.append(held())
    runner.run()
    assert carried == [[3, 3], [6, 3]]
    assert held() == [6, 3]


@pytest.mark.parametrize(
    ("targets", "config", "said"),
    [
        ((SearchDim("learning_rat", 0, 1),), {}, "did you mean 'learning_rate'"),
        ((SearchDim("env.units", 0, 1),), {}, "did you mean 'env.unit'"),
        ((SearchDim("num_envs", 1, 4, "int"),), {}, "no hyperparameter 'num_envs'"),
        ((SearchDim("batch_size", 1, 4),), {}, "scale='int'"),
        ((SearchDim("batch_size", 0, 4, "int"),), {}, "batch_size must be >= 1, got 0"),
        ((RATE,), {"train_agent": False}, "learning_rate would change nothing"),
        (("parameters",), {"fit_shaper": "weights", "strategy": "PGPE"}, "PGPE"),
        ((RATE,), {"strategy": "PGPE", "population_size": 5}, "in pairs. Try 4 or 6"),
    ],
)
def test_what_cannot_be_searched_is_an_error(targets, config, said):
    """A typo never makes a new attribute."""
    with pytest.raises(ValueError, match=said):
        make(*targets, **config)


def test_parameters_cannot_be_searched_while_their_number_changes():
    import paxenv

    env, params = paxenv.make("CartPole-v1")
    agent = PPO.from_env(env)
    learner = jax.eval_shape(agent.init_state, jax.random.key(0))
    config = ESConfig(search_targets=("parameters", "n_units"), strategy="SNES")
    with pytest.raises(ValueError, match="n_units changes how many parameters"):
        make_space(config, agent, learner, params)


def test_every_run_adds_its_generations(searched):
    _, _, rows, (train, _) = searched
    runner, seen = make("parameters", RATE, ENTROPY), []
    runner.on_row = lambda i, steps, row: seen.append((i, steps, row))

    assert runner.run()[0] == train
    again, _ = runner.run()

    assert seen[:2] == rows
    assert [i for i, _, _ in seen] == [1, 2, 3, 4]
    assert again["step"] == runner.generation == 4
    assert again["best"]["fitness"] > train["best"]["fitness"]


def test_a_search_that_goes_on_ends_with_the_same_bits():
    whole = make("parameters", RATE, ENTROPY, iterations=4)
    wanted = whole.run()
    first = make("parameters", RATE, ENTROPY, iterations=4)
    first.should_stop = lambda: first.generation == 2
    first.advance()
    second = make("parameters", RATE, ENTROPY, iterations=4)
    second.restore(first.snapshot())
    assert second.run() == wanted
    bits.assert_same(whole.snapshot(), second.snapshot())
