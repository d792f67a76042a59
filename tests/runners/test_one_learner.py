"""What every training of one learner shares, whichever view it is begun by."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from outer_fakes import climber

import paxenv
from runners.session.one_learner import LearnerSettings, experiment_of, with_hyper
from runners.session.runner_config import check_made_for, game_and_params
from runners.storage.checkpoints.files import CheckpointError, NoCheckpointError


@pytest.fixture
def settings():
    return LearnerSettings(climber()[0], {"seed": 3}, (), "Make it as it was made")


def session_that_raises(error):
    def restore_first_whole(paths, check):
        raise error

    return SimpleNamespace(restore_first_whole=restore_first_whole)


def restored(settings, error):
    session = session_that_raises(error)
    settings.restore(session, None, [], change_rates=False)


def test_a_checkpoint_without_settings_is_refused_with_the_cure(settings):
    """It differs by a shape, which says nothing of what to do."""
    said = r"^x has shape \(2,\)\. Make it as it was made; change_rates=True"
    with pytest.raises(CheckpointError, match=said):
        restored(settings, CheckpointError("x has shape (2,)"))


def test_the_cure_is_said_once_and_not_of_a_checkpoint_that_is_not_there(settings):
    cure = "belongs to another training: a. Make it as it was made; change_rates=True"
    with pytest.raises(NoCheckpointError, match=r"^there is none$"):
        restored(settings, NoCheckpointError("there is none"))
    full = f"{cure} goes on with other numbers of the algorithm, which are "
    full += ", ".join(sorted(settings.agent.traced_options))
    with pytest.raises(CheckpointError) as raised:
        restored(settings, CheckpointError(full))
    assert str(raised.value) == full


def test_a_checkpoint_says_who_learnt_and_from_which_seed(settings):
    assert settings.facts() == {"settings": {"seed": 3}, "agent": "Climber", "seed": 3}


def test_a_hyperparameter_is_set_in_its_own_shape_and_named_as_it_was_given():
    agent, _, _ = climber()
    state = jax.vmap(agent.init_state)(jax.random.split(jax.random.key(0), 2))
    new = with_hyper(agent, state, "learning_rate", 0.5)
    assert new.hyper["learning_rate"].tolist() == [0.5, 0.5]
    assert new.hyper["entropy_coeff"] is state.hyper["entropy_coeff"]
    with pytest.raises(ValueError, match="lr must be a number, got 'x'"):
        with_hyper(agent, state, "learning_rate", "x", "lr")


def test_an_experiment_of_a_learner_is_as_long_as_its_rollouts():
    agent, env, _ = climber(n_steps=6)
    experiment = experiment_of(agent, env, 3, chunk_size=2)
    assert experiment.steps_per_iteration == 6 * 3
    assert experiment.chunk_size == 2


@pytest.mark.parametrize(
    ("env", "params", "gravity"),
    [
        ("CartPole-v1", None, 9.8),
        (("CartPole-v1", None), None, 9.8),
        (("CartPole-v1", 5.0), None, 5.0),
        (("CartPole-v1", 5.0), 7.0, 7.0),
        ("CartPole-v1", 7.0, 7.0),
    ],
)
def test_a_game_is_given_by_its_id_alone_or_with_its_numbers(env, params, gravity):
    _, own = paxenv.make("CartPole-v1")

    def numbers(value):
        return None if value is None else own.replace(gravity=value)

    if isinstance(env, tuple):
        env = env[0], numbers(env[1])
    game, found = game_and_params(env, numbers(params))
    assert game.name == "CartPole"
    assert float(found.gravity) == pytest.approx(gravity)


def test_an_agent_of_other_spaces_is_refused_unless_the_form_is_the_same():
    agent, _, _ = climber()
    game, _ = paxenv.make("CartPole-v1")
    with pytest.raises(ValueError, match=r"made for the observation_space .* CartPole"):
        check_made_for(agent, game)
    check_made_for(agent, game, form=lambda space: isinstance(space, np.ndarray))
