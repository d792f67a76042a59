"""Several agents that are searched at once, beside one that learns: three players."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Counter, seated
from evolution_fakes import KEY, Sign, evolving, generation, searched

from paxenv.envs.iterated_tensor_game import IteratedTensorGame
from paxenv_agents.engine.lineup import Slot
from runners.config import ConfigError, load
from runners.engine.experiment import rollout
from runners.planning.plan import prepare

# Of the donation game: a defector is paid 1, and everybody 2 for each other cooperator.
A = jnp.array([-1.0, 1.0, -1.0, 1.0])
B = jnp.array([-1.0, -1.0, 1.0, 1.0])
# By hand, against a third who cooperates in the first of two inner episodes, and then
# has learnt to defect: 1 in the mean from it, 2 from a cooperating rival.
WORTH_A = [3.0, 4.0, 1.0, 2.0]
WORTH_B = [3.0, 1.0, 4.0, 2.0]


def with_a_learner(opponent):
    """Two agents that are searched, and one that defects after its first update."""
    env = IteratedTensorGame(3, 2, 2)
    learner = Slot(seated(Counter, env, 2), (2,), clock="inner", reset="trial")
    shapers = tuple(searched(seated(Sign, env, p), p) for p in (0, 1))
    return evolving(env, (*shapers, learner), opponent=opponent), env.default_params


@pytest.mark.parametrize(
    ("solutions", "worth"), [((A, B), (WORTH_A, WORTH_B)), ((B, A), (WORTH_B, WORTH_A))]
)
def test_a_search_is_told_its_own_players_return(solutions, worth):
    """Who changes seats with the other changes worth too."""
    made, params = with_a_learner("member")
    played = generation(made, params, (*solutions, None))
    assert [f.tolist() for f in played.fitness[:2]] == list(worth)
    assert played.fitness[2] is None


def test_against_the_mean_the_other_is_what_its_search_stands_for():
    """Both searches begin at a cooperator, whom every member of the other meets."""
    made, params = with_a_learner("mean")
    played = generation(made, params, (A, B, None))
    assert played.fitness[0].tolist() == [3.0, 4.0, 3.0, 4.0]
    assert played.fitness[1].tolist() == [3.0, 3.0, 4.0, 4.0]
    # Each population has trials of its own, in which the learner learns.
    assert played.episodes.returns.shape[0] == made.outer.num_trials == 8


GAME = (
    *("runner=evo", "env=IteratedTensorGame", "num_inner_steps=8"),
    *("num_outer_steps=12", "num_envs=8", "popsize=4", "es.top_k=2"),
    "es.objective=last",
    "agent1={name: Naive, tabular: true, es: {}}",
    "agent2={name: Naive, tabular: true, es: {strategy: CMA_ES}}",
    "agent3={name: PPO, hidden_sizes: [], clock: inner, reset: trial}",
    *("agent3.num_minibatches=1", "agent3.learning_rate=1"),
)


@pytest.mark.slow
@pytest.mark.parametrize("opponent", ["member", "mean"])
def test_a_learner_beside_several_searches_learns_within_the_trial(opponent):
    """Its defections cost the others 2 a step, as against a PPO that stops at once.

    At first it cooperates half the time. By the last inner episode it does so less,
    which took the members 0.5 to 0.65 a step with four seeds.
    """
    worth = []
    for words in ([], ["agent3.stop_after=0"]):
        plan = prepare(load([*GAME, f"es.opponent={opponent}", *words]))
        state = jax.jit(plan.experiment.init)(KEY, plan.params)
        played, _ = jax.jit(rollout, static_argnums=0)(plan.experiment, state)
        worth.append([float(jnp.mean(f)) for f in played.play.fitness[:2]])
    learning, frozen = np.array(worth)
    assert (learning < frozen - 0.3).all()


def test_searches_have_options_of_their_own_but_one_population():
    experiment = prepare(load(GAME)).experiment
    outer, slots = experiment.outer, experiment.slots
    first, second, third = outer.searches
    assert (first.options.strategy, second.options.strategy) == ("Open_ES", "CMA_ES")
    assert third is None
    assert [slot.learns for slot in slots] == [False, False, True]
    assert (slots[2].clock, slots[2].reset) == ("inner", "trial")
    with pytest.raises(ConfigError, match=r"set es\.population_size"):
        prepare(load([*GAME, "agent2.es.population_size=8"]))


SMALL = ("agents=[{name: Naive, tabular: true, es: {strategy: CMA_ES}}, AllD]",)


def test_options_of_the_run_are_of_a_search_with_a_strategy_of_its_own():
    """A spread for all searches is the spread of each; the config shows what runs."""
    plan = prepare(load([*SMALL, "runner=evo", "es.sigma_init=0.3", "popsize=4"]))
    search: Any = plan.experiment.outer.searches[0]
    assert (search.options.strategy, search.options.sigma_init) == ("CMA_ES", 0.3)
    shown = plan.config.agents[0].es
    assert shown is not None
    assert (shown["strategy"], shown["sigma_init"]) == ("CMA_ES", 0.3)
    assert prepare(plan.config).experiment == plan.experiment


def test_an_option_of_the_run_that_no_search_has_a_use_for_is_refused():
    words = [*SMALL, "runner=evo", "popsize=4", "es.learning_rate=0.3"]
    with pytest.raises(ConfigError, match="CMA_ES follows no gradient: leave learning"):
        prepare(load(words))
    both = [*words, "agent2={name: Naive, tabular: true, es: {}}"]
    first, second = prepare(load(both)).experiment.outer.searches
    assert (first.options.learning_rate, second.options.learning_rate) == (None, 0.3)


def test_another_strategy_of_a_search_leaves_stored_numbers_of_the_runs_behind():
    """The experiment has a `sigma_decay` for Open_ES, which CMA_ES cannot use."""
    words = ["ipd/gs_v_tabular", "agent1.es.strategy=CMA_ES"]
    assert load(words).es.sigma_decay is not None
    plan = prepare(load(words))
    assert plan.config.es.sigma_decay is None
    assert prepare(plan.config).experiment == plan.experiment
    with pytest.raises(ConfigError, match="CMA_ES sets its own spread: leave sigma_de"):
        prepare(load([*words, "es.sigma_decay=0.9"]))
