"""Proximal policy optimisation: what it computes, and what it promises."""

import dataclasses
import functools
import re

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bits import equal, leaves
from learner_fakes import Seat, make_learner, make_sample, play_matrix_game

from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv.options import written
from paxenv_agents.learners.ppo import PPO, PPOConfig

SHAPE = (6, 8)
GAME = IteratedMatrixGame(4)
#: Read by runners, not by the agent.
OF_RUNNERS = {"n_steps", "num_envs"}
#: Read over continuous actions: test_ppo_continuous toggles them.
OF_BOXES = {"action_scale", "action_bound"}
#: Toggled in test_images.
OF_IMAGES = {"conv_channels", "kernel_size"}


@functools.partial(jax.jit, static_argnums=0)
def update(agent, sample, last_obs, state, memory):
    return agent.update(sample, last_obs, state, memory)


def learn(agent, shape=SHAPE, seed=0, hyper=None, **fields):
    """One update on a made-up batch; returns (state before, state after, stats)."""
    state, memory = make_learner(agent, shape[1])
    state = with_hyper(state, **(hyper or {}))
    sample = make_sample(agent, state, memory, shape, seed, **fields)
    after, _, stats = update(agent, sample, sample.observations[0], state, memory)
    return state, after, stats


def with_hyper(state, **numbers):
    traced = {name: jnp.float32(x) for name, x in numbers.items()}
    return state.replace(hyper={**state.hyper, **traced})


def tabular(**options):
    """A cheap learner: one optimiser step on a table."""
    plain = {"num_epochs": 1, "num_minibatches": 1, "tabular": True}
    return PPO.from_env(Seat(), **{**plain, **options})


TABLE = tabular()
#: Two epochs of four minibatches.
PPO_TABLE = tabular(num_epochs=2, num_minibatches=4)


# The config.


def test_the_table_of_options_is_complete_and_right():
    rows = re.findall(r"^    ([a-z_]+) +(\S.*?)  ", PPOConfig.__doc__, re.MULTILINE)
    table = {name: default for name, default in rows if name != "option"}

    assert table == {
        field.name: written(field.default) for field in dataclasses.fields(PPOConfig)
    }


TOGGLES = {
    "learning_rate": 1e-2,
    "hidden_sizes": (32,),
    "num_epochs": 3,
    "num_minibatches": 2,
    "gamma": 0.5,
    "gae_lambda": 0.5,
    "value_coeff": 2.0,
    "max_grad_norm": None,
    "entropy_coeff": 1.0,
    "entropy_coeff_end": 5.0,
    "entropy_coeff_horizon": 100,
    "learning_rate_end": 0.0,
    "num_updates": 5,
    "adam_eps": 1e-2,
    "normalise_advantages": False,
    "activation": "relu",
    "shared_torso": True,
    "tabular": True,
    "clip_epsilon": 0.01,
    "clip_value": False,
}
#: Options that end up in `state.hyper`.
TRACED = {
    "learning_rate",
    "gamma",
    "gae_lambda",
    "value_coeff",
    "max_grad_norm",
    "entropy_coeff",
    "clip_epsilon",
}
#: What a toggled option needs to matter at all.
NEEDS = {
    "entropy_coeff_end": {"num_updates": 2},
    "entropy_coeff_horizon": {"entropy_coeff_end": 5.0, "num_updates": 2},
    "learning_rate_end": {"num_updates": 2},
    "num_updates": {"learning_rate_end": 0.0, "num_updates": 9},
}


@functools.cache
def two_updates(**options):
    """Returns the parameters after two updates with these options."""
    agent = PPO.from_env(Seat(), **options)
    state, memory = make_learner(agent, 4)
    sample = make_sample(agent, state, memory, (2, 4))
    # Traced options are in the state by now: one compiled update serves them all.
    static = {n: x for n, x in options.items() if n not in TRACED}
    agent = PPO.from_env(Seat(), **static)
    for _ in range(2):
        state, memory, _ = update(agent, sample, sample.observations[0], state, memory)
    return state.params


