"""`paxrun plot`: runs compared in one picture."""

import click

from runners.cli.errors import user_errors
from runners.cli.runs import EXP_DIR

#: The keys of `runners.report.comparison.AXES`, which `--help` shall not import.
AXES = ("env_steps", "iteration", "seconds")


@click.command("plot")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--metric", metavar="NAME", help="The metric to draw [the return].")
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
@click.option(
    "--title", metavar="TEXT", help="The title [the settings that all curves share]."
)
@click.option(
    "--label",
    "labels",
    metavar="TEXT",
    multiple=True,
    help="The name of a curve; once for each, in the order of the runs.",
)
@click.option(
    "--out",
    metavar="FILE",
    default="comparison.png",
    show_default=True,
    help="The picture: .png, .pdf or .svg.",
)
@EXP_DIR
def plot(
    runs: tuple[str, ...],
    metric: str | None,
    axis: str,
    smooth: int,
    title: str | None,
    labels: tuple[str, ...],
    out: str,
    exp_dir: str,
) -> None:
    """Draw a metric of runs, with confidence bands over seeds.

    RUN is a run's folder, the end of its name, or a folder with runs. Runs of the same
    setting with different seeds become one curve.
    """
    from paxenv.paths import local_path
    from runners.engine.metric_names import words as in_words
    from runners.report.comparison import NoDataError, compare, draw
    from runners.report.figures import check_format
    from runners.report.overview import resolve
    from runners.storage.places import check_writable

    with user_errors(every_value_error=True):
        picture = check_format(local_path(out))
        check_writable(picture.parent, "folder of the picture")
        found = {run.path: run for word in runs for run in resolve(word, exp_dir)}
        try:
            comparison = compare(list(found.values()), metric, axis=axis, smooth=smooth)
        except NoDataError as error:
            raise click.ClickException(str(error)) from error
        if labels:
            comparison = comparison.relabelled(labels)
        if title is not None:
            comparison = comparison._replace(title=title)
    for note in comparison.notes:
        click.secho(f"note: {note}", err=True, fg="yellow")
    draw(comparison, picture)
    click.echo(f"picture of {in_words(comparison.metric)}: {out}")
