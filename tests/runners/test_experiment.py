"""What an experiment and its compiled chunk promise."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Dice, Fixed, Recorder, seated

import paxenv
from paxenv.envs.iterated_matrix_game import EnvParams, IteratedMatrixGame
from paxenv_agents.engine.lineup import Slot
from runners.engine.experiment import Experiment, lane_keys, train_chunk
from runners.engine.outer import Frozen, Gradient

PARAMS = EnvParams(payoff_matrix=[[-1, -1], [-3, 0], [0, -3], [-2, -2]])
KEY = jax.random.key(11)


def learner_against_dice(outer=None, num_games=4, steps=3, **options):
    env = IteratedMatrixGame(steps, options.pop("num_outer_steps", 1))
    slot = options.pop("slot", {})
    return Experiment(
        env=env,
        slots=(
            Slot(seated(Recorder, env), (0,), **slot),
            Slot(seated(Dice, env, 1), (1,)),
        ),
        outer=outer or Gradient(),
        num_games=num_games,
        chunk_size=8,
        **options,
    )


def rows(metrics, n):
    return {name: np.asarray(column)[:n] for name, column in metrics.items()}


def test_a_chunk_in_pieces_equals_the_chunk_in_one_bit_for_bit():
    experiment = learner_against_dice()
    state = experiment.init(KEY, PARAMS)
    whole, metrics = train_chunk(experiment, state, 7)
    first, a = train_chunk(experiment, state, 3)
    second, b = train_chunk(experiment, first, 4)
    for name, column in rows(metrics, 7).items():
        pieces = np.concatenate([rows(a, 3)[name], rows(b, 4)[name]])
        np.testing.assert_array_equal(column, pieces, err_msg=name)
    assert int(second.iteration) == int(whole.iteration) == 7
    assert float(second.agents[0].params) == float(whole.agents[0].params) == 7.0


@pytest.mark.slow
def test_one_compile_serves_every_chunk_length_and_equal_experiments():
    from runners.engine.experiment import _train_chunk

    experiment = learner_against_dice(num_games=5)
    state = experiment.init(KEY, PARAMS)
    before = _train_chunk._cache_size()
    for n in (1, 5, 8):
        train_chunk(experiment, state, n)
    train_chunk(learner_against_dice(num_games=5), state, 2)
    assert _train_chunk._cache_size() == before + 1


def test_rows_that_were_not_run_are_nan_and_too_many_are_refused():
    experiment = learner_against_dice()
    state = experiment.init(KEY, PARAMS)
    _, metrics = train_chunk(experiment, state, 2)
    column = np.asarray(metrics["episode/return/player_1"])
    assert column.shape == (8,)
    assert np.isfinite(column[:2]).all()
    assert np.isnan(column[2:]).all()
    with pytest.raises(ValueError, match=r"must be in \[0, 8\], the chunk size, got 9"):
        train_chunk(experiment, state, 9)


def test_the_caller_keeps_what_it_passes_in():
    experiment = learner_against_dice()
    params = EnvParams(payoff_matrix=[[-1, -1], [-3, 0], [0, -3], [-2, -2]])
    state = experiment.init(KEY, params)
    chunk = jax.jit(
        functools.partial(train_chunk, experiment, num_iterations=1), donate_argnums=0
    )
    chunk(state)
    assert np.asarray(params.payoff_matrix).shape == (4, 2)


@pytest.mark.slow
def test_many_seeds_in_one_call_equal_their_single_runs():
    experiment = learner_against_dice()
    run_keys = jax.vmap(jax.random.fold_in, (None, 0))(KEY, jnp.arange(3))
    states = jax.vmap(experiment.init, (0, None))(run_keys, PARAMS)
    _, together = jax.vmap(functools.partial(train_chunk, experiment), (0, None))(
        states, jnp.int32(4)
    )
    single = train_chunk(experiment, experiment.init(run_keys[1], PARAMS), 4)[1]
    for name, column in rows(single, 4).items():
        np.testing.assert_allclose(
            together[name][1, :4], column, rtol=1e-5, err_msg=name
        )
    returns = np.asarray(together["episode/return/player_1"][:, :4])
    assert len({tuple(r) for r in returns.round(4).tolist()}) == 3


@pytest.mark.slow
def test_a_lane_of_a_run_is_replayed_from_its_key():
    env = IteratedMatrixGame(3)
    slots = (Slot(seated(Dice, env), (0,)), Slot(seated(Dice, env, 1), (1,)))
    experiment = Experiment(env, slots, Frozen(), num_games=1, chunk_size=4)
    _, metrics = train_chunk(experiment, experiment.init(KEY, PARAMS), 2)
    (lane_key,) = lane_keys(experiment, KEY)[0]
    fold = jax.random.fold_in
    for e in range(2):
        actions = [[], []]
        for t in range(3):
            step_key = fold(fold(lane_key, e), 1 + t)
            for p in range(2):
                word = jax.random.key_data(fold(fold(step_key, 65537 + p), 0))[0]
                actions[p].append(int(word & 1))
        played = paxenv.replay(
            env,
            PARAMS,
            actions=tuple(np.array(a) for a in actions),
            lane_key=lane_key,
            episode=e,
        )
        expected = float(played.rewards[0].sum())
        assert float(metrics["episode/return/player_1"][e]) == expected


def test_nothing_changes_between_the_trials_of_an_evaluation():
    experiment = learner_against_dice(outer=Frozen(), slot={"clock": "none"})
    state = experiment.init(KEY, PARAMS)
    after, metrics = train_chunk(experiment, state, 3)
    assert float(after.agents[0].params) == 0.0
    assert not [name for name in metrics if name.startswith("train/")]


@pytest.mark.slow
def test_a_shared_learner_pools_its_opponents_with_games_fastest():
    experiment = learner_against_dice(num_opponents=3, num_games=4)
    _, metrics = train_chunk(experiment, experiment.init(KEY, PARAMS), 1)
    assert float(metrics["train/player_1/lanes"][0]) == 12.0
    assert float(metrics["episode/count"][0]) == 12.0


@pytest.mark.slow
def test_opponents_with_states_of_their_own_learn_apart():
    experiment = learner_against_dice(
        num_opponents=3,
        num_outer_steps=2,
        slot={"per_opponent": True, "clock": "inner"},
    )
    state, _ = train_chunk(experiment, experiment.init(KEY, PARAMS), 2)
    np.testing.assert_array_equal(state.agents[0].params, [4.0, 4.0, 4.0])
    keys = jax.random.key_data(state.agents[0].key)
    assert len({tuple(k) for k in np.asarray(keys).tolist()}) == 3


@pytest.mark.slow
def test_opponents_draw_numbers_of_their_own():
    experiment = learner_against_dice(num_opponents=64, num_games=1, steps=1)
    slots = (experiment.slots[1], Slot(experiment.slots[0].agent, (0,)))
    assert slots[0].agent.observation_space.shape == (5,)
    _, metrics = train_chunk(experiment, experiment.init(KEY, PARAMS), 1)
    # Player 1 cooperates; its mean reward shows how many of the 64 others defected.
    defectors = (-1 - float(metrics["episode/return/player_1"][0])) / 2 * 64
    assert 16 < round(defectors) < 48


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reset", "params"),
    [("never", [1, 2, 3, 4]), ("trial", [1, 1, 1, 1]), (2, [1, 2, 1, 2])],
)
def test_a_slot_starts_afresh_when_its_interval_is_due(reset, params):
    experiment = learner_against_dice(slot={"reset": reset})
    state = experiment.init(KEY, PARAMS)
    seen = []
    for _ in range(4):
        state, _ = train_chunk(experiment, state, 1)
        seen.append(float(state.agents[0].params))
    assert seen == params


@pytest.mark.slow
def test_a_sampler_draws_hyperparameters_for_each_fresh_start_and_opponent():
    experiment = learner_against_dice(
        num_opponents=3,
        num_outer_steps=2,
        slot={
            "reset": "trial",
            "per_opponent": True,
            "clock": "inner",
            "sampler": uniform_gain,
        },
    )
    state = experiment.init(KEY, PARAMS)
    gains = []
    for _ in range(2):
        state, _ = train_chunk(experiment, state, 1)
        gains += np.asarray(state.agents[0].hyper["gain"]).tolist()
    assert len(set(gains)) == 6
    # Two updates of gain each.
    np.testing.assert_allclose(
        state.agents[0].params, 2 * state.agents[0].hyper["gain"], rtol=1e-6
    )


def uniform_gain(key, hyper):
    return {"gain": jax.random.uniform(key)}


def test_a_learner_shared_by_opponents_cannot_learn_within_the_trial():
    with pytest.raises(ValueError, match="per_opponent=True or clock='trial'"):
        learner_against_dice(
            num_opponents=2, num_outer_steps=2, slot={"clock": "inner"}
        )


@pytest.mark.slow
def test_a_row_reports_returns_lengths_and_cooperation_by_state():
    env = IteratedMatrixGame(4)
    slots = (
        Slot(seated(Fixed, env), (0,)),
        Slot(seated(Fixed, env, 1, action=1), (1,)),
    )
    experiment = Experiment(env, slots, Frozen(), num_games=8, chunk_size=1)
    _, metrics = train_chunk(experiment, experiment.init(KEY, PARAMS), 1)
    row = {name: float(column[0]) for name, column in metrics.items()}
    assert row["episode/return/player_1"] == -12.0
    assert row["episode/reward_per_step/player_1"] == -3.0
    assert row["episode/reward_per_step/player_2"] == 0.0
    assert row["episode/count"] == 8.0
    assert row["episode/length"] == 4.0
    assert row["episode/welfare"] == -12.0
    assert row["episode/equality"] == 0.5
    assert row["env/cooperation_probability/player_1/CD"] == 1.0
    assert row["env/cooperation_probability/player_2/START"] == 0.0
    assert np.isnan(row["env/cooperation_probability/player_1/DD"])
    assert row["env/state_visitation/player_1/START"] == 0.25