@pytest.mark.slow
@pytest.mark.parametrize("name", TOGGLES)
def test_every_option_changes_what_is_learnt(name):
    """Two updates from one start; nothing else differs."""
    plain = {"num_epochs": 2, "num_minibatches": 1, "learning_rate": 0.1}
    base = {"hidden_sizes": (8,), **plain, **NEEDS.get(name, {})}

    plain, toggled = two_updates(**base), two_updates(**{**base, name: TOGGLES[name]})

    same_shapes = jax.tree.map(jnp.shape, plain) == jax.tree.map(jnp.shape, toggled)
    assert not same_shapes or not equal(plain, toggled)


def test_no_option_is_left_out_of_the_toggle_test():
    elsewhere = OF_RUNNERS | OF_BOXES | OF_IMAGES
    assert set(TOGGLES) | elsewhere == {f.name for f in dataclasses.fields(PPOConfig)}


@pytest.mark.parametrize(
    ("name", "value", "claim"),
    [
        ("learning_rate", -1.0, "a finite number >= 0"),
        ("learning_rate", "fast", "a finite number >= 0"),
        ("gamma", 1.5, "a number in [0, 1]"),
        ("gae_lambda", float("nan"), "a number in [0, 1]"),
        ("clip_epsilon", 0.0, "a finite number > 0"),
        ("num_epochs", 0, "a whole number >= 1"),
        ("num_minibatches", 2.5, "a whole number >= 1"),
        ("num_envs", 0, "a whole number >= 1"),
        ("hidden_sizes", (16, 0), "a sequence of whole numbers >= 1"),
        ("hidden_sizes", 16, "a sequence of whole numbers >= 1"),
        ("activation", "tahn", "one of tanh, relu, silu"),
        ("tabular", 1, "True or False"),
        ("action_scale", "tanh", "one of state_independent, softplus"),
        ("action_bound", None, "one of squashed, scaled"),
        ("entropy_coeff", None, "a finite number >= 0"),
    ],
)
def test_a_refused_value_is_named(name, value, claim):
    message = re.escape(f"{name} must be {claim}, got {value!r}")
    with pytest.raises(ValueError, match=message):
        PPOConfig(**{name: value})


def test_an_unknown_option_is_an_error_with_the_nearest_name():
    with pytest.raises(
        ValueError, match=r"'learning_rat'.*; did you mean 'learning_rate'"
    ):
        PPO.from_env(Seat(), learning_rat=0.1)


def test_equal_options_give_equal_agents():
    one = PPO.from_env(Seat(), PPOConfig(hidden_sizes=[8, 8]), player=1)
    other = PPO.from_env(Seat(), hidden_sizes=(8, 8))

    assert one == other
    assert hash(one) == hash(other)
    assert one != PPO.from_env(Seat(), hidden_sizes=(8, 9))
    with pytest.raises(ValueError, match="takes a PPOConfig, got '1'"):
        PPO.from_env(Seat(), "1")


# Acting.


@pytest.mark.slow
def test_acting_draws_by_lane_and_leaves_the_training_state():
    """Lanes never share their noise."""
    agent = TABLE
    state, memory = make_learner(agent, 256)

    actions, after, moved = agent.batch_policy(state, jnp.full(256, 4), memory)

    # 256 fair coins: 4 standard errors of the mean are 0.125.
    assert float(actions.mean()) == pytest.approx(0.5, abs=0.125)
    assert equal(after, state)
    np.testing.assert_allclose(moved.extras["log_probs"], np.log(0.5), atol=1e-6)
    keys_before, keys_after = (jax.random.key_data(m.key) for m in (memory, moved))
    assert (keys_before != keys_after).any(axis=1).all()


def test_a_greedy_agent_takes_the_likeliest_action():
    agent = dataclasses.replace(TABLE, greedy=True)
    state, memory = make_learner(agent, 5)
    logits = jnp.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [-1.0, 3.0], [0.0, 0.0]])
    state = state.replace(params={**state.params, "logits": logits})

    actions, _, _ = agent.batch_policy(state, jnp.arange(5), memory)

    assert actions.tolist() == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("greedy", [False, True])
