"""`paxrun parity`: stored experiments against their stated outcomes."""

import json
from pathlib import Path
from typing import Any

import click

from runners.cli.errors import user_errors


@click.command("parity")
@click.argument("names", nargs=-1, metavar="[NAME|FAMILY]...")
@click.option("--quick", is_flag=True, help="Run the small sizes, which take minutes.")
@click.option("--seed", metavar="N", type=int, help="Seed of every run.")
@click.option("--num-seeds", metavar="N", type=int, help="Repetitions of every run.")
@click.option(
    "--record",
    metavar="DIR",
    help="Keep the numbers in DIR/experiments.json and the tables of "
    "DIR/experiments.md.",
)
@click.option("--exp-dir", metavar="DIR", default="exp", show_default=True)
@click.option("--dry-run", is_flag=True, help="Check every config and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def parity(
    names: tuple[str, ...],
    quick: bool,
    record: str | None,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Run stored experiments and compare them with the outcomes that they state.

    NAME is an experiment, FAMILY all of a family that state bands; without any, every
    one of them runs. Exit code 1 if any outcome lies outside its band.
    """
    with user_errors(every_value_error=True):
        plans = _plans(names, quick, options)
        folder = _record_folder(record)
    if dry_run:
        from paxenv.wording import counted

        for name, plan in plans.items():
            click.echo(f"{name}: {counted(plan.total_steps, 'step')} of each seed")
        return
    found = [_run(name, plan, quick, folder) for name, plan in plans.items()]
    if as_json:
        click.echo(json.dumps(found, indent=2, allow_nan=False))
    missed = sum(not f["holds"] for run in found for f in run["findings"])
    total = sum(len(run["findings"]) for run in found)
    click.echo(f"{total - missed} of {total} outcomes hold", err=as_json)
    if missed:
        click.get_current_context().exit(1)


def _plans(names: tuple[str, ...], quick: bool, options: dict[str, Any]) -> dict:
    """Returns a checked plan for each experiment, before any of them runs."""
    from runners.config import ConfigError, load, load_small
    from runners.engine.devices import ensure_devices
    from runners.planning.plan import prepare

    configs = {
        name: load_small(name, **options) if quick else load([name], options=options)
        for name in _experiments(names, quick)
    }
    most = max(config.num_devices for config in configs.values())
    if most > 1:
        ensure_devices(most)
    plans = {}
    for name, config in configs.items():
        try:
            plans[name] = prepare(config)
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from error
    return plans


def _experiments(names: tuple[str, ...], quick: bool) -> list[str]:
    from runners.config import ConfigError, experiment_names, load, load_small

    def states_bands(name: str) -> bool:
        return bool((load_small(name) if quick else load([name])).bands)

    known = experiment_names()
    chosen = [] if names else [name for name in known if states_bands(name)]
    for name in names:
        if "=" in name:
            raise ConfigError(
                f"{name!r}: an experiment is compared as it is stored; "
                f"`paxrun run NAME {name}` changes it"
            )
        family = [k for k in known if k.startswith(f"{name}/")]
        if family:
            chosen += [k for k in family if states_bands(k)]
        elif not states_bands(name):
            raise ConfigError(
                f"{name} states no bands: nothing to compare with; `paxrun run {name}` "
                "runs it"
            )
        else:
            chosen.append(name.removesuffix(".yaml"))
    if not chosen:
        raise ConfigError(f"no experiment of {', '.join(names)} states a band")
    return list(dict.fromkeys(chosen))


def _record_folder(record: str | None) -> Path | None:
    from paxenv.paths import local_path
    from runners.report.parity import PAGE
    from runners.storage.places import check_writable

    if record is None:
        return None
    if not (local_path(record) / PAGE).is_file():
        raise ValueError(f"--record {record}: there is no {PAGE} in it")
    check_writable(record)
    return local_path(record)


def _run(name: str, plan: Any, quick: bool, folder: Path | None) -> dict[str, Any]:
    """Runs one experiment, prints its findings and returns them as plain data."""
    from runners.cli.errors import INTERRUPTED, failed_runs
    from runners.cli.progress import ProgressObserver
    from runners.launch import run_plan
    from runners.report import parity
    from runners.session.resuming import opened

    command = f"paxrun parity {name}" + (" --quick" if quick else "")
    with ProgressObserver(plan) as observer, failed_runs(observer):
        outcome, run_dir = run_plan(
            plan, lambda: opened(plan.config, command.split(), False), observer
        )
    if outcome.interrupted:
        click.get_current_context().exit(INTERRUPTED)
    found = parity.findings(outcome)
    for finding in found:
        click.secho(_line(name, finding), err=True, fg=None if finding.holds else "red")
    if folder is not None:
        kept = parity.read(folder)
        size = parity.QUICK if quick else parity.FULL
        kept.setdefault(name, {})[size] = parity.measurement(outcome, command)
        parity.write(folder, kept)
        parity.rewrite(folder, kept)
    return {
        "experiment": name,
        "quick": quick,
        "run_dir": str(run_dir.path),
        "findings": [_plain(finding) for finding in found],
    }


def _line(name: str, finding: Any) -> str:
    from runners.report.parity import short

    value = "-"
    if finding.measured is not None:
        value = f"{finding.measured.mean:.3f}"
        if finding.measured.half_width is not None:
            value += f" ± {finding.measured.half_width:.3f}"
    band = f"[{finding.low:g}, {finding.high:g}]"
    return f"{name}: {short(finding.metric)} {value} in {band}: {finding.verdict}"


def _plain(finding: Any) -> dict[str, Any]:
    measured = finding.measured
    return {
        "metric": finding.metric,
        "band": [finding.low, finding.high],
        "measured": None if measured is None else measured.as_dict(),
        "holds": finding.holds,
    }
