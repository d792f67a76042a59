"""TitForTat among many: every rule, written out, and scripts worked by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paxenv import keys, spaces
from paxenv.envs.iterated_matrix_game import IteratedMatrixGame
from paxenv.envs.iterated_tensor_game import IteratedTensorGame
from paxenv_agents import PairingError, make_agent
from paxenv_agents.engine.lineup import Lineup, Slot
from paxenv_agents.engine.play import play_trial

C, D = 0, 1
# Three players. After CCC, CCD, CDC, CDD, DCC, DCD, DDC, DDD (own action first), START.
RULES = {
    "StrictStay": [C, C, C, D, C, D, D, D, C],
    "StrictSwitch": [C, D, D, D, C, C, C, D, C],
    "Cooperate": [C, C, C, D, C, C, C, D, C],
    "Defect": [C, D, D, D, C, D, D, D, C],
    "Harsh": [C, D, D, D, C, D, D, D, C],
    "Soft": [C, C, C, D, C, C, C, D, C],
}
# Five players, the own last action C or D: after 0, 1, 2, 3, 4 others defected.
MANY = {
    "StrictStay": ([C, C, C, C, D], [C, D, D, D, D]),
    "StrictSwitch": ([C, D, D, D, D], [C, C, C, C, D]),
    "Cooperate": ([C, C, C, C, D], [C, C, C, C, D]),
    "Defect": ([C, D, D, D, D], [C, D, D, D, D]),
    "Harsh": ([C, D, D, D, D], [C, D, D, D, D]),
    "Soft": ([C, C, C, D, D], [C, C, C, D, D]),
}
NAMES = list(RULES)


def actions_at(name, num_players, states, observation="one_hot"):
    env = IteratedTensorGame(num_players, 3, observation=observation)
    agent = make_agent(f"TitForTat{name}", env)
    obs = jax.vmap(lambda s: spaces.encode_state(s, env.num_states, observation))(
        jnp.asarray(states, jnp.int32)
    )
    state, memory = agent.batch_init(jax.random.key(0), agent.init_hidden(len(states)))
    return agent.batch_policy(state, obs, memory)[0].tolist()


@pytest.mark.parametrize("observation", ["one_hot", "index"])
@pytest.mark.parametrize("name", NAMES)
def test_a_rule_among_three_is_followed_in_every_state(name, observation):
    assert actions_at(name, 3, range(9), observation) == RULES[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_among_five_counts_the_others(name):
    """The others' part of a state is read as bits: 0, 1, 3, 7, 15 are 0 to 4 Ds."""
    others = [0b0000, 0b0100, 0b1010, 0b1101, 0b1111]
    for own in (C, D):
        states = [own * 16 + bits for bits in others]
        assert actions_at(name, 5, states) == MANY[name][own]


@pytest.mark.parametrize("name", NAMES)
def test_with_two_players_every_rule_is_tit_for_tat(name):
    agent = make_agent(f"TitForTat{name}", IteratedMatrixGame(3))
    obs = jnp.eye(5, dtype=jnp.int8)
    state, memory = agent.batch_init(jax.random.key(0), agent.init_hidden(5))
    assert agent.batch_policy(state, obs, memory)[0].tolist() == [C, D, C, D, C]


# Player 1 among TitForTat players 2 and 3, worked by hand, all scripts of 4 rounds.
# Player 2 is AllD, player 3 is AllC: the others never agree.
MIXED = {
    "StrictStay": [C, C, C, C],
    "StrictSwitch": [C, D, C, D],
    "Cooperate": [C, C, C, C],
    "Defect": [C, D, D, D],
    "Harsh": [C, D, D, D],
    "Soft": [C, C, C, C],
}


def cooperation(names):
    """Returns each player's rewards in 4 rounds of the donation game of three."""
    env = IteratedTensorGame(3, 4)
    agents = [make_agent(name, env, player=p) for p, name in enumerate(names)]
    lineup = Lineup(env, tuple(Slot(a, (p,)) for p, a in enumerate(agents)))
    states = tuple(a.init_state(jax.random.key(0)) for a in agents)
    trial = jax.jit(play_trial, static_argnums=0)(
        lineup, env.default_params, states, keys.lanes(0, 1), jnp.int32(0)
    )
    return np.asarray(trial.returns)[0, :, 0].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_a_match_against_a_defector_and_a_cooperator(name):
    """A round pays 1 for the own D and 2 for each of the others' Cs.

    Player 3 gives 2 to both in each of 4 rounds; player 1 gives 2 in each round that
    its script has a C.
    """
    script = MIXED[name]
    given = 2 * script.count(C)
    returns = cooperation([f"TitForTat{name}", "AllD", "AllC"])
    assert returns == [8 + script.count(D), given + 8 + 4, given]


def test_the_seat_does_not_matter():
    assert cooperation(["AllD", "AllC", "TitForTatHarsh"]) == [14, 2, 11]


def test_games_that_do_not_show_two_actions_of_each_player_are_refused():
    three = IteratedMatrixGame(4, num_actions=(3, 3))
    with pytest.raises(PairingError, match="needs a game of two actions"):
        make_agent("TitForTatSoft", three)
    # 2 * 4 = 8 joint actions, as three players of two actions have.
    odd = IteratedTensorGame(2, 4, num_actions=(2, 4))
    with pytest.raises(PairingError, match="two actions of each of 2 players"):
        make_agent("TitForTatSoft", odd)
