"""What the coin game shows, pays, counts and reports, over whole trials."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paxenv
from paxenv import auto_reset, keys, threefry
from paxenv.envs import coin_draws, coin_metrics, coin_rules, coin_views
from paxenv.envs.coin_game import CoinGame, CoinState, EnvParams
from paxenv.envs.coin_rules import Board, CoinRules, Draws
from paxenv.trajectory import replay

RIGHT, LEFT, UP, DOWN, STAY = range(5)
PAYOFF = np.array([[1.0, 1.0, -2.0], [1.0, 1.0, -2.0]])


def board_of(red, blue, *coins, colour=0):
    """Returns a board of int32 scalars from (row, column) pairs."""
    number = functools.partial(jnp.asarray, dtype=jnp.int32)
    return jax.tree.map(number, Board((red, blue), coins, colour))


def chance(*coins):
    """Returns draws that put a taken red or blue coin on the given cells."""
    zero = jnp.zeros((), jnp.int32)
    cells = tuple((jnp.asarray(cell, jnp.int32),) for cell in coins)
    return Draws((zero, zero), cells, zero, cells, zero)


def play_random(env, num_steps, seed=0, num_actions=5):
    rng = np.random.default_rng(seed)
    actions = tuple(rng.integers(0, num_actions, (2, num_steps)).astype(np.int32))
    return actions, replay(env, env.default_params, seed, actions=actions)


def set_board(state, board):
    return state.replace(
        game=state.game.replace(board=coin_rules.pack(CoinRules(), board))
    )


# Observations.


def test_egocentric_planes_of_a_board_worked_by_hand():
    """From the rules: red (0, 0), blue (0, 1), red coin (2, 2), blue coin (1, 0)."""
    env = CoinGame(layout="HWC")
    board = board_of((0, 0), (0, 1), (2, 2), (1, 0))
    red, blue = env._observe(CoinState(coin_rules.pack(env.rules, board)))
    lit = [tuple(x) for x in np.argwhere(np.asarray(red).transpose(2, 0, 1))]
    assert lit == [(0, 1, 1), (1, 1, 2), (2, 0, 0), (3, 2, 1)]
    lit = [tuple(x) for x in np.argwhere(np.asarray(blue).transpose(2, 0, 1))]
    # Blue moves to the middle by (+1, 0): its coin is (1, 0), the other's (2, 2).
    assert lit == [(0, 1, 1), (1, 1, 0), (2, 2, 0), (3, 0, 2)]


def test_absolute_planes_are_swapped_for_the_second_player():
    env = CoinGame(egocentric=False, layout="CHW")
    board = board_of((0, 0), (0, 1), (2, 2), (1, 0))
    red, blue = env._observe(CoinState(coin_rules.pack(env.rules, board)))
    lit = [tuple(x) for x in np.argwhere(red)]
    assert lit == [(0, 0, 0), (1, 0, 1), (2, 2, 2), (3, 1, 0)]
    np.testing.assert_array_equal(blue, np.asarray(red)[[1, 0, 3, 2]])


def test_layouts_hold_the_same_numbers():
    board = board_of((0, 0), (0, 1), (2, 2), (1, 0))
    game = CoinState(coin_rules.pack(CoinRules(), board))
    seen = {
        layout: np.asarray(CoinGame(layout=layout)._observe(game)[0])
        for layout in coin_views.LAYOUTS
    }
    np.testing.assert_array_equal(seen["flat"], seen["HWC"].reshape(36))
    np.testing.assert_array_equal(seen["flat_CHW"], seen["CHW"].reshape(36))
    np.testing.assert_array_equal(seen["HWC"].transpose(2, 0, 1), seen["CHW"])


@pytest.mark.parametrize("egocentric", [True, False])
@pytest.mark.parametrize("coins", ["per_player", "single"])
def test_index_names_every_view_once(egocentric, coins):
    """Over all boards, equal indices and equal planes are the same."""
    rules = CoinRules(coins=coins)
    cells = np.array(list(itertools.product(range(9), repeat=2 + rules.num_coins)))
    places = [(jnp.asarray(c // 3), jnp.asarray(c % 3)) for c in cells.T]
    indices, planes = [], []
    for colour in range(1 if coins == "per_player" else 2):
        board = Board(
            players=(places[0], places[1]),
            coins=tuple(places[2:]),
            colour=jnp.full(len(cells), colour),
        )
        for player in range(2):

            @jax.jit
            @jax.vmap
            def see(board, player=player):
                view = coin_views.look(rules, board, player, egocentric)
                index = coin_views.index(rules, view, egocentric)
                return index, coin_views.one_hot(rules, view).reshape(-1)

            index, plane = see(board)
            indices.append(index)
            planes.append(plane)
    indices, planes = np.concatenate(indices), np.concatenate(planes)
    n = coin_views.num_indices(rules, egocentric)
    assert (
        n
        == {
            (True, "per_player"): 729,
            (False, "per_player"): 6561,
            (True, "single"): 162,
            (False, "single"): 1458,
        }[egocentric, coins]
    )
    assert sorted(set(indices.tolist())) == list(range(n))
    codes = planes.astype(np.uint64) @ (np.uint64(2) ** np.arange(36, dtype=np.uint64))
    pairs = set(zip(indices.tolist(), codes.tolist(), strict=True))
    assert len(pairs) == n == len({code for _, code in pairs})


def test_default_index_is_other_then_own_coin_then_others_coin():
    env = CoinGame(observation="index")
    board = board_of((0, 0), (0, 1), (2, 2), (1, 0))
    red, _ = env._observe(CoinState(coin_rules.pack(env.rules, board)))
    # Red sees blue at (1, 2), its own coin at (0, 0), the other's at (2, 1).
    assert int(red) == 81 * 5 + 9 * 0 + 7


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"observation": "index"},
        {"layout": "HWC"},
        {"egocentric": False, "view": "shared"},
        {"height": 4, "width": 5, "coins": "single", "spawn": "off_agents"},
        {"reset_consumes_step": True, "extra_planes": True, "layout": "CHW"},
    ],
    ids=str,
)
def test_observations_are_members_of_their_space(options):
    env = CoinGame(5, 3, **options)
    _, played = play_random(env, 45)
    for player in range(2):
        space = env.observation_space(player)
        for seen in (played.obs, played.obs_before, played.info["final_obs"]):
            assert seen[player].dtype == space.dtype
            for entry in np.asarray(seen[player]):
                assert space.contains(entry[()])


# Time.


@pytest.mark.parametrize("num_inner_steps", [1, 2, 5, 16])
def test_inner_end_is_flagged_on_exactly_the_last_step(num_inner_steps):
    """Every inner episode ends on its N-th step, and the trial once."""
    env = CoinGame(num_inner_steps, 3)
    num_steps = 3 * num_inner_steps
    _, played = play_random(env, 2 * num_steps)
    t = np.arange(1, 2 * num_steps + 1)
    np.testing.assert_array_equal(played.info["inner_done"], t % num_inner_steps == 0)
    np.testing.assert_array_equal(played.info["truncated"], t % num_inner_steps == 0)
    assert not played.info["terminated"].any()
    np.testing.assert_array_equal(played.done, t % num_steps == 0)


def test_staying_players_do_not_move_and_the_clock_runs():
    """ "stay" is the last action name, and both players stay by it."""
    env = CoinGame(6)
    assert env.action_names() == ("right", "left", "up", "down", "stay")
    _, state = env.reset(jax.random.key(0), EnvParams())
    before = coin_rules.unpack(env.rules, state.game.board).players
    step = jax.jit(env.step)
    for t in range(1, 6):
        _, state, _, done, _ = step(jax.random.key(t), state, (STAY, STAY), EnvParams())
        assert coin_rules.unpack(env.rules, state.game.board).players == before
        assert int(state.inner_t) == t
        assert done.shape == ()
        assert not done


@pytest.mark.slow
def test_flat_view_equals_nested_view():
    env, num_episodes = CoinGame(4, 3), 3
    actions, played = play_random(env, 12, seed=5)
    params, step = env.default_params, jax.jit(env.step_inner)
    episode = keys.episode(keys.lane(5), 0)
    obs, state = env.reset(keys.reset(episode), params)
    for k in range(num_episodes):
        for inner in range(4):
            t = 4 * k + inner
            expected = jax.tree.map(lambda x, t=t: x[t], played)
            np.testing.assert_array_equal(obs, expected.obs_before)
            key = keys.step(episode, state.t)
            joint = (actions[0][t], actions[1][t])
            obs, state, rewards, done, info = step(key, state, joint, params)
            np.testing.assert_array_equal(obs, expected.info["final_obs"])
            np.testing.assert_array_equal(rewards, expected.rewards)
            assert bool(done) == bool(expected.done)
            for name, value in info["metrics"].items():
                np.testing.assert_array_equal(value, expected.info["metrics"][name])
        obs, state = env.begin_episode(keys.begin(episode, state.t), state, params)


def test_last_board_of_an_inner_episode_is_in_final_obs():
    """The board that the last transition led to is never lost."""
    env = CoinGame(3, 2, egocentric=False, layout="CHW")
    _, state = env.reset(jax.random.key(0), EnvParams())
    state = set_board(state, board_of((0, 0), (2, 2), (1, 1), (1, 2)))
    for t in range(3):
        obs, state, _, _, info = env.step(
            jax.random.key(t + 1), state, (STAY, STAY), EnvParams()
        )
    assert bool(info["inner_done"])
    lit = [tuple(x) for x in np.argwhere(info["final_obs"][0])]
    assert lit == [(0, 0, 0), (1, 2, 2), (2, 1, 1), (3, 1, 2)]
    assert (obs[0] != info["final_obs"][0]).any()


# Chance.


def test_openings_of_a_stream_are_spread_over_all_layouts():
    """400 episodes of one seed open on more than 300 different boards."""
    env = auto_reset.AutoResetWrapper(CoinGame(1))
    params = EnvParams()

    @jax.jit
    def boards(lane_key):
        def step(state, _):
            word = state.env.game.board
            return env.step(None, state, (STAY, STAY), params)[1], word

        return jax.lax.scan(step, env.reset(lane_key, params)[1], None, length=400)[1]

    words = np.asarray(boards(keys.lane(0)))
    assert len(set(words.tolist())) > 300
    places = np.stack(coin_rules.unpack(env.rules, words).players[0])
    counts = np.bincount(3 * places[0] + places[1], minlength=9)
    assert counts.min() > 20  # of 44 expected, 6.3 standard deviation
    for lag in range(1, 50):
        assert (words[lag:] == words[:-lag]).mean() < 0.1


def test_a_seed_decides_the_boards():
    """Equal seeds play equal games, and other seeds others."""
    env = CoinGame(8)
    actions, first = play_random(env, 8, seed=7)
    again = replay(env, env.default_params, 7, actions=actions)
    other = replay(env, env.default_params, 8, actions=actions)
    np.testing.assert_array_equal(first.obs, again.obs)
    assert (np.asarray(first.obs) != np.asarray(other.obs)).any()


# Rewards and statistics.


def test_last_reward_of_an_episode_is_kept():
    """A coin taken in the last step of an inner episode is paid."""
    env = CoinGame(1, 2)
    _, state = env.reset(jax.random.key(0), EnvParams())
    state = set_board(state, board_of((0, 0), (2, 2), (0, 1), (1, 1)))
    _, _, rewards, _, info = env.step(
        jax.random.key(1), state, (RIGHT, STAY), EnvParams()
    )
    assert [float(r) for r in rewards] == [1.0, 0.0]
    assert bool(info["inner_done"])


def test_returns_follow_from_the_pick_ups_boundary_steps_included():
    env = CoinGame(4, 5)
    _, played = play_random(env, 400, seed=2)
    report = jax.tree.map(np.asarray, played.info["metrics"])
    own, other = report["own_coins"], report["other_coins"]
    expected = own + other - 2 * other[:, ::-1]
    np.testing.assert_array_equal(np.stack(played.rewards, axis=1), expected)
    np.testing.assert_array_equal(report["welfare"], expected.sum(axis=1))
    boundary = np.asarray(played.info["inner_done"])
    assert (own + other)[boundary].sum() > 20
    assert own.dtype == other.dtype == np.int32


def test_payoff_matrix_is_traced_and_differentiable():
    env = CoinGame()
    takes = ((True, True), (True, False))
    takes = jax.tree.map(jnp.asarray, takes)
    payoff = jnp.arange(1.0, 7.0).reshape(2, 3)
    red, blue = coin_rules.rewards(payoff, takes)
    assert (float(red), float(blue)) == (1 + 2 + 3, 4 + 6)
    gradient = jax.grad(lambda p: sum(coin_rules.rewards(p, takes)))(payoff)
    np.testing.assert_array_equal(gradient, [[1, 1, 1], [1, 0, 1]])
    _, state = env.reset(jax.random.key(0), EnvParams())
    many = EnvParams(payoff_matrix=jnp.stack([payoff, 2 * payoff]))
    state = set_board(state, board_of((0, 0), (2, 2), (0, 1), (1, 1)))
    step = jax.vmap(env.step, (None, None, None, env.params_axes(payoff_matrix=0)))
    rewards = step(jax.random.key(1), state, (RIGHT, STAY), many)[2]
    np.testing.assert_array_equal(rewards[0], [1.0, 2.0])


def accumulate(env, board, script, coins):
    """Plays scripted joint actions and returns the final statistics."""
    _, state = env.reset(jax.random.key(0), EnvParams())
    state = set_board(state, board)
    acc = env.metrics_init()
    for actions, cells in zip(script, coins, strict=True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CoinGame, "draw", lambda self, key, c=cells: chance(*c))
            obs, state, _, _, info = env.step(
                jax.random.key(1), state, actions, EnvParams()
            )
        acc = env.metrics_update(acc, obs, actions, info)
    return acc, {k: float(v) for k, v in env.metrics_final(acc).items()}


def test_red_taking_only_the_blue_coin_is_counted_under_ds():
    """The labels DS and CS are not exchanged, nor the players' views."""
    env = CoinGame(8)
    board = board_of((0, 0), (2, 2), (2, 0), (0, 1))
    # The blue coin reappears under red's next step: taken at steps 1, 2 and 3.
    script = [(RIGHT, STAY)] * 3 + [(STAY, STAY)]
    acc, final = accumulate(env, board, script, [(0, 2), (0, 0), (0, 4), (0, 4)])
    labels = ["SS", "SC", "SD", "CS", "CC", "CD", "DS", "DC", "DD"]
    assert list(coin_metrics.LABELS) == labels
    for player, label in (("player_1", "DS"), ("player_2", "SD")):
        assert final[f"state_visitation/{player}/SS"] == 0.25
        assert final[f"state_visitation/{player}/{label}"] == 0.75
        assert np.isnan(final[f"cooperation_probability/{player}/CC"])
        assert final[f"cooperation_probability/{player}/{label}"] == 0.0
    assert final["other_coins/player_1"] == 3.0
    assert final["own_coins/player_1"] == 0.0
    assert final["own_coin_fraction/player_1"] == 0.0
    assert np.isnan(final["own_coin_fraction/player_2"])
    assert all(leaf.dtype == jnp.int32 for leaf in jax.tree.leaves(acc.totals))


