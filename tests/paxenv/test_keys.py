"""The key schedule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_fakes import Dice as DicePlayer
from game_fakes import Counting, Dice

from paxenv import keys, threefry
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv.single_player import SinglePlayer


def data(key):
    return np.asarray(jax.random.key_data(key)).tolist()


def test_schedule_is_fold_in_of_documented_numbers():
    episode = jax.random.fold_in(jax.random.key(5), 2)
    assert data(keys.episode(keys.lane(4, 1), 2)) == data(episode)
    assert data(keys.reset(episode)) == data(jax.random.fold_in(episode, 0))
    assert data(keys.step(episode, 7)) == data(jax.random.fold_in(episode, 8))
    assert data(keys.begin(episode, 8)) == data(keys.step(episode, 7))
    assert data(keys.begin(episode, 0)) == data(keys.reset(episode))
    assert data(keys.random_end(episode)) == data(jax.random.fold_in(episode, 65536))
    assert data(keys.player(episode, 3)) == data(jax.random.fold_in(episode, 65540))


def test_seed_s_lane_1_is_seed_s_plus_1_lane_0():
    assert data(keys.lane(41, 1)) == data(keys.lane(42, 0)) == data(jax.random.key(42))


#: Where the number of words of a seed, or its sign in 32 bits, changes.
CROSSINGS = (2**31, 2**32, 2**63, 2**64, 2**96)


@pytest.mark.parametrize(
    ("seed", "lane", "named"), [(-1, 0, "seed"), (0.5, 0, "seed"), (3, -1, "lane")]
)
def test_what_is_no_whole_number_is_refused(seed, lane, named):
    with pytest.raises(ValueError, match=rf"{named} must be a whole number >= 0, got"):
        keys.lane(seed, lane)


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (2**31 - 1, [0, 2**31 - 1]),
        (2**31, [0, 2**31]),
        (3_000_000_000, [0, 3_000_000_000]),
        (2**32 + 7, [1, 7]),
        (2**64 - 1, [2**32 - 1, 2**32 - 1]),
    ],
)
def test_a_seed_of_64_bits_is_the_two_words_of_its_key(seed, words):
    assert data(keys.of_seed(seed)) == words
    assert data(keys.of_seed(np.uint64(seed))) == words


def test_larger_seeds_fold_their_further_words_behind_a_tag():
    fold = jax.random.fold_in
    low = jax.random.wrap_key_data(np.array([0, 9], np.uint32))
    expected = fold(fold(fold(low, 2**31 + 2), 5), 8)
    assert data(keys.of_seed((8 * 2**32 + 5) * 2**64 + 9)) == data(expected)


@pytest.mark.parametrize("crossing", CROSSINGS)
def test_lanes_across_a_crossing_are_the_keys_of_consecutive_seeds(crossing):
    seed = crossing - 2
    found = data(keys.lanes(seed, 4))
    assert found == [data(keys.lane(seed, i)) for i in range(4)]
    assert found == [data(keys.of_seed(seed + i)) for i in range(4)]


def test_no_two_seeds_share_a_key_or_the_trial_of_another():
    """Around every crossing, and the words of a large seed are no trials of a small."""
    near = {c + i for c in (4, *CROSSINGS, 2**128) for i in range(-3, 4)}
    lanes = [keys.of_seed(seed) for seed in sorted(near)]
    trials = [keys.episode(lane, e) for lane in lanes[:7] for e in (0, 1, 2**31 - 1)]
    assert len({tuple(data(key)) for key in (*lanes, *trials)}) == len(lanes + trials)


def test_a_seed_means_the_same_with_64_bits_on():
    seeds = (5, 2**31, 2**40, 2**70)
    off = [data(keys.of_seed(seed)) for seed in seeds]
    with jax.enable_x64(True):
        assert [data(keys.of_seed(seed)) for seed in seeds] == off


def test_raw_keys_become_typed_keys():
    assert data(keys.typed(jax.random.PRNGKey(3))) == data(jax.random.key(3))
    assert keys.typed(jax.random.split(jax.random.PRNGKey(3), 4)).shape == (4,)


@pytest.mark.parametrize("value", [3, jnp.zeros(2), jnp.zeros(3, jnp.uint32)])
def test_what_is_no_key_is_refused(value):
    with pytest.raises(TypeError, match="expected a random key"):
        keys.typed(value)


def test_split_equals_fold_in():
    """The schedule's streams are those that `split` would give."""
    split = jax.random.split(jax.random.key(9), 5)
    for i in range(5):
        assert data(split[i]) == data(jax.random.fold_in(jax.random.key(9), i))


