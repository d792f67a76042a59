"""Games and agents of other distributions."""

import pytest

import paxenv
from paxenv import entry_points, registry

EXAMPLE_ENTRY_POINTS = """\
[paxenv.envs]
theirs/Game-v0 = theirs.game:make

[paxenv_agents.agents]
Conditional = theirs.agent:Conditional
"""


def install(folder, name, declared, metadata=None):
    """Writes what an installer would leave of a distribution, without its code."""
    info = folder / f"{name}-1.2.0.dist-info"
    info.mkdir(parents=True)
    if metadata is None:
        metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.2.0\n"
    (info / "METADATA").write_text(metadata)
    (info / "entry_points.txt").write_text(declared)
    return folder


@pytest.fixture(scope="module")
def example(tmp_path_factory, root):
    """The import path on which the example package is installed."""
    site = install(tmp_path_factory.mktemp("site"), "theirs", EXAMPLE_ENTRY_POINTS)
    return [site, root / "examples" / "plugin_game" / "src"]


@pytest.fixture
def offers(tmp_path, monkeypatch):
    """Registers the games that a distribution with these entry points offers."""
    monkeypatch.setattr(registry, "_GAMES", dict(registry.games()))
    monkeypatch.setattr(entry_points, "_FOUND", dict(entry_points._FOUND))

    def found(lines, **kwargs):
        folder = tmp_path / "site"
        install(folder, "odd", f"[paxenv.envs]\n{lines}\n", **kwargs)
        monkeypatch.syspath_prepend(folder)
        entry_points.discover("game", entry_points.add_game)
        return [p for p in paxenv.plugins() if p.kind == "game"]

    return found


def test_example_declares_the_entry_points_that_are_tested_here(root):
    text = (root / "examples" / "plugin_game" / "pyproject.toml").read_text()
    assert '"theirs/Game-v0" = "theirs.game:make"' in text
    assert 'Conditional = "theirs.agent:Conditional"' in text


def test_plugin_is_listed_and_not_imported(example, run_python):
    code = """
import sys, paxenv
for plugin in paxenv.plugins():
    if plugin.distribution == "theirs":
        print(plugin.kind, plugin.name, plugin.version, repr(plugin.refused))
print("jax" in sys.modules, "theirs" in sys.modules)
"""
    assert run_python(code, example).splitlines() == [
        "game theirs/Game-v0 1.2.0 ''",
        "agent Conditional 1.2.0 ''",
        "False False",
    ]


def test_plugin_game_works_in_every_front_end_without_adapter_code(example, run_python):
    code = """
import gymnasium, numpy as np, paxenv
env, params = paxenv.make("theirs/Game-v0", num_inner_steps=4, random_ends=True)
paxenv.check_env(env, params)

single = gymnasium.make("theirs/Game-v0", opponent="Conditional", num_inner_steps=4)
obs, _ = single.reset(seed=0)
ends = [single.step(0)[2:4] for _ in range(4)]
print(obs.tolist(), ends[-1])

vector = gymnasium.make_vec("theirs/Game-v0", num_envs=3)
obs, _ = vector.reset(seed=0)
print(obs.shape, vector.step(np.ones(3, np.int64))[1].tolist())

parallel = paxenv.parallel_env("theirs/Game-v0", num_players=3, num_inner_steps=1)
obs, _ = parallel.reset(seed=0)
print(len(obs), parallel.step({agent: 0 for agent in parallel.agents})[3])
"""
    lines = run_python(code, example).splitlines()
    assert lines[0] == "[1.0, 0.0] (False, True)"
    assert lines[1].startswith("(3, 2) [")
    assert lines[2].startswith("3 {")
    assert lines[2].count("True") == 3


def test_plugin_agent_is_made_by_its_name(example, run_python):
    code = """
import paxenv, paxenv_agents
env, _ = paxenv.make("theirs/Game-v0")
print(type(paxenv_agents.make_agent("Conditional", env, threshold=0.2)).__name__)
"""
    assert run_python(code, example) == "Conditional"