def test_cooperation_probability_counts_own_coins_by_the_convention_before():
    env = CoinGame(8)
    board = board_of((0, 0), (2, 2), (0, 1), (2, 0))
    # Step 1 from SS: both take their own. Step 2 from CC: red its own, blue nothing.
    script = [(RIGHT, RIGHT), (RIGHT, STAY), (STAY, STAY), (STAY, STAY)]
    _, final = accumulate(env, board, script, [(2, 4), (3, 4), (3, 4), (3, 4)])
    assert final["cooperation_probability/player_1/SS"] == 1.0
    assert final["cooperation_probability/player_1/CC"] == pytest.approx(1 / 3)
    assert final["cooperation_probability/player_2/SS"] == 1.0
    assert final["cooperation_probability/player_2/CC"] == 0.0
    assert final["own_coin_fraction/player_1"] == 1.0


def test_conventions_start_anew_in_each_inner_episode_and_totals_do_not():
    env = CoinGame(2, 2)
    board = board_of((0, 0), (2, 2), (0, 1), (1, 1))
    script = [(RIGHT, STAY), (STAY, STAY), (STAY, STAY), (STAY, STAY)]
    # The second episode opens with both players on cell 0 and coins on 7 and 8.
    acc, final = accumulate(env, board, script, [(7, 8)] * 4)
    assert final["state_visitation/player_1/SS"] == 0.75
    assert final["state_visitation/player_1/CS"] == 0.25
    assert final["own_coins/player_1"] == 1.0
    assert np.asarray(acc.totals["visits"]).sum(axis=1).tolist() == [4, 4]


