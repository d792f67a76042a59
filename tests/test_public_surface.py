"""What the packages offer by name, and nothing that they only import."""

import importlib
import pydoc

import pytest

import paxenv
import paxenv_agents
import runners


@pytest.mark.parametrize("package", [paxenv, paxenv_agents, runners])
def test_dir_names_what_is_public(package):
    names = set(dir(package))
    assert {*package.__all__} <= names
    assert not {"Any", "TYPE_CHECKING", "importlib", "metadata", "_LAZY"} & names


@pytest.mark.parametrize("package", [paxenv, paxenv_agents, runners])
def test_every_public_name_is_there(package):
    assert [name for name in dir(package) if not hasattr(package, name)] == []


@pytest.mark.parametrize("name", ["on_policy", "functional", "outer_loops"])
def test_the_views_are_attributes_of_the_package(name):
    view = importlib.import_module(f"runners.views.{name}")
    assert getattr(runners, name) is view
    offered = getattr(view, "__all__", ("train_ppo", "train_dqn", "train_sac"))
    for own in offered:
        assert getattr(view, own) is getattr(runners, own)


def test_help_of_runners_names_everything():
    text = pydoc.plain(pydoc.render_doc(runners)).partition("PACKAGE CONTENTS")[0]
    modules = {"on_policy", "functional", "outer_loops"}
    assert [name for name in runners.__all__ if name not in text] == []
    assert [name for name in modules if name not in text] == []


def test_the_three_outer_optimisers_stand_beside_one_another():
    names = {runners.Frozen, runners.Gradient, runners.Evolution}
    assert len(names) == 3
