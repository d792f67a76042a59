"""`paxrun config`: shows, checks and copies the settings of an experiment."""

from pathlib import Path
from typing import Any

import click

from runners.cli.errors import SettingsCommand, user_errors
from runners.cli.run import config_of_words, setting_options


@click.group("config")
def config_group() -> None:
    """Show, check or copy the settings of an experiment."""


_QUICK = click.option("--quick", is_flag=True, help="Use the experiment's small size.")


@config_group.command("show", cls=SettingsCommand)
@setting_options
@_QUICK
@click.option("--origins", is_flag=True, help="Show where each value was written.")
def show(words: tuple[str, ...], origins: bool, **options: Any) -> None:
    """Print the whole config of an experiment, which --config reads again.

    With --origins each setting is a line KEY=VALUE, followed by the file, the word or
    the option that it comes from.
    """
    from runners.config import origin_lines, to_yaml
    from runners.planning.seating import check_options

    with user_errors(every_value_error=True):
        config = config_of_words(words, options)
        check_options(config)
    if not origins:
        click.echo(to_yaml(config), nl=False)
        return
    for line in origin_lines(config):
        click.echo(line)


@config_group.command("validate", cls=SettingsCommand)
@setting_options
@_QUICK
@click.option("--all", "every", is_flag=True, help="Check every stored experiment.")
def validate(words: tuple[str, ...], every: bool, **options: Any) -> None:
    """Check that an experiment fits together: names, types, shapes. Runs nothing."""
    from runners.config import experiment_names
    from runners.planning.plan import prepare

    with user_errors(every_value_error=True):
        names = [(name,) for name in experiment_names()] if every else [()]
        configs = [config_of_words((*name, *words), dict(options)) for name in names]
        plans = [prepare(config) for config in configs]
    from paxenv.wording import counted

    for plan in plans:
        click.echo(
            f"{plan.config.name}: {plan.title}, "
            f"{counted(plan.num_iterations, 'iteration')} of "
            f"{counted(plan.steps_per_iteration, 'step')}"
        )


@config_group.command("eject")
@click.argument("name")
@click.option("--force", is_flag=True, help="Replace a copy that is there already.")
def eject(name: str, force: bool) -> None:
    """Copy a stored experiment to ./conf, where it shadows the packaged one."""
    from runners.config.loader import LOCAL_FOLDER, experiment_text
    from runners.storage.places import check_writable

    path = LOCAL_FOLDER / Path(f"{name.removesuffix('.yaml')}.yaml")
    with user_errors():
        text = experiment_text(name)
        check_writable(path.parent)
    if path.exists() and not force:
        raise click.UsageError(f"{path} exists: --force replaces it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    click.echo(str(path))