def test_a_policy_of_nan_is_never_reported_as_an_action(greedy):
    agent = dataclasses.replace(TABLE, greedy=greedy)
    state, memory = make_learner(agent, 4)
    state = state.replace(params=jax.tree.map(lambda x: x * jnp.nan, state.params))

    _, _, moved = agent.batch_policy(state, jnp.arange(4), memory)

    assert np.isnan(moved.extras["log_probs"]).all()


@pytest.mark.slow
def test_actions_count_from_the_start_of_their_space():
    seat = Seat(action=gymnasium.spaces.Discrete(2, start=5))
    agent = PPO.from_env(seat, tabular=True)
    state, memory = make_learner(agent, 64)

    actions, _, moved = agent.batch_policy(state, jnp.zeros(64, jnp.int32), memory)
    sample = make_sample(agent, state, memory, (1, 64), actions=actions[None])

    assert set(actions.tolist()) == {5, 6}
    np.testing.assert_allclose(
        sample.behavior_log_probs[0], moved.extras["log_probs"], atol=1e-6
    )


# Learning.


@pytest.mark.slow
def test_the_ratio_is_one_before_the_first_update():
    agents = [PPO.from_env(GAME, player=p, hidden_sizes=(8,)) for p in range(2)]
    states = [make_learner(agent, 1, seed=p)[0] for p, agent in enumerate(agents)]

    play = jax.jit(lambda: play_matrix_game(agents, GAME, GAME.default_params, states))

    samples, _, _ = play()

    for agent, state, sample in zip(agents, states, samples, strict=True):
        log_probs, values, _ = agent.evaluate(state, sample)
        np.testing.assert_allclose(log_probs, sample.behavior_log_probs, atol=1e-6)
        np.testing.assert_allclose(values, sample.behavior_values, atol=1e-6)


@pytest.mark.slow
def test_the_first_optimiser_step_reports_no_clip_and_no_divergence():
    _, _, stats = learn(TABLE)

    assert float(stats["clip_fraction"]) == 0.0
    assert float(stats["approx_kl"]) == pytest.approx(0.0, abs=1e-6)
    assert float(stats["entropy"]) == pytest.approx(0.6931472, abs=1e-6)


@pytest.mark.slow
def test_the_loss_is_the_sum_of_its_parts_in_literal_numbers():
    """Two terminal steps: advantages 3, 1 become 1, -1 and values miss by 3, 1."""
    state, memory = make_learner(TABLE, 2)
    sample = make_sample(
        TABLE,
        state,
        memory,
        (1, 2),
        rewards=jnp.array([[3.0, 1.0]]),
        dones=jnp.ones((1, 2), bool),
        # The behaviour made both actions half as likely: ratio 2, clipped to 1.2.
        behavior_log_probs=jnp.full((1, 2), np.log(0.25)),
    )
    batch = TABLE.make_batch(sample, sample.observations[0], state, memory)

    total, stats = TABLE.loss(state.params, state, batch, jnp.float32(0.1))

    # -(min(2, 1.2) * 1 + min(-2, -1.2)) / 2 = -(1.2 - 2) / 2
    assert float(stats["loss/policy"]) == pytest.approx(0.4, abs=1e-5)
    assert float(stats["loss/value"]) == pytest.approx((9 + 1) / 2, abs=1e-5)
    assert float(total) == pytest.approx(0.4 + 0.5 * 5 - 0.1 * 0.6931472, abs=1e-5)
    assert float(stats["clip_fraction"]) == 1.0
    assert float(stats["approx_kl"]) == pytest.approx(1 - np.log(2), abs=1e-5)


def test_what_was_rewarded_becomes_likelier():
    sample = {
        "actions": jnp.tile(jnp.array([0, 1]), (6, 4)),
        "dones": jnp.ones(SHAPE, bool),
    }
    rewards = (sample["actions"] == 1).astype(jnp.float32)

    _, after, _ = learn(TABLE, rewards=rewards, **sample)

    seen = after.params["logits"][after.params["logits"].any(axis=1)]
    assert (seen[:, 1] > seen[:, 0]).all()


