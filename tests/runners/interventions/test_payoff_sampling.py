"""Payoffs that are drawn for every trial."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Dice, seated

import paxenv
from paxenv.envs.coin_game import CoinGame
from paxenv.envs.iterated_matrix_game import EnvParams, IteratedMatrixGame
from paxenv_agents.engine.lineup import Slot
from runners.config import ConfigError, load
from runners.engine.experiment import Experiment, train_chunk, trial_params
from runners.engine.interventions import (
    PayoffNoise,
    PayoffSampler,
    PrisonersDilemmas,
    RandomPayoffs,
    player_axis,
)
from runners.engine.outer import Frozen
from runners.planning.plan import prepare

PARAMS = EnvParams(payoff_matrix=[[-1, -1], [-3, 0], [0, -3], [-2, -2]])
KEY = jax.random.key(5)


def drawn(sampler, n, params=PARAMS):
    keys = jax.vmap(jax.random.fold_in, (None, 0))(KEY, jnp.arange(n))
    return np.asarray(jax.vmap(sampler, (0, None))(keys, params).payoff_matrix)


def test_ten_thousand_dilemmas_are_strict():
    """T > R > P > S and 2 R > T + S, and everybody is paid symmetrically."""
    tables = drawn(PayoffSampler(PrisonersDilemmas(-5.0, 0.0)), 10_000)
    r, s, t, p = tables[:, 0, 0], tables[:, 1, 0], tables[:, 2, 0], tables[:, 3, 0]
    assert (t > r).all()
    assert (r > p).all()
    assert (p > s).all()
    assert (2 * r > t + s).all()
    assert tables.min() >= -5.0
    assert tables.max() <= 0.0
    np.testing.assert_array_equal(tables[:, :, 1], tables[:, [0, 2, 1, 3], 0])
    assert len(np.unique(t)) > 9_000


def test_dilemmas_are_distributed_as_by_rejection():
    """Means and deviations of T, R, P and S on [0, 1], against sorted uniform numbers
    of which those with 2 R <= T + S are thrown away; 20,000 draws each, and the margin
    of 1 % moves a mean by at most 0.01.
    """
    tables = drawn(PayoffSampler(PrisonersDilemmas(0.0, 1.0)), 20_000)[:, :, 0]
    ours = tables[:, [2, 0, 3, 1]]
    four = np.sort(np.random.default_rng(0).uniform(size=(40_000, 4)))[:, ::-1]
    theirs = four[2 * four[:, 1] > four[:, 0] + four[:, 3]]
    np.testing.assert_allclose(ours.mean(0), theirs.mean(0), atol=0.015)
    np.testing.assert_allclose(ours.std(0), theirs.std(0), atol=0.015)


def test_only_the_players_named_are_paid_anew():
    noisy = drawn(PayoffSampler(PayoffNoise(-0.5, 0.5), players=(1,)), 100)
    np.testing.assert_array_equal(noisy[:, :, 0], np.tile([-1.0, -3, 0, -2], (100, 1)))
    change = noisy[:, :, 1] - np.array([-1.0, 0, -3, -2])
    assert np.abs(change).max() <= 0.5
    assert np.abs(change).mean() == pytest.approx(0.25, abs=0.05)


def test_a_player_of_the_coin_game_has_a_row_and_one_by_counts_has_nothing():
    assert player_axis(2, PARAMS) == -1
    assert player_axis(2, CoinGame(16).default_params) == 0
    by_counts = paxenv.make("IteratedTensorGame", num_players=3)[1]
    assert by_counts.payoff_table.shape == (4, 2)
    with pytest.raises(ValueError, match="is the same for all 3 players"):
        player_axis(3, by_counts)


def experiment(per_opponent=True, draw=None, opponents=3):
    env = IteratedMatrixGame(1)
    return Experiment(
        env,
        (Slot(seated(Dice, env), (0,)), Slot(seated(Dice, env, 1), (1,))),
        Frozen(),
        num_games=2,
        num_opponents=opponents,
        chunk_size=4,
        params_sampler=PayoffSampler(draw or RandomPayoffs(-10.0, 0.0)),
        params_per_opponent=per_opponent,
    )


def test_opponents_get_draws_of_their_own_or_share_one_and_trials_differ():
    """Neither one draw for all opponents, nor one for all trials."""
    state = experiment().init(KEY, PARAMS)
    params, axis = trial_params(experiment(), state)
    assert axis == 0
    assert len(np.unique(np.asarray(params.payoff_matrix).round(5))) == 3 * 8
    shared, axis = trial_params(experiment(per_opponent=False), state)
    assert axis is None
    assert shared.payoff_matrix.shape == (4, 2)
    later = state.replace(iteration=jnp.int32(1))
    other = trial_params(experiment(), later)[0].payoff_matrix
    assert not np.isin(np.asarray(other), np.asarray(params.payoff_matrix)).any()


@pytest.mark.slow
def test_the_drawn_payoff_is_what_the_game_pays():
    """Everybody is paid between -10 and -9, which the game's own payoff is not."""
    drawing = experiment(draw=RandomPayoffs(-10.0, -9.0))
    _, rows = train_chunk(drawing, drawing.init(KEY, PARAMS), 4)
    paid = np.asarray(rows["episode/return/player_1"])
    assert ((paid > -10) & (paid < -9)).all()
    assert len(set(paid.tolist())) == 4


def test_equal_samplers_are_one_experiment():
    assert experiment() == experiment()
    assert hash(experiment()) == hash(experiment())
    assert experiment() != experiment(draw=RandomPayoffs(-9.0, 0.0))


def test_payoffs_are_not_drawn_in_endless_play():
    with pytest.raises(ValueError, match="for each trial: leave num_steps out"):
        Experiment(
            experiment().env,
            experiment().slots,
            num_steps=8,
            params_sampler=PayoffSampler(RandomPayoffs(-1.0, 0.0)),
        )


SAMPLER = "payoff_sampler={kind: dilemma, low: -5, high: 0"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["payoff_sampler=dilemma"], r"such as \{kind: dilemma, low: -5, high: 0\}"),
        (["payoff_sampler={kind: dilema, low: 0, high: 1}"], "must be one of random"),
        ([SAMPLER + ", player: [2]}"], r"payoff_sampler\.player; did you mean"),
        ([SAMPLER + ", players: [0]}"], "counted from 1"),
        ([SAMPLER + ", players: [3]}"], r"players must be 1 to 2, got \[3\]"),
        (["payoff_sampler={kind: noise, low: 1, high: 1}"], "bounds low < high"),
        (["payoff_sampler={kind: dilemma, low: 999, high: 1000}"], "1% of their size"),
        ([SAMPLER + "}", "env=CoinGame"], "shape \\(2, 3\\)|no game of two players"),
        ([SAMPLER + "}", "env=CartPole"], "has no payoff table"),
    ],
)
def test_a_sampler_that_does_not_fit_says_why(words, message):
    with pytest.raises(ConfigError, match=message):
        prepare(load(words))


def test_a_config_draws_dilemmas_for_the_opponent_only():
    plan = prepare(
        load(["ipd/ppo", SAMPLER + ", players: [2], shared: true}", "num_opponents=3"])
    )
    assert plan.experiment.params_sampler == PayoffSampler(
        PrisonersDilemmas(-5.0, 0.0), players=(1,), axis=-1
    )
    assert not plan.experiment.params_per_opponent
