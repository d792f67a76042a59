"""What remains of an experiment where its game, agents or runner are changed."""

from typing import Any

from paxenv.registry import UnknownGameError, find
from runners.config.merging import agent_index, agent_keys, merge, runner_of
from runners.config.schema import ExperimentConfig
from runners.config.settings import Layer, Origin, Setting, plain

#: What an experiment says of itself.
CLAIMS = ("description", "expected", "source", "bands")
#: Settings of a game that say how much is played, not what.
SIZES = ("num_inner_steps", "num_outer_steps")
#: Settings of an agent that say where it starts, not what it is.
STARTS = ("model_path", "run_path")
#: What the name of a run adds to that of the experiment that it departs from.
SIGN = "+"
OTHER_NAME = Origin("default", "the experiment, and what differs from it")


def experiment_of(name: str) -> str:
    """Returns the experiment that a run's name says it is of, or departs from."""
    return name.partition(SIGN)[0]


def inherited(base: Layer, layer: Layer) -> Layer:
    """Returns `base` with `layer` on top, as an experiment of its own.

    What the base says of itself is left out where game, agents or runner differ.
    """
    merged = merge(base, layer)
    if departures(base, merged):
        merged = _without_claims(merged, base)
    return merged


def changed(base: Layer, layer: Layer) -> Layer:
    """Returns an experiment with `layer` on top, as a run of it.

    One with another game, other agents or another runner has a name that says so, and
    states nothing.
    """
    merged = merge(base, layer)
    differ = departures(base, merged)
    if not differ:
        return merged
    merged = _without_claims(merged, base)
    name = base.get("name")
    if name is not None and merged["name"] == name:
        text = SIGN.join((str(name.value), *differ))
        merged["name"] = Setting(text, OTHER_NAME)
    return merged


def nobody_asked(base: Layer, whole: Layer) -> Layer:
    """Returns a run of the default experiment, which nobody asked for.

    Other players make another experiment, which is named after them.
    """
    other = _names(base) != _names(whole)
    named_after = whole.get("name") not in (None, base.get("name"))
    if other and named_after and not whole["name"].origin.typed:
        return {key: value for key, value in whole.items() if key != "name"}
    return whole


def departures(base: Layer, layer: Layer) -> tuple[str, ...]:
    """Returns in what the game, the agents or the runner differ, in a word each.

    Those are a game's name, `payoff` or another option of it, `agent1` and so on, and
    the runner's name.
    """
    before, after = _played(base), _played(layer)
    if not before:
        return ()
    differ = [key for key in after | before if after.get(key) != before.get(key)]
    if "game" in differ:
        differ[differ.index("game")] = str(after["game"]).removeprefix("pax/")
    runner = _runner(layer)
    return tuple(differ) if runner == _runner(base) else (*differ, runner)


def _runner(layer: Layer) -> str:
    found = runner_of(layer)
    return ExperimentConfig.runner if found is None else str(found.value)


def _names(layer: Layer) -> list[Any]:
    return [plain(layer[key]).get("name") for key in agent_keys(layer)]


def _played(layer: Layer) -> dict[str, Any]:
    """Returns what is played and by whom, as plain data."""
    game = dict(plain(layer.get("env", {})))
    played: dict[str, Any] = {}
    if game:
        played["game"] = _game(game.pop("id", None))
    played |= {key: value for key, value in game.items() if key not in SIZES}
    for key in sorted(agent_keys(layer), key=agent_index):
        entry = plain(layer[key])
        played[key] = {k: v for k, v in entry.items() if k not in STARTS}
    for key in ("payoff_sampler", "shuffle_players"):
        if key in layer:
            played[key] = plain(layer[key])
    return played


def _game(id: Any) -> str:
    try:
        return find(str(id)).id.partition("-v")[0]
    except UnknownGameError:
        return str(id)


def _without_claims(merged: Layer, base: Layer) -> Layer:
    """Returns a layer without what the base said of itself."""
    return {
        key: value
        for key, value in merged.items()
        if key not in CLAIMS or value != base.get(key)
    }
