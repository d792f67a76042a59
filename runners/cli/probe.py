"""`paxrun probe`: one forced action, and how the co-players respond to it."""

import json
from typing import Any

import click

from runners.cli.errors import SettingsCommand, user_errors
from runners.cli.run import experiment_options, plan_of_words


@click.command("probe", cls=SettingsCommand)
@experiment_options
@click.option("--run-dir", metavar="DIR", help="Probe the agents of a finished run.")
@click.option("--deterministic", is_flag=True, help="Take the likeliest actions.")
@click.option(
    "--forced",
    metavar="N",
    type=int,
    default=1,
    show_default=True,
    help="The forced player.",
)
@click.option(
    "--at",
    metavar="STEP",
    type=int,
    default=10,
    show_default=True,
    help="The step of the forced action, from 0.",
)
@click.option(
    "--action",
    metavar="A",
    type=int,
    default=1,
    show_default=True,
    help="The forced action; 1 is to defect.",
)
@click.option(
    "--window",
    metavar="N",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Steps shown before and after.",
)
@click.option(
    "--out",
    metavar="FILE",
    help="The picture [probe.png, with --run-dir among the run's artifacts].",
)
def probe(
    words: tuple[str, ...],
    forced: int,
    at: int,
    action: int,
    window: int,
    out: str | None,
    as_json: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """Force one action and show how the others act in the steps that follow.

    Every game is played twice with the same random numbers, with and without the forced
    action; nobody learns.
    """
    from paxenv.paths import local_path
    from runners.report.closing import shown
    from runners.report.figures import check_format
    from runners.report.probe import draw, table
    from runners.session.probe import check
    from runners.session.probe import probe as respond
    from runners.storage.places import check_writable
    from runners.storage.run_dir import RunDir

    with user_errors(every_value_error=True):
        # A probe is of one inner episode, unless the user asks for more and is told so.
        words = ("num_outer_steps=1", *words)
        plan = plan_of_words(words, {**options, "runner": "eval"})
        check(plan, player=forced, at=at)
        if dry_run:
            click.echo(f"{plan.title}, player {forced} forced at step {at}")
            return
        run_dir = options["run_dir"]
        picture = local_path("probe.png" if out is None else out)
        if out is None and run_dir is not None:
            picture = RunDir.open(run_dir).artifacts / picture
        check_writable(check_format(picture).parent, "folder of the picture")
        response = respond(plan, player=forced, at=at, action=action, window=window)
    draw(response, plan, forced, picture)
    if as_json:
        click.echo(
            json.dumps({**response.as_dict(), "picture": str(picture)}, indent=2)
        )
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(table(response, plan, forced))
    console.print(f"picture: {shown(picture)}", soft_wrap=True)