def test_words_are_the_data_of_the_first_folds():
    key = jax.random.key(1)
    expected = data(jax.random.fold_in(key, 0)) + data(jax.random.fold_in(key, 1))
    assert keys.words(key, 3).tolist() == expected[:3]
    assert keys.words(key, 4).dtype == jnp.uint32


@pytest.mark.parametrize("n", [0, -1, 2**17 + 1])
def test_word_count_outside_the_games_share_is_refused(n):
    with pytest.raises(ValueError, match="1 to 131072 words"):
        keys.words(jax.random.key(0), n)


def test_uniform_takes_the_leading_24_bits():
    words = jnp.array([0, 255, 256, 2**31, 2**32 - 1], jnp.uint32)
    expected = [0.0, 0.0, 2.0**-24, 0.5, 1.0 - 2.0**-24]
    assert keys.uniform(words).tolist() == expected


def test_below_is_the_high_half_of_the_product():
    words = np.random.default_rng(0).integers(0, 2**32, 1000, dtype=np.uint32)
    words = np.concatenate([words, np.array([0, 2**32 - 1, 2**31], np.uint32)])
    for n in (1, 2, 3, 9, 1000, 65535):
        expected = (words.astype(np.uint64) * np.uint64(n)) >> np.uint64(32)
        np.testing.assert_array_equal(keys.below(jnp.asarray(words), n), expected)


@pytest.mark.parametrize("n", [0, 65536])
def test_below_refuses_a_range_that_16_bits_cannot_hold(n):
    with pytest.raises(ValueError, match=r"\[1, 65535\]"):
        keys.below(jnp.uint32(1), n)


class Spy:
    """Records which concrete keys are folded, and which are drawn from.

    What a fold or a draw does with its key inside is its own and not recorded.
    """

    CONSUMERS = (
        *("key_data", "bits", "uniform", "normal", "randint", "split", "bernoulli"),
        *("categorical", "permutation", "choice", "gumbel"),
    )

    def __init__(self, monkeypatch):
        self.folded, self.drawn = [], []
        self.inside = False
        self.data = jax.random.key_data
        for module in (threefry, jax.random):
            self._watch(monkeypatch, module, "fold_in", self.folded)
        for name in self.CONSUMERS:
            self._watch(monkeypatch, jax.random, name, self.drawn)

    def rows(self, key):
        return [
            tuple(row) for row in np.asarray(self.data(key)).reshape(-1, 2).tolist()
        ]

    def _watch(self, monkeypatch, module, name, log):
        original = getattr(module, name)

        def watched(key, *args, **kwargs):
            if self.inside:
                return original(key, *args, **kwargs)
            log.extend(self.rows(key))
            self.inside = True
            try:
                return original(key, *args, **kwargs)
            finally:
                self.inside = False

        monkeypatch.setattr(module, name, watched)


def games():
    random_ends = Dice(4, 2, random_ends=True)
    matrix = IteratedMatrixGame(3, 2, random_ends=True)
    players = (DicePlayer.from_env(matrix, 1),)
    return [random_ends, Counting(3, 2), matrix, SinglePlayer(matrix, 0, players)]


@pytest.mark.parametrize("env", games(), ids=lambda env: type(env).__name__)
def test_reset_and_step_keys_are_only_folded_and_no_key_is_drawn_from_twice(
    env, monkeypatch
):
    params = env.default_params
    lane = keys.lane(0)
    spy = Spy(monkeypatch)
    given = []
    for e in range(2):
        episode = keys.episode(lane, e)
        given.append(keys.reset(episode))
        _, state = env.reset(given[-1], params)
        for _ in range(3):
            given.append(keys.step(episode, state.t))
            actions = (0, 0) if env.num_players == 2 else 0
            _, state, *_ = env.step(given[-1], state, actions, params)
    schedule = {row for key in given for row in spy.rows(key)}
    episodes = {row for e in range(2) for row in spy.rows(keys.episode(lane, e))}
    assert episodes <= set(spy.folded)
    assert schedule.isdisjoint(spy.drawn)
    assert len(spy.drawn) == len(set(spy.drawn))
    assert set(spy.folded).isdisjoint(spy.drawn)


def test_lanes_are_the_keys_of_consecutive_seeds():
    assert data(keys.lanes(7, 3)) == [data(keys.lane(7, i)) for i in range(3)]
    with pytest.raises(ValueError, match="seed must be a whole number"):
        keys.lanes(-1, 3)


def test_shuffled_players_and_self_play_have_keys_of_their_own():
    reset_key = keys.reset(keys.episode(keys.lane(3), 0))
    fold = jax.random.fold_in
    for i in (0, 1, 5):
        expected = fold(fold(reset_key, 2**17), i)
        assert jax.random.key_data(keys.seating(reset_key, i)).tolist() == (
            jax.random.key_data(expected).tolist()
        )
