"""`paxrun describe`: the rules of a game."""

import click

from runners.cli.errors import SettingsCommand, user_errors


@click.command(cls=SettingsCommand)
@click.argument("game")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE ...]")
def describe(game: str, words: tuple[str, ...]) -> None:
    """Explain a game: players, actions, what each player sees, and what it pays.

    KEY=VALUE changes options of the game, such as payoff or num_inner_steps.
    """
    from paxenv.registry import find
    from runners.config.reading import game_options
    from runners.planning.game import make_game
    from runners.report.description import description

    with user_errors(every_value_error=True):
        spec = find(game)
        env, params, notices = make_game(spec, game_options(words))
    for line in description(spec, env, params):
        click.echo(line)
    for notice in notices:
        click.secho(f"note: {notice}", fg="yellow")
