"""Run directories with rows that were made up, for tests of who reads them."""

from collections.abc import Callable
from pathlib import Path

from runners.config import load
from runners.storage.jsonl import JsonLines
from runners.storage.run_dir import RunDir

Metric = Callable[[int, int], float]


def fake_run(
    exp_dir: Path,
    *words: str,
    iterations: range = range(1, 6),
    metrics: dict[str, Metric] | None = None,
    status: str | None = "finished",
) -> RunDir:
    """Makes a run of `ipd/ppo_v_tft`, one seed, that logged what was asked for.

    Args:
        exp_dir: Where.
        words: Settings.
        iterations: The iterations that are logged, of ten steps each.
        metrics: Functions of (iteration, seed index), by name.
        status: How it ended; None if it runs.
    """
    config = load(["ipd/ppo_v_tft", "num_seeds=1", f"exp_dir={exp_dir}", *words])
    run = RunDir.create(config, ["rl", *words])
    with JsonLines(run.metrics) as log:
        for i in iterations:
            for seed in range(config.num_seeds):
                row = {name: of(i, seed) for name, of in (metrics or {}).items()}
                log.log(10 * i, i, {**row, "time/seconds": i / 2}, seed=seed)
    if status is not None:
        run.finish(status)
    return run
