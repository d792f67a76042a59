"""Which runner plays: the key `runner:` of a file, and what that runner then does."""

import inspect

import jax
import numpy as np
import pytest

from runners import Frozen, Gradient
from runners.cli import cli
from runners.config import ConfigError, load
from runners.kinds import KINDS
from runners.planning.plan import prepare
from runners.search.evolution import Evolution
from runners.session.training import program_of

SIZES = ("num_envs=2", "num_inner_steps=4", "num_seeds=1")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Writes an experiment of one's own, `mine/own`, into the working folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "conf" / "experiment" / "mine"
    folder.mkdir(parents=True)

    def write(text):
        (folder / "own.yaml").write_text(text)
        return "mine/own"

    return write


def outer_of(*words):
    return prepare(load([*words, *SIZES])).experiment.outer


def test_the_key_runner_of_a_packaged_file_picks_the_runner():
    assert load(["ipd/eval_tft_v_all_d"]).runner == "eval"
    assert isinstance(outer_of("ipd/eval_tft_v_all_d"), Frozen)
    assert load(["ipd/nl_v_tft"]).runner == "rl"
    assert isinstance(outer_of("ipd/nl_v_tft"), Gradient)


def test_the_key_runner_of_an_own_file_picks_the_runner(own):
    name = own("runner: eval\nenv: IPD\nagents: [Grim, AllD]\n")
    assert isinstance(outer_of(name), Frozen)


def test_runner_evo_in_an_own_file_picks_evolution(own):
    name = own(
        "runner: evo\nenv: {id: IPD, num_outer_steps: 1}\n"
        "agents: [{name: PPO, es: {strategy: OpenES}}, AllD]\n"
        "es: {popsize: 4}\nnum_generations: 2\n"
    )
    assert isinstance(outer_of(name), Evolution)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_has_a_command_that_says_what_it_does(kind):
    command = cli.get_command(None, kind.name)  # type: ignore[arg-type]
    assert command is not None
    assert command.help == inspect.cleandoc(kind.help)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_section_of_another_kind_is_refused_with_its_own_word(kind):
    for section, word in (
        ("es", "es.num_generations"),
        ("search", "search.iterations"),
    ):
        if not kind.reads(section):
            said = f"and this run is of the runner {kind.name}"
            with pytest.raises(ConfigError, match=said) as refused:
                load([f"{word}=3"], options={"runner": kind.name})
            own = {"evo": "write es.num_gen", "es": "write search.iterations"}
            assert own.get(kind.name, said) in str(refused.value)


@pytest.mark.slow
def test_rl_trains_two_independent_learners_at_once():
    words = ("imp/tabular_v_tabular", *SIZES, "total_timesteps=16")
    plan = prepare(load([*words, *(f"agent{i}.num_minibatches=1" for i in (1, 2))]))
    program = program_of(plan)
    before = [policies(program.state, slot) for slot in (0, 1)]
    program.run(1)
    after = [policies(program.state, slot) for slot in (0, 1)]
    assert not np.array_equal(before[0], after[0])
    assert not np.array_equal(before[1], after[1])
    # What one of them wins in matching pennies the other loses.
    assert not np.array_equal(*after)


def policies(state, slot):
    """Returns all parameters of a slot's agent as one vector."""
    leaves = jax.tree.leaves(state.outer.agents[slot].params)
    return np.concatenate([np.asarray(leaf).ravel() for leaf in leaves])
