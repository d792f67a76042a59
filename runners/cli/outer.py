"""`paxrun online`, `paxrun es`: loops one level above training."""

from typing import Any

import click

from runners.cli.errors import SettingsCommand
from runners.cli.experiment import experiment_options, run_experiment, training_options

#: Options of `paxrun es`, and what they are in the section `search`.
_SEARCH = {
    "search_target": "search_targets",
    "es_name": "strategy",
    "popsize": "population_size",
    "iterations": "iterations",
    "train_agent": "train_agent",
    "num_steps_per_iteration": "num_steps_per_iteration",
    "fit_shaper": "fit_shaper",
}
#: What stands where neither a game nor an experiment is named.
_DEFAULT = {"online": "env=CartPole", "es": "sarl/cartpole_es"}


@click.command(cls=SettingsCommand)
@experiment_options
@training_options
@click.option("--deterministic", is_flag=True, help="Evaluate the likeliest actions.")
def online(words: tuple[str, ...], **options: Any) -> None:
    """Train one agent, then evaluate it.

    Player 1 learns for total_timesteps steps; the other players are a part of its game
    and do not learn. Without a game it is CartPole.
    """
    words = _with_default("online", words, options)
    run_experiment(words, _sampled({**options, "runner": "online"}))


@click.command(cls=SettingsCommand)
@experiment_options
@training_options
@click.option("--deterministic", is_flag=True, help="Evaluate the likeliest actions.")
@click.option(
    "--search-target",
    multiple=True,
    metavar="TARGET",
    help="parameters, NAME, NAME:LOW:HIGH[:SCALE] or NAME:A,B,C; repeatable. A NAME "
    "is a hyperparameter, another option of the agent, or env.NUMBER of the game.",
)
@click.option("--es", "es_name", metavar="NAME", help="A strategy of evosax.")
@click.option("--popsize", metavar="N", help="Individuals of a generation.")
@click.option("--iterations", metavar="N", help="Generations.")
@click.option(
    "--train-agent/--no-train-agent",
    default=None,
    help="Whether individuals train before they are evaluated.",
)
@click.option("--num-steps-per-iteration", metavar="N", help="Budget of an individual.")
@click.option("--fit-shaper", metavar="NAME", help="auto, centered_rank, identity, ...")
def es(words: tuple[str, ...], **options: Any) -> None:
    """Search by evolution around training.

    Every individual begins with a copy of the same agent, with its own parameters,
    hyperparameters or numbers of the game, trains, and is evaluated. EXPERIMENT is a
    stored one, such as sarl/cartpole_es (the default).
    """
    words = _with_default("es", words, options)
    given = {own: options.pop(name) for name, own in _SEARCH.items()}
    search = {name: value for name, value in given.items() if value not in (None, ())}
    if "search_targets" in search:
        search["search_targets"] = list(search["search_targets"])
    if search:
        options["search"] = search
    run_experiment(words, _sampled({**options, "runner": "es"}))


def _sampled(options: dict[str, Any]) -> dict[str, Any]:
    if not options.get("deterministic"):
        options.pop("deterministic", None)
    return options


def _with_default(
    runner: str, words: tuple[str, ...], options: dict[str, Any]
) -> tuple[str, ...]:
    """Returns the words, with the default one where nothing else is asked for."""
    named = any("=" not in word for word in words) or options.get("config_file")
    of_game = any(word.lstrip("+").startswith(("env", "experiment")) for word in words)
    if named or of_game or options.get("env"):
        return words
    return (_DEFAULT[runner], *words)
