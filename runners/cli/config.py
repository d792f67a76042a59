"""`paxrun config`: look at settings, check them, take a copy of an experiment."""

from pathlib import Path

import click

from runners.cli.errors import SettingsCommand, user_errors


@click.group("config")
def config_group() -> None:
    """Show, check or copy the settings of an experiment."""


@config_group.command("show", cls=SettingsCommand)
@click.argument("words", nargs=-1, metavar="[EXPERIMENT] [KEY=VALUE ...]")
@click.option("--config", "config_file", metavar="FILE", help="A YAML file.")
def show(words: tuple[str, ...], config_file: str | None) -> None:
    """Print the whole config of an experiment; --config of it gives the same."""
    from runners.config import load, to_yaml

    with user_errors(every_value_error=True):
        config = load(words, config_file=config_file)
    click.echo(to_yaml(config), nl=False)


@config_group.command("validate", cls=SettingsCommand)
@click.argument("words", nargs=-1, metavar="[EXPERIMENT] [KEY=VALUE ...]")
@click.option("--config", "config_file", metavar="FILE", help="A YAML file.")
@click.option("--all", "every", is_flag=True, help="Check every stored experiment.")
def validate(words: tuple[str, ...], config_file: str | None, every: bool) -> None:
    """Check that an experiment fits together: names, types, shapes. Runs nothing."""
    from runners.config import experiment_names, load
    from runners.plan import prepare

    with user_errors(every_value_error=True):
        if every:
            configs = [load([name, *words]) for name in experiment_names()]
        else:
            configs = [load(words, config_file=config_file)]
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

    with user_errors():
        text = experiment_text(name)
    path = LOCAL_FOLDER / Path(f"{name.removesuffix('.yaml')}.yaml")
    if path.exists() and not force:
        raise click.UsageError(f"{path} exists: --force replaces it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    click.echo(str(path))