@pytest.mark.slow
def test_ppo_learns_to_defect_against_random_play():
    """Defection dominates: 400 games of 4 steps, 60 updates, P(C) from 0.5 to < 0.1."""
    agents = [
        PPO.from_env(GAME, player=0, tabular=True, learning_rate=0.1),
        PPO.from_env(GAME, player=1, tabular=True, learning_rate=0.0),
    ]
    states = [make_learner(agent, 1, seed=p)[0] for p, agent in enumerate(agents)]

    def iteration(state, seed):
        samples, last, memories = play_matrix_game(
            agents, GAME, GAME.default_params, [state, states[1]], seed
        )
        state, _, _ = agents[0].update(samples[0], last[0], state, memories[0])
        return state, (samples[0].actions == 0).mean()

    _, cooperation = jax.jit(lambda s: jax.lax.scan(iteration, s, jnp.arange(60)))(
        states[0]
    )

    assert float(cooperation[0]) == pytest.approx(0.5, abs=0.25)
    assert float(cooperation[-10:].mean()) < 0.1


@pytest.mark.slow
def test_the_entropy_bonus_reaches_the_policy():
    """At weight 10 the entropy stays above 0.68 of log 2 = 0.693."""
    state, memory = make_learner(PPO_TABLE, SHAPE[1])
    skewed = {**state.params, "logits": jnp.tile(jnp.array([1.0, -1.0]), (5, 1))}
    state = with_hyper(state, entropy_coeff=10.0, learning_rate=0.05)
    state = state.replace(params=skewed)

    for seed in range(30):
        sample = make_sample(PPO_TABLE, state, memory, SHAPE, seed)
        state, memory, stats = update(
            PPO_TABLE, sample, sample.observations[0], state, memory
        )

    assert float(stats["entropy"]) > 0.68


@pytest.mark.slow
def test_each_player_learns_from_its_own_reward():
    """Zeroing player 2's rewards leaves player 1's gradient unchanged."""
    agents = [PPO.from_env(GAME, player=p, tabular=True) for p in range(2)]
    states = [make_learner(agent, 1, seed=p)[0] for p, agent in enumerate(agents)]
    alone = GAME.default_params.payoff_matrix * jnp.array([1.0, 0.0])

    @jax.jit
    def first_update(payoff):
        params = GAME.default_params.replace(payoff_matrix=payoff)
        samples, last, memories = play_matrix_game(agents, GAME, params, states)
        return [
            agents[p].update(samples[p], last[p], states[p], memories[p])[0].params
            for p in range(2)
        ]

    both, zeroed = first_update(GAME.default_params.payoff_matrix), first_update(alone)

    assert equal(both[0], zeroed[0])
    assert not equal(both[1], zeroed[1])


@pytest.mark.slow
@pytest.mark.parametrize("num_games", [1, 4])
def test_minibatches_of_one_step_still_teach(num_games):
    """Advantages are normalised over the batch, not the minibatch."""
    agent, shape = tabular(num_minibatches=num_games), (1, num_games)

    state, after, stats = learn(
        agent, shape, hyper={"entropy_coeff": 0}, dones=jnp.ones(shape, bool)
    )

    assert all(np.isfinite(leaf).all() for leaf in leaves((after.params, stats)))
    assert not equal(state.params["logits"], after.params["logits"])


def test_a_constant_reward_teaches_only_entropy():
    """Equal advantages are not blown up by their rounding noise."""
    rewards, dones = jnp.full(SHAPE, 0.1), jnp.ones(SHAPE, bool)

    state, after, _ = learn(
        TABLE, hyper={"entropy_coeff": 0}, rewards=rewards, dones=dones
    )

    assert equal(state.params["logits"], after.params["logits"])
    assert not equal(state.params["values"], after.params["values"])


