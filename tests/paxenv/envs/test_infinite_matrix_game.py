"""The infinite matrix game against closed forms, rollouts and published numbers."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv import payoffs
from paxenv.envs.infinite_matrix_game import (
    EnvParams,
    InfiniteMatrixGame,
    discounted_values,
    make,
    memory_one_values,
    occupancy,
)

KEY = jax.random.key(0)
STRATEGIES = {
    "AllC": (1, 1, 1, 1, 1),
    "AllD": (0, 0, 0, 0, 0),
    "TFT": (1, 0, 1, 0, 1),
    "STFT": (1, 0, 1, 0, 0),
    "WSLS": (1, 0, 0, 1, 1),
    "Grim": (1, 0, 0, 0, 1),
    "GTFT": (1, 1 / 3, 1, 1 / 3, 1),
    "Random": (0.5, 0.5, 0.5, 0.5, 0.5),
    "M1": (0.9, 0.2, 0.7, 0.1, 0.5),
    "M2": (0.3, 0.8, 0.6, 0.4, 0.9),
}
# Normalised values at gamma 0.96: -1/-3/0/-2, then 3/0/5/1.
VALUES = [
    ("AllC", "AllC", (-1.0, -1.0), (3.0, 3.0)),
    ("AllD", "AllD", (-2.0, -2.0), (1.0, 1.0)),
    ("AllC", "AllD", (-3.0, 0.0), (0.0, 5.0)),
    ("TFT", "TFT", (-1.0, -1.0), (3.0, 3.0)),
    ("TFT", "AllC", (-1.0, -1.0), (3.0, 3.0)),
    ("TFT", "AllD", (-2.04, -1.92), (0.96, 1.16)),
    ("TFT", "STFT", (-1.530612, -1.469388), (2.448980, 2.551020)),
    ("GTFT", "AllD", (-2.36, -1.28), (0.64, 2.44)),
    ("GTFT", "STFT", (-1.141079, -1.029046), (2.821577, 3.008299)),
    ("WSLS", "WSLS", (-1.0, -1.0), (3.0, 3.0)),
    ("WSLS", "AllC", (-1.0, -1.0), (3.0, 3.0)),
    ("WSLS", "AllD", (-2.510204, -0.979592), (0.489796, 3.040816)),
    ("WSLS", "STFT", (-1.680733, -1.639089), (1.985564, 2.054969)),
    ("Grim", "STFT", (-1.9632, -1.9584), (1.1136, 1.1216)),
    ("Random", "Random", (-1.5, -1.5), (2.25, 2.25)),
    ("Random", "TFT", (-1.46, -1.52), (2.32, 2.22)),
    ("M1", "TFT", (-1.467891, -1.528920), (2.207004, 2.105289)),
    ("M1", "WSLS", (-1.397430, -1.523637), (2.413012, 2.202666)),
    ("M1", "Random", (-1.471963, -1.556075), (2.292056, 2.151869)),
    ("M1", "M1", (-1.569061, -1.569061), (2.028775, 2.028775)),
]
# Discounted extortioners at gamma 0.96, -1/-3/0/-2, opening with D.
EXTORTION = {
    2: (
        (0.916667, 0.416667, 0.5, 0.0, 0.0),
        {
            "AllC": (-0.8, -1.4),
            "AllD": (-2.0, -2.0),
            "TFT": (-1.793103, -1.896552),
            "WSLS": (-1.560117, -1.780059),
            "GTFT": (-1.114754, -1.557377),
            "Random": (-1.4, -1.7),
            "M1": (-1.643623, -1.821811),
            "M2": (-1.325312, -1.662656),
        },
    ),
    3: (
        (0.872024, 0.447917, 0.424107, 0.0, 0.0),
        {
            "AllC": (-0.714286, -1.571429),
            "AllD": (-2.0, -2.0),
            "TFT": (-1.836364, -1.945455),
            "WSLS": (-1.514039, -1.838013),
            "GTFT": (-1.147368, -1.715789),
            "Random": (-1.357143, -1.785714),
            "M1": (-1.666593, -1.888864),
            "M2": (-1.266348, -1.755449),
        },
    ),
    1.5: (
        (0.955729, 0.354167, 0.601563, 0.0, 0.0),
        {
            "AllC": (-0.875, -1.25),
            "Random": (-1.4375, -1.625),
            "TFT": (-1.71875, -1.8125),
            "M1": (-1.617424, -1.744949),
        },
    ),
}
# Undiscounted 5/3/1/0 extortioners and their long-run scores.
LONG_RUN = {
    3: (
        (11 / 13, 1 / 2, 7 / 26, 0, 0),
        {
            "AllC": (41 / 11, 21 / 11),
            "AllD": (1, 1),
            "WSLS": (26 / 11, 16 / 11),
            "GTFT": (259 / 99, 457 / 297),
            "Random": (41 / 16, 73 / 48),
            "M1": (8 / 5, 6 / 5),
        },
    ),
    2: (
        (8 / 9, 1 / 2, 1 / 3, 0, 0),
        {"AllC": (7 / 2, 9 / 4), "Random": (42 / 17, 59 / 34), "M1": (5 / 3, 4 / 3)},
    ),
}
# Two pairs of logits with known values and gradients (un-normalised, gamma 0.96).
THETA_1 = (0.1, -0.2, 0.3, -0.4, 0.5)
THETA_2 = (-0.5, 0.4, -0.3, 0.2, -0.1)


@jax.jit
def pair_values(pairs, payoff, gamma):
    """Returns values [B, 2] of policies [B, 2, 5]."""

    def one(pair):
        p, q = pair
        return memory_one_values(p[:4], p[4], q[:4], q[4], payoff, gamma)

    return jax.vmap(one)(pairs)


def values_of(pairs, payoff, gamma, x64=True):
    # Padded to one size, so that each dtype compiles once.
    padded = np.zeros((64, 2, 5))
    padded[: len(pairs)] = pairs
    with jax.enable_x64(x64):
        values = pair_values(
            jnp.asarray(padded, float),
            jnp.asarray(payoffs.parse_payoff(payoff), float),
            jnp.asarray(gamma, float),
        )
        assert values.dtype == (jnp.float64 if x64 else jnp.float32)
        return np.asarray(values)[: len(pairs)]


@pytest.fixture(scope="module")
def oracle(root):
    return json.loads((root / "tests/oracles/memory_one_values.json").read_text())


@pytest.mark.parametrize(("x64", "tolerance"), [(True, 1e-6), (False, 1e-4)])
@pytest.mark.parametrize(("payoff", "column"), [("IPD", 2), ("AxelrodIPD", 3)])
def test_values_of_named_pairs(payoff, column, x64, tolerance):
    """Normalised values to 1e-6 in float64 and 1e-4 in float32."""
    pairs = [(STRATEGIES[row[0]], STRATEGIES[row[1]]) for row in VALUES]
    values = values_of(pairs, payoff, 0.96, x64)
    expected = [row[column] for row in VALUES]
    np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("x64", "tolerance"), [(True, 1e-9), (False, 1e-4)])
@pytest.mark.parametrize("gamma", [0.9, 0.96, 0.99])
@pytest.mark.parametrize("payoff", ["IPD", "AxelrodIPD"])
def test_values_of_the_whole_oracle(oracle, payoff, gamma, x64, tolerance):
    """Three hundred pairs that were checked against a rollout of 6,000 steps."""
    rows = [r for r in oracle["values"] if r[0] == payoff and r[1] == gamma]
    assert len(rows) > 40
    named = oracle["strategies"]
    values = values_of([(named[r[2]], named[r[3]]) for r in rows], payoff, gamma, x64)
    expected = [r[4:] for r in rows]
    np.testing.assert_allclose(values, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("chi", EXTORTION)
def test_discounted_extortioners_enforce_their_line(chi):
    """S_X - P = chi (s_Y - P) against every opponent, and the printed values."""
    policy, printed = EXTORTION[chi]
    pairs = [(policy, STRATEGIES[name]) for name in printed]
    values = values_of(pairs, "IPD", 0.96)
    # The policy is printed to six digits; its values hold to some twenty times that.
    np.testing.assert_allclose(values, list(printed.values()), rtol=0, atol=1.5e-5)
    line = values[:, 0] + 2 - chi * (values[:, 1] + 2)
    np.testing.assert_allclose(line, 0, rtol=0, atol=2e-5)


def test_extortioners_at_full_precision(oracle):
    """The same to 1e-9, also for 3/0/5/1."""
    named = oracle["strategies"]
    for case in oracle["zero_determinant"]:
        pairs = [(case["p"], named[name]) for name in case["values"]]
        values = values_of(pairs, case["payoff"], case["gamma"])
        expected = list(case["values"].values())
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("chi", LONG_RUN)
def test_undiscounted_extortioners_in_the_long_run(chi):
    policy, scores = LONG_RUN[chi]
    pairs = [(policy, STRATEGIES[name]) for name in scores]
    values = values_of(pairs, "AxelrodIPD", 1 - 1e-8)
    np.testing.assert_allclose(values, list(scores.values()), rtol=0, atol=1e-6)


def test_an_extortioner_meets_tit_for_tat_at_the_punishment():
    policy = LONG_RUN[3][0]
    values = values_of([(policy, STRATEGIES["STFT"])], "AxelrodIPD", 0.96)
    np.testing.assert_allclose(values, [[1, 1]], rtol=0, atol=1e-12)


def test_values_of_the_predecessors_payoff():
    """Payoff 2/0/3/1 at gamma 0.99."""
    names = ("AllC", "AllC"), ("AllD", "AllC"), ("TFT", "AllD"), ("TFT", "TFT")
    pairs = [(STRATEGIES[a], STRATEGIES[b]) for a, b in names]
    values = values_of(pairs, "2,0,3,1", 0.99)
    expected = [(2, 2), (3, 0), (0.99, 1.02), (2, 2)]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-9)


def test_an_equaliser_pins_its_opponent():
    pairs = [((0.9, 0.7, 0.2, 0.1, 0.5), q) for q in STRATEGIES.values()]
    values = values_of(pairs, "AxelrodIPD", 1 - 1e-8)
    np.testing.assert_allclose(values[:, 1], 2.0, rtol=0, atol=1e-6)


def test_generous_zero_determinant_enforces_its_line():
    policy = (1, 1 / 8, 1, 1 / 4, 1)
    # Against AllC and tit for tat nobody ever leaves CC.
    others = [q for name, q in STRATEGIES.items() if name not in ("AllC", "TFT")]
    values = values_of([(policy, q) for q in others], "AxelrodIPD", 1 - 1e-9)
    line = values[:, 1] - 3 - (values[:, 0] - 3) / 2
    np.testing.assert_allclose(line, 0, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("pair", "sums"),
    [
        (("TFT", "AllD"), (-51, -48)),
        (("TFT", "TFT"), (-25, -25)),
        (("AllC", "AllD"), (-75, 0)),
        (("Random", "Random"), (-37.5, -37.5)),
    ],
)
def test_discounted_sums_and_rewards_have_their_scale(pair, sums):
    """Sums at gamma 0.96; the reward is the sum times 0.04."""
    logits = [20.0 * (2 * np.array(STRATEGIES[name], np.float32) - 1) for name in pair]
    env, params = make()
    values = env.discounted_value(tuple(map(jnp.asarray, logits)), params)
    np.testing.assert_allclose(values, sums, rtol=2e-5, atol=1e-4)
    _, state = env.reset(KEY, params)
    rewards = env.step(KEY, state, tuple(logits), params)[2]
    np.testing.assert_allclose(rewards, np.multiply(sums, 0.04), rtol=0, atol=1e-4)


def test_values_equal_a_rollout_of_the_distribution():
    p, q = np.array(STRATEGIES["M1"]), np.array(STRATEGIES["M2"])
    mirrored = q[[0, 2, 1, 3, 4]]
    payoff = payoffs.preset("BattleOfTheSexes").payoff.reshape(4, 2)

    def outcome(s):
        a, b = p[s], mirrored[s]
        return np.array([a * b, a * (1 - b), (1 - a) * b, (1 - a) * (1 - b)])

    transition = np.stack([outcome(s) for s in range(4)])
    distribution, total = outcome(4), np.zeros(2)
    for t in range(3000):
        total += 0.01 * 0.99**t * distribution @ payoff
        distribution = distribution @ transition
    values = values_of([(p, q)], "BattleOfTheSexes", 0.99)
    np.testing.assert_allclose(values[0], total, rtol=0, atol=1e-10)


def test_occupancy_is_a_distribution():
    p, q = jnp.array(STRATEGIES["M1"]), jnp.array(STRATEGIES["M2"])
    shares = occupancy(p[:4], p[4], q[:4], q[4], 0.96)
    assert float(shares.sum()) == pytest.approx(1.0, abs=1e-6)
    assert np.all(shares > 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("logits", "value", "own", "other"),
    [
        (
            ((0.0,) * 5, (0.0,) * 5),
            -37.5,
            (-1.5, -1.5, -1.5, -1.5, -0.25),
            (3, 3, 3, 3, 0.5),
        ),
        (
            (THETA_1, THETA_2),
            -37.8577305,
            (-1.87308287, -1.94072275, -1.90568951, -1.96363709, -0.30652422),
            (2.50441083, 2.63274156, 2.71998979, 2.86131808, 0.45870818),
        ),
    ],
)
def test_gradients_of_the_discounted_sum(logits, value, own, other):
    payoff = payoffs.preset("IPD").payoff
    with jax.enable_x64(True):
        one, two = (jnp.asarray(x, float) for x in logits)
        first, gradients = jax.value_and_grad(
            lambda a, b: discounted_values(a, b, payoff, 0.96)[0], argnums=(0, 1)
        )(one, two)
        np.testing.assert_allclose(first, value, rtol=0, atol=1e-7)
        np.testing.assert_allclose(gradients[0], own, rtol=0, atol=1e-7)
        np.testing.assert_allclose(gradients[1], other, rtol=0, atol=1e-7)


def test_rewards_are_differentiable_in_payoff_and_discount():
    env, params = make()
    state = env.reset(KEY, params)[1]
    logits = jnp.asarray(THETA_1), jnp.asarray(THETA_2)

    def reward(params):
        return env.step(KEY, state, logits, params)[2][0]

    gradient = jax.grad(reward)(params)
    assert isinstance(gradient, EnvParams)
    # The reward is linear in the own payoffs; its slopes are shares that sum to 1.
    assert float(gradient.payoff_matrix[:, 0].sum()) == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_array_equal(gradient.payoff_matrix[:, 1], np.zeros(4))
    h = 0.01
    above, below = (float(reward(EnvParams(gamma=g))) for g in (0.96 + h, 0.96 - h))
    assert float(gradient.gamma) == pytest.approx((above - below) / (2 * h), rel=0.05)


@pytest.mark.parametrize("gamma", [1, 1.0, 1.5, -0.1, float("nan"), np.float64(1.0)])
def test_a_discount_outside_zero_to_one_is_refused(gamma):
    """Gamma = 1 is refused at construction, not infinite."""
    for build in (lambda: EnvParams(gamma=gamma), lambda: make(gamma=gamma)):
        with pytest.raises(ValueError, match=r"gamma must be (in \[0, 1\)|a number)"):
            build()


def test_a_discount_of_one_in_an_array_is_refused_where_it_is_used():
    env = InfiniteMatrixGame(num_inner_steps=3)
    params = EnvParams(gamma=jnp.array(1.0))
    with pytest.raises(ValueError, match="gamma"):
        env.reset(KEY, params)
    with pytest.raises(ValueError, match="gamma"):
        env.discounted_value((jnp.zeros(5), jnp.zeros(5)), params)
    assert np.isnan(
        jax.jit(env.discounted_value)((jnp.zeros(5), jnp.zeros(5)), params)[0]
    )


def test_params_stay_a_pytree_of_anything():
    params = EnvParams()
    assert jax.tree.map(jnp.size, params).gamma == 1
    assert jax.tree.map(lambda x: float(x.sum()), params).gamma > 0.9
    axes = InfiniteMatrixGame(num_inner_steps=1).params_axes(gamma=0)
    assert axes.gamma == 0
    assert axes.payoff_matrix is None
    doubled = jax.tree.map(lambda x: 2 * x, params)
    assert float(doubled.gamma) == pytest.approx(1.92)


def test_twenty_payoffs_and_discounts_are_one_compile():
    """Params are traced; vmapped over both they give the single values."""
    env = InfiniteMatrixGame(num_inner_steps=5)
    tables = np.random.default_rng(0).normal(size=(20, 4, 2))
    gammas = np.linspace(0.0, 0.95, 20)
    traces = []

    @jax.jit
    def reward(params):
        traces.append(1)
        state = env.reset(KEY, params)[1]
        logits = jnp.asarray(THETA_1), jnp.asarray(THETA_2)
        return env.step(KEY, state, logits, params)[2][0]

    single = [
        reward(EnvParams(payoff_matrix=table, gamma=gamma))
        for table, gamma in zip(tables, gammas, strict=True)
    ]
    assert len(traces) == 1
    axes = env.params_axes(payoff_matrix=0, gamma=0)
    batch = jax.vmap(reward, in_axes=(axes,))(
        EnvParams(payoff_matrix=tables, gamma=gammas)
    )
    np.testing.assert_allclose(batch, single, rtol=0, atol=1e-5)


def test_opening_observations_are_one_half_for_both():
    """Nothing random is shown as if it were a policy."""
    env, params = make()
    obs, _ = env.reset(jax.random.key(7), params)
    for player in range(2):
        assert obs[player].dtype == jnp.float32
        np.testing.assert_array_equal(obs[player], np.full(10, 0.5))
        assert env.observation_space(player).contains(np.asarray(obs[player]))


def test_each_player_sees_its_own_policy_first():
    env, params = make()
    state = env.reset(KEY, params)[1]
    actions = jnp.asarray(THETA_1), jnp.asarray(THETA_2)
    obs = env.step(KEY, state, actions, params)[0]
    p, q = (1 / (1 + np.exp(-np.array(x))) for x in (THETA_1, THETA_2))
    np.testing.assert_allclose(obs[0], [*p, *q], rtol=0, atol=1e-6)
    np.testing.assert_allclose(obs[1], [*q, *p], rtol=0, atol=1e-6)


def test_logits_have_a_finite_box_that_holds_hyper_tit_for_tat():
    """The action space is of logits, not of probabilities."""
    space = make()[0].action_space(1)
    assert space.is_bounded()
    assert space.contains(np.float32([20, -20, 20, -20, 20]))


@pytest.mark.parametrize("n", [1, 3, 128, 300])
def test_the_clock_ends_on_its_last_step(n):
    """With one step, done comes with the first step, and only once."""
    env, params = make(num_inner_steps=n)
    logits = np.zeros((n + 2, 5), np.float32)

    def step(state, joint_action):
        _, state, rewards, done, info = env.step(KEY, state, joint_action, params)
        return state, (rewards[0], done, info["valid"])

    state = env.reset(KEY, params)[1]
    _, (rewards, done, valid) = jax.lax.scan(step, state, (logits, logits))
    np.testing.assert_array_equal(np.flatnonzero(done), [n - 1])
    np.testing.assert_array_equal(np.flatnonzero(~np.asarray(valid)), [n, n + 1])
    np.testing.assert_allclose(rewards[:n], -1.5, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(rewards[n:], [0, 0])


def test_cooperation_is_the_discounted_share_of_rounds():
    env, params = make(num_inner_steps=2)
    obs, state = env.reset(KEY, params)
    acc = env.metrics_init()
    defect, tit_for_tat = (
        20.0 * jnp.array(x, jnp.float32)
        for x in ((-1, -1, -1, -1, -1), (1, -1, 1, -1, 1))
    )
    for _ in range(3):
        actions = defect, tit_for_tat
        new, state, _, _, info = env.step(KEY, state, actions, params)
        acc = env.metrics_update(acc, obs, actions, info)
        obs = new
    named = env.metrics_final(acc)
    assert int(acc.totals["steps"]) == 2
    assert float(named["cooperation_rate/player_1"]) == pytest.approx(0.0, abs=1e-6)
    # Tit for tat cooperates in the first round only: 1 - gamma of the weight.
    assert float(named["cooperation_rate/player_2"]) == pytest.approx(0.04, abs=1e-5)


def test_a_payoff_of_three_actions_is_refused():
    with pytest.raises(payoffs.PayoffError, match="4 rows and 2 columns"):
        make("RPS")
