"""What importing the package costs."""

import importlib
import inspect
import pydoc
import sys

import pytest

import paxenv


def test_import_starts_no_jax_and_takes_under_3_seconds(run_python):
    """Importing the package, making lists and reading names loads no JAX.

    Seconds are those of the processor, which a busy machine makes no longer.
    """
    code = """
import sys, time
start = time.process_time()
import paxenv
seconds = time.process_time() - start
paxenv.games(), paxenv.plugins(), dir(paxenv), paxenv.__version__
heavy = {"jax", "jaxlib", "flax", "optax", "torch", "stable_baselines3", "matplotlib"}
print(sorted(heavy & set(sys.modules)), seconds < 3.0, time.process_time() < 10.0)
"""
    assert run_python(code) == "[] True True"


@pytest.mark.parametrize("module", ["paxenv_agents", "runners", "runners.cli"])
def test_other_front_doors_start_no_jax(run_python, module):
    """Neither do the agents' package and the command line."""
    code = f"import sys, {module}\nprint('jax' in sys.modules)"
    assert run_python(code) == "False"


def test_native_game_starts_no_gymnasium_torch(run_python):
    code = """
import sys, paxenv
paxenv.make("IPD")
print("torch" in sys.modules, "stable_baselines3" in sys.modules)
"""
    assert run_python(code) == "False False"


def test_cooperate_is_0_and_defect_is_1():
    assert (paxenv.COOPERATE, paxenv.DEFECT) == (0, 1)


@pytest.fixture
def no_extras(monkeypatch):
    """What is optional cannot be imported, whether it is installed or not."""
    for name in ("stable_baselines3", "torch", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "paxenv.adapters.sb3_vec_env", raising=False)


@pytest.mark.parametrize("name", ["paxenv", "paxenv_agents", "runners"])
def test_help_and_all_members_need_no_extra(name, no_extras):
    module = importlib.import_module(name)
    members = dict(inspect.getmembers(module))
    assert set(module.__all__) <= set(members)
    text = pydoc.plain(pydoc.render_doc(module))
    assert all(name in text for name in module.__all__ if name != "__version__")


def test_a_function_of_an_extra_names_it_when_it_is_called(no_extras):
    from paxenv import sb3_vec_env

    assert "num_envs" in inspect.signature(sb3_vec_env).parameters
    with pytest.raises(ImportError, match="install the extra `sb3`"):
        sb3_vec_env("IPD", 2)


def test_every_public_name_resolves():
    names = set(paxenv.__all__)
    for name in names:
        value = getattr(paxenv, name)
        assert getattr(value, "__name__", name) in (name, "int", "str")
    assert names <= set(dir(paxenv))


def test_public_functions_are_not_shadowed_by_modules():
    """Importing the modules behind them leaves the functions callable."""
    import paxenv.entry_points
    import paxenv.trajectory

    assert callable(paxenv.replay)
    assert callable(paxenv.plugins)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'paxenv' has no attribute 'nothing'"):
        _ = paxenv.nothing


def test_version_is_that_of_the_distribution(root):
    text = (root / "pyproject.toml").read_text()
    assert f'version = "{paxenv.__version__}"' in text
