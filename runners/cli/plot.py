"""`paxrun plot`: runs compared in one picture."""

from pathlib import Path

import click

from runners.cli.errors import user_errors
from runners.cli.runs import EXP_DIR

#: The keys of `runners.comparison.AXES`, which `--help` shall not import.
AXES = ("env_steps", "iteration", "seconds")


@click.command("plot")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--metric", metavar="NAME", help="What to draw [the return].")
@click.option(
    "--x", "axis", type=click.Choice(AXES), default="env_steps", show_default=True
)
@click.option(
    "--smooth",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Draw moving means over N points.",
)
@click.option("--out", metavar="FILE", default="comparison.png", show_default=True)
@EXP_DIR
def plot(
    runs: tuple[str, ...],
    metric: str | None,
    axis: str,
    smooth: int,
    out: str,
    exp_dir: str,
) -> None:
    """Draw a metric of runs, with confidence bands over seeds.

    RUN is a run's folder, the end of its name, or a folder with runs. Runs of the same
    setting with different seeds become one curve.
    """
    from runners.comparison import NoDataError, compare, draw
    from runners.overview import resolve

    with user_errors(every_value_error=True):
        found = {run.path: run for word in runs for run in resolve(word, exp_dir)}
        try:
            comparison = compare(list(found.values()), metric, axis=axis, smooth=smooth)
        except NoDataError as error:
            raise click.ClickException(str(error)) from error
    for note in comparison.notes:
        click.secho(f"note: {note}", err=True, fg="yellow")
    draw(comparison, Path(out))
    click.echo(f"picture of {comparison.metric}: {out}")
