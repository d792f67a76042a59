"""`paxrun play`: a person against a strategy, in the terminal."""

import sys

import click

from runners.cli.errors import SettingsCommand, user_errors


@click.command(cls=SettingsCommand)
@click.argument("game")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE ...]")
@click.option("--against", metavar="NAME", help="The agent at the other seats.")
@click.option("--player", default=1, show_default=True, help="Your seat, from 1.")
@click.option("--seed", default=0, show_default=True, help="Seed of the game.")
@click.option("--payoff", metavar="TABLE", help="Payoff, as in `paxrun rl`.")
def play(
    game: str,
    words: tuple[str, ...],
    against: str | None,
    player: int,
    seed: int,
    payoff: str | None,
) -> None:
    """Play a game yourself: type the name or the number of an action, q to stop.

    Actions may also come from a pipe, one on each line.
    """
    from runners.cli.match import open_match, play_match

    with user_errors(every_value_error=True):
        match = open_match(
            game, words, against=against, player=player, seed=seed, payoff=payoff
        )
    play_match(match, sys.stdin, click.echo, prompts=sys.stdin.isatty())
