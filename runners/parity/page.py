"""The tables of `docs/experiments.md`, made from stored experiments and real runs."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from paxenv.wording import counted
from runners.config import ExperimentConfig, experiment_names, load, load_small
from runners.parity.record import FULL, QUICK, Measurement

PAGE = "experiments.md"
BEGIN = "<!-- made by `paxrun parity --record`: begin -->"
END = "<!-- made by `paxrun parity --record`: end -->"
HEADINGS = {
    "ipd": "Iterated prisoner's dilemma",
    "imp": "Iterated matching pennies",
    "infinite": "Infinite games, played in closed form",
    "cg": "Coin game",
    "multiplayer_ipd": "Prisoner's dilemma of several players",
    "sarl": "One agent",
}
HEADER = "| experiment | expected | measured | bands | run |\n|---|---|---|---|---|"
SHORT = {"episode/": "", "env/": "", "/player_": " of player "}
NOT_RUN = "not run yet"


def rewrite(folder: Path, record: Mapping[str, Mapping[str, Measurement]]) -> None:
    """Puts the tables between the two marks of the page.

    Raises:
        ValueError: If the page has no such marks.
    """
    path = folder / PAGE
    text = path.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise ValueError(f"{path} needs the lines {BEGIN!r} and {END!r}")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    tables = f"{BEGIN}\n\n{render(record)}\n{END}"
    path.write_text(before + tables + after, encoding="utf-8")


def render(record: Mapping[str, Mapping[str, Measurement]]) -> str:
    """Returns a section for each family of packaged experiments."""
    families: dict[str, list[str]] = {}
    for name in experiment_names():
        families.setdefault(name.split("/")[0], []).append(name)
    known = [family for family in HEADINGS if family in families]
    others = [family for family in families if family not in HEADINGS]
    return "\n".join(
        _section(family, families[family], record) for family in [*known, *others]
    )


def _section(
    family: str,
    names: Iterable[str],
    record: Mapping[str, Mapping[str, Measurement]],
) -> str:
    rows = []
    for name in names:
        config = load([name])
        sizes = record.get(name, {})
        rows += [
            _row(config, size, sizes[size]) for size in (FULL, QUICK) if size in sizes
        ] or [f"| `{name}` | {_cell(config.expected)} | {NOT_RUN} | | |"]
    return "\n".join([f"## {HEADINGS.get(family, family)}", "", HEADER, *rows, ""])


def _row(config: ExperimentConfig, size: str, run: Measurement) -> str:
    title = f"`{config.name}`" + (" (quick)" if size == QUICK else "")
    measured = "<br>".join(
        f"{short(metric)}: {_number(*pair)}" for metric, pair in run.metrics.items()
    )
    if size == QUICK:
        config = load_small(config.name)
    wanted = "<br>".join(
        f"{short(metric)}: [{low:g}, {high:g}]"
        for metric, (low, high) in config.bands.items()
    )
    how = f"`{run.command}`<br>{counted(run.num_seeds, 'seed')}, "
    how += f"{run.seconds:.0f} s, {run.date}"
    how += f"<br>{run.device}"
    return f"| {title} | {_cell(config.expected)} | {measured} | {wanted} | {how} |"


def short(metric: str) -> str:
    """Returns a metric's name as people say it: `reward per step of player 1`."""
    for part, words in SHORT.items():
        metric = metric.replace(part, words)
    return metric.replace("_", " ")


def _number(mean: float | None, half_width: float | None) -> str:
    if mean is None:
        return "no value"
    return f"{mean:.3f}" + ("" if half_width is None else f" ± {half_width:.3f}")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").strip()
