"""Games are known to the libraries by their ids, before anything heavy is loaded."""

import gymnasium
import pettingzoo
import pytest
from adapter_cases import GAMES

from paxenv.registry import UnknownGameError


def test_importing_registers_every_game_and_loads_no_jax(run_python) -> None:
    printed = run_python(
        "import sys, gymnasium, pettingzoo, paxenv\n"
        "from pettingzoo.env_registry import registration as theirs\n"
        "ids = [i for i in paxenv.games() if i.startswith('pax/')]\n"
        "print(all(i in gymnasium.registry for i in ids))\n"
        "print(all(i in theirs.parallel_registry for i in ids))\n"
        "print(len(ids) > 0, 'jax' in sys.modules)"
    )
    assert printed.split() == ["True", "True", "True", "False"]


def test_the_module_can_stand_in_the_id(run_python) -> None:
    printed = run_python(
        "import gymnasium\n"
        "env = gymnasium.make('paxenv:pax/IPD-v0', opponent='AllC')\n"
        "env.reset(seed=0)\n"
        "print(env.step(1)[1])"
    )
    assert printed == "0.0"


def test_registering_again_warns_of_nothing(recwarn) -> None:
    import paxenv.registration

    before = dict(gymnasium.registry)
    paxenv.registration.register()
    assert dict(gymnasium.registry) == before
    assert len(recwarn) == 0


@pytest.mark.parametrize("make", [gymnasium.make, gymnasium.make_vec])
def test_an_id_in_lower_case_is_an_error_that_names_the_game(make) -> None:
    """Gymnasium itself suggests nothing for it."""
    with pytest.raises(UnknownGameError, match="did you mean IPD"):
        make("pax/ipd-v0")


def test_ids_have_no_time_limit_of_their_own() -> None:
    """It would cut games that are made longer; the spec of a made one has its own."""
    for game in GAMES:
        assert gymnasium.spec(game).max_episode_steps is None
        assert pettingzoo.spec("parallel", game).max_cycles is None