def test_steps_after_the_end_count_nothing():
    env = CoinGame(1)
    board = board_of((0, 0), (0, 0), (0, 0), (0, 0))
    acc, _ = accumulate(env, board, [(STAY, STAY)] * 3, [(0, 0)] * 3)
    assert np.asarray(acc.totals["visits"]).sum(axis=1).tolist() == [1, 1]
    assert acc.totals["own_coins"].tolist() == [1, 1]


# Speed.


@pytest.mark.slow
@pytest.mark.skipif(jax.default_backend() != "cpu", reason="about XLA on CPUs")
@pytest.mark.skipif(jax.__version_info__ < (0, 10), reason="older XLA fuses worse")
@pytest.mark.parametrize("observation", ["one_hot", "index"])
def test_random_numbers_are_computed_once_a_step(observation):
    """A compiled scan holds the generator at most twice, whatever reads its words.

    For the step's key and for its words; a copy in every output of the step would be
    several times slower. A block is 20 rounds of one exclusive or and two for its keys.
    """
    env = CoinGame(16, 4, observation=observation)
    params = env.default_params

    def step(lane_key, state, actions):
        return env.step(keys.step(lane_key, state.t), state, actions, params)

    @jax.jit
    def play(lanes, obs, states, actions):
        def body(carry, joint_action):
            obs, states, rewards, *_ = jax.vmap(step)(lanes, carry[1], joint_action)
            return (obs, states, carry[2] + rewards[0] + rewards[1]), None

        return jax.lax.scan(body, (obs, states, jnp.zeros(64)), actions)[0]

    lanes = jax.random.split(jax.random.key(0), 64)
    obs, states = jax.vmap(lambda key: env.reset(key, params))(lanes)
    actions = (jnp.zeros((8, 64), jnp.int32),) * 2
    text = play.lower(lanes, obs, states, actions).compile().as_text()
    assert 0 < text.count(" xor(") <= 2 * (20 + 2)
    assert str(threefry.PARITY) in text
    assert text.count(" while(") == 1, "the scan alone"


def test_packed_state_is_one_word():
    _, state = CoinGame().reset(jax.random.key(0), EnvParams())
    leaves = jax.tree.leaves(state.game)
    assert [(leaf.shape, leaf.dtype) for leaf in leaves] == [((), jnp.uint32)]


def test_make_by_id_names_the_default_game():
    env, params = paxenv.make("CoinGame")
    assert env == CoinGame(16)
    np.testing.assert_array_equal(params.payoff_matrix, PAYOFF)
    assert coin_draws.draw(env.rules, jax.random.key(0)).tie == 0