def test_plugin_game_and_agent_are_listed_and_described_by_their_docstrings(
    example, run_python
):
    code = """
from click.testing import CliRunner
from runners.cli import cli
for words in (["describe", "theirs/Game"], ["list", "agents"], ["list", "envs"]):
    result = CliRunner().invoke(cli, words, env={"COLUMNS": "300"})
    print(" ".join(result.output.split()))
"""
    described, agents, games = run_python(code, example).splitlines()
    assert "Each player holds a coin and gives it to a pool" in described
    assert "is lost with probability `failure_prob`" in described
    assert "Gives if at least `threshold` of the others gave" in agents
    assert "Each player holds a coin and gives it to a pool" in games


@pytest.mark.slow
def test_example_passes_its_own_tests(example, run_python, root):
    tests = root / "examples" / "plugin_game" / "tests"
    code = f"""
import pytest, sys
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", {str(tests)!r},
                      "-c", "/dev/null", {str(tests)!r}]))
"""
    assert "4 passed" in run_python(code, example)


def test_plugin_that_does_not_import_breaks_only_its_own_make(tmp_path, run_python):
    site = install(tmp_path, "broken", "[paxenv.envs]\nbroken/G-v0 = nowhere.at:all\n")
    code = """
import paxenv
print([p.refused for p in paxenv.plugins() if p.distribution == "broken"])
paxenv.make("IPD")
try:
    paxenv.make("broken/G")
except ImportError as error:
    print(error)
"""
    assert run_python(code, [site]).splitlines() == [
        "['']",
        "the game 'broken/G-v0' of the distribution 'broken' does not load: "
        "ModuleNotFoundError: No module named 'nowhere'",
    ]


@pytest.mark.parametrize(
    "declared", ["[paxenv.envs]\nno value here\n", "[paxenv.envs]\n[[[\n= =\n"]
)
def test_unreadable_entry_points_break_nothing(tmp_path, run_python, declared):
    site = install(tmp_path, "broken", declared)
    code = """
import paxenv
assert "pax/IPD-v0" in paxenv.games()
print([p.refused != "" for p in paxenv.plugins() if p.distribution == "broken"])
"""
    assert run_python(code, [site]) in ("[True]", "[True, True]")


def test_distribution_without_a_name_breaks_nothing(offers):
    (plugin,) = offers("a/B-v0 = c:d", metadata="")
    assert plugin.name == "a/B-v0"
    assert plugin.refused == ""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("pax/Mine-v0 = m:f", "the namespace 'pax' is reserved"),
        ("Mine-v0 = m:f", "not of the form 'namespace/Name-v0'"),
        ("theirs/Mine = m:f", "not of the form 'namespace/Name-v0'"),
        ("theirs/M/N-v0 = m:f", "not of the form 'namespace/Name-v0'"),
        ("theirs/Mine-v0 = m.f", "'m.f' is not of the form 'module:attribute'"),
    ],
)
def test_malformed_plugin_is_refused_with_the_reason(offers, line, reason):
    (plugin,) = offers(line)
    assert reason in plugin.refused
    assert (plugin.distribution, plugin.version) == ("odd", "1.2.0")
    assert plugin.name not in registry.games() or plugin.name == "pax/IPD-v0"


def test_id_that_is_taken_is_refused(offers, monkeypatch):
    registry.register(registry.GameSpec("theirs/Mine-v0", "first:f"))
    (plugin,) = offers("theirs/Mine-v0 = second:f")
    assert "'theirs/Mine-v0' is taken" in plugin.refused
    assert registry.find("theirs/Mine-v0").entry_point == "first:f"


def test_one_refused_plugin_leaves_the_others(offers):
    found = offers("pax/Mine-v0 = m:f\nodd/Mine-v0 = m:f")
    assert [bool(p.refused) for p in found] == [True, False]
    assert registry.find("odd/Mine").entry_point == "m:f"