@pytest.mark.slow
def test_steps_that_were_not_played_teach_nothing():
    state, memory = make_learner(PPO_TABLE, SHAPE[1])
    short = make_sample(PPO_TABLE, state, memory, SHAPE)
    last_obs = short.observations[0]

    def pad(x):
        return jnp.concatenate([x, jnp.full((3, *x.shape[1:]), 1, x.dtype)])

    played = jnp.tile(jnp.arange(9)[:, None] < 6, (1, SHAPE[1]))
    padded = jax.tree.map(pad, short)._replace(valid=played)

    expected, _, stats = update(PPO_TABLE, short, last_obs, state, memory)
    got, _, padded_stats = update(PPO_TABLE, padded, last_obs, state, memory)

    assert int(expected.timesteps) == int(got.timesteps) == 48
    for a, b in zip(leaves(expected), leaves(got), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    for name, value in stats.items():
        np.testing.assert_allclose(value, padded_stats[name], rtol=1e-4, atol=1e-5)


def test_a_batch_without_a_played_step_changes_nothing():
    state, after, stats = learn(PPO_TABLE, valid=jnp.zeros(SHAPE, bool))

    assert equal(state, after)
    assert all(np.isfinite(leaf).all() for leaf in leaves(stats))


def test_fields_that_are_left_out_mean_no_cut_and_all_valid():
    missing = dict.fromkeys(("truncations", "final_values", "valid"))

    _, full, _ = learn(TABLE)
    _, short, _ = learn(TABLE, **missing)

    for a, b in zip(leaves(short), leaves(full), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_a_cut_batch_ignores_what_is_seen_next():
    """The last step was truncated, so only its final value counts."""
    state, memory = make_learner(PPO_TABLE, SHAPE[1])
    values = jax.random.normal(jax.random.key(3), (5,))
    state = state.replace(params={**state.params, "values": values})
    ends = jnp.zeros(SHAPE, bool).at[-1].set(True)

    def learnt(last_obs, **fields):
        sample = make_sample(PPO_TABLE, state, memory, SHAPE, **fields)
        seen = jnp.full(SHAPE[1], last_obs, jnp.int32)
        return update(PPO_TABLE, sample, seen, state, memory)[0]

    cut = {"truncations": ends, "final_values": ends * 2.0}
    assert equal(learnt(0, **cut), learnt(1, **cut))
    assert not equal(learnt(0), learnt(1))


def test_games_that_do_not_split_are_split_in_time():
    _, after, _ = learn(tabular(num_minibatches=3), (6, 8))

    assert int(after.opt_state.count) == 3


@pytest.mark.slow
def test_a_batch_that_does_not_split_is_an_error_before_compilation():
    """10 games of 15 steps in 4 minibatches."""
    agent = PPO.from_env(Seat(), num_minibatches=4)

    for attempt in (lambda: learn(agent, (15, 10)), lambda: agent.check_batch(15, 10)):
        with pytest.raises(
            ValueError, match=r"num_minibatches=4 .* 10 games .* 15 steps"
        ):
            attempt()
    agent.check_batch(15, 12)


def test_updates_are_deterministic_and_advance_their_own_key():
    state, one, _ = learn(PPO_TABLE)
    _, other, _ = learn(PPO_TABLE)

    assert equal(one, other)
    assert not equal(state.key, one.key)
    assert int(one.timesteps) == 48


@pytest.mark.slow
def test_eager_and_compiled_updates_agree():
    state, memory = make_learner(TABLE, SHAPE[1])
    sample = make_sample(TABLE, state, memory, SHAPE)

    with jax.disable_jit():
        eager, _, _ = TABLE.update(sample, sample.observations[0], state, memory)
    compiled, _, _ = update(TABLE, sample, sample.observations[0], state, memory)

    for a, b in zip(leaves(eager), leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


# Traced hyperparameters and schedules.


def test_a_disabled_learner_keeps_its_whole_state():
    state, after, _ = learn(PPO_TABLE, hyper={"enabled": 0})

    assert equal(state, after)


def test_hyperparameters_are_float32_scalars_with_the_values_of_the_config():
    state, _ = make_learner(tabular(max_grad_norm=None), 1)

    assert {name: float(x) for name, x in state.hyper.items()} == pytest.approx(
        {
            "learning_rate": 3e-4,
            "entropy_coeff": 0.01,
            "gamma": 0.99,
            "gae_lambda": 0.95,
            "value_coeff": 0.5,
            "max_grad_norm": np.inf,
            "clip_epsilon": 0.2,
            "enabled": 1.0,
        }
    )
    kinds = {(x.shape, str(x.dtype)) for x in state.hyper.values()}
    assert kinds == {((), "float32")}


def test_fifty_updates_with_schedules_compile_once():
    """Learning rate, entropy weight and clip change at every update."""
    agent = PPO.from_env(
        Seat(),
        tabular=True,
        learning_rate_end=0.0,
        entropy_coeff_end=0.0,
        num_updates=50,
    )
    state, memory = make_learner(agent, SHAPE[1])
    sample = make_sample(agent, state, memory, SHAPE)
    compiled = jax.jit(agent.update)

    for k in range(50):
        state = with_hyper(state, clip_epsilon=0.2 - 0.003 * k)
        state, memory, _ = compiled(sample, sample.observations[0], state, memory)

    assert compiled._cache_size() == 1


def test_the_learning_rate_is_a_line_over_all_planned_optimiser_steps():
    """Steps = updates x epochs x minibatches; both ends are met."""
    options = {"num_epochs": 2, "num_minibatches": 2, "num_updates": 3}
    agent = PPO.from_env(
        Seat(), tabular=True, learning_rate=1e-2, learning_rate_end=1e-3, **options
    )
    state, memory = make_learner(agent, SHAPE[1])
    sample = make_sample(agent, state, memory, SHAPE)
    rates = [float(agent.learning_rate(state.hyper, jnp.asarray(0)))]

    for _ in range(4):
        state, memory, stats = update(
            agent, sample, sample.observations[0], state, memory
        )
        rates.append(float(stats["learning_rate"]))

    # The first of 12 steps, then the last steps 3, 7, 11 of each update; then no more.
    expected = [1e-2 - 9e-3 * k / 11 for k in (0, 3, 7, 11, 11)]
    np.testing.assert_allclose(rates, expected, rtol=1e-5)
    assert int(state.opt_state.count) == 16


def test_a_learning_rate_may_end_at_zero_but_not_below():
    agent = tabular(learning_rate_end=0.0, num_updates=2)
    state, memory = make_learner(agent, SHAPE[1])
    sample = make_sample(agent, state, memory, SHAPE)
    rates, params = [], []

    for _ in range(3):
        state, memory, stats = update(
            agent, sample, sample.observations[0], state, memory
        )
        rates.append(float(stats["learning_rate"]))
        params.append(state.params)

    np.testing.assert_allclose(rates, [3e-4, 0.0, 0.0], atol=1e-10)
    assert equal(params[0], params[2])


@pytest.mark.slow
def test_the_entropy_weight_is_a_line_over_timesteps_or_planned_updates():
    shared = {"entropy_coeff": 1.0, "entropy_coeff_end": 0.2}
    by_plan = tabular(num_updates=5, **shared)
    by_timesteps = tabular(entropy_coeff_horizon=192, **shared)

    for agent in (by_plan, by_timesteps):
        state, memory = make_learner(agent, SHAPE[1])
        sample = make_sample(agent, state, memory, SHAPE)
        weights = []
        for _ in range(6):
            state, memory, stats = update(
                agent, sample, sample.observations[0], state, memory
            )
            weights.append(float(stats["entropy_coeff"]))
        # 48 steps an update: 192 of them pass in 4 updates.
        np.testing.assert_allclose(weights, [1, 0.8, 0.6, 0.4, 0.2, 0.2], rtol=1e-5)


@pytest.mark.slow
def test_a_schedule_without_a_plan_is_an_error_until_one_is_made():
    agent = PPO.from_env(Seat(), learning_rate_end=0.0)

    with pytest.raises(ValueError, match="num_updates is None"):
        make_learner(agent, 1)
    assert agent.planned(7).config.num_updates == 7
    assert agent.planned(7).planned(9).config.num_updates == 7
    make_learner(agent.planned(7), 1)


def test_stats_have_fixed_names_and_are_float32_scalars():
    _, _, stats = learn(PPO_TABLE)

    assert set(stats) == {
        "loss/total",
        "loss/policy",
        "loss/value",
        "entropy",
        "approx_kl",
        "clip_fraction",
        "grad_norm",
        "learning_rate",
        "entropy_coeff",
        "explained_variance",
        "advantage_mean",
        "advantage_std",
        "value_mean",
        "return_mean",
    }
    assert {(x.shape, str(x.dtype)) for x in stats.values()} == {((), "float32")}
