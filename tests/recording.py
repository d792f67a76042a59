"""What small runs of every kind leave behind, recorded to the bit.

`recording.json` holds, for each entry of `RECORDED`, digests of the trained weights and
of the logged rows, and some of their numbers. A change of the code that is meant to
leave results alone leaves the recording alone: `test_recording.py` compares. Bits are
compared on the kind of processor and the version of JAX that the recording was made
with; elsewhere programs round differently, and the numbers are compared to a tolerance.

To renew it after a change that is meant to move results, and to say so in the
changelog, run `python tests/recording.py`, or name the entries that may move:
`python tests/recording.py "rl PPO" "evo PPO"`.
"""

import contextlib
import hashlib
import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import conftest  # Programs are cached as those of the tests are.

PATH = Path(__file__).with_suffix(".json")
#: How programs are compiled for the recording, however the tests around compile theirs:
#: another way of compiling rounds otherwise.
FLAGS = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
ANSWER = "--answer"
#: Between two kinds of processors; a sampled action may tip, so runs are short.
TOLERANCE = 2e-3

QUIET = ("plot=false", "tensorboard=false", "num_seeds=2", "chunk_size=2")
IPD = ("env=IPD", "env.num_inner_steps=5", "num_envs=4", "total_timesteps=100")
INFINITE = (
    *("runner=rl", "env=InfiniteMatrixGame", "env.num_inner_steps=1", "num_envs=1"),
    "total_timesteps=4",
)
COINS = ("runner=rl", "env=CoinGame", "env.num_inner_steps=8", "num_envs=4")
TRIALS = ("env=IPD", "env.num_inner_steps=4", "num_outer_steps=3", "num_envs=2")
SEARCH = (*TRIALS, "runner=evo", "popsize=4", "num_generations=3", "top_k=2")
STREAM = ("runner=sarl", "num_envs=4", "log_interval=1")
REPLAY = (
    *("runner=sarl", "env=CartPole", "agent1=DQN", "agent1.hidden_sizes=[8]"),
    *("agent1.batch_size=8", "agent1.train_every=4", "agent1.target_every=8"),
    *("agent1.buffer_size=64", "agent1.warmup_steps=16", "num_envs=2"),
    "total_timesteps=160",
)


def small(player: int = 1, **more: Any) -> tuple[str, ...]:
    """Returns the options of a small learner with networks."""
    options = {"hidden_sizes": "[4]", "num_minibatches": 2, **more}
    return tuple(f"agent{player}.{name}={value}" for name, value in options.items())


#: Runs of `paxrun`, by name: their words.
RUNS = {
    "eval fixed": (*IPD, "runner=eval", "agent1=TitForTat", "agent2=Random"),
    "eval learner": (*IPD, "runner=eval", "agent1=PPO", *small(), "agent2=Grim"),
    "eval coins": (*COINS, "runner=eval", "agent1=OwnCoin", "agent2=AnyCoin"),
    "rl PPO": (
        *(*IPD, "runner=rl", "agent1=PPO", *small(learning_rate_end=0)),
        *("agent2=TitForTat", "eval_interval=40"),
    ),
    "rl PPO PPO": (*IPD, "runner=rl", "agent1=PPO", *small(), "agent2=PPO", *small(2)),
    "rl opponents": (
        *(*IPD, "runner=rl", "agent1=PPO", *small(), "num_opponents=2"),
        *("total_timesteps=200", "agent2=Tabular", "agent2.num_minibatches=2"),
    ),
    "rl RecurrentPPO": (
        *(*IPD, "runner=rl", "agent1=RecurrentPPO", *small(entropy_coeff_end=0.0)),
        *("agent2=PPO_memory", *small(2)),
    ),
    "rl coins": (
        *(*COINS, "total_timesteps=96", "agent1=RecurrentPPO", *small(gru_size=4)),
        *("agent2=PPO", *small(2)),
    ),
    "rl Naive LOLA": (*IPD, "runner=rl", "agent1=Naive", "agent2=LOLA"),
    "rl LOLA LOLA": (
        *(*IPD, "runner=rl", "agent1=LOLA", "agent1.tabular=true"),
        *("agent1.num_lookaheads=2", "agent2=LOLA", "agent2.tabular=true"),
    ),
    "rl DQN": (
        *(*IPD, "runner=rl", "agent1=DQN", "agent1.hidden_sizes=[4]"),
        *("agent1.batch_size=4", "agent1.warmup_steps=8", "agent2=Tabular"),
        "agent2.num_minibatches=2",
    ),
    "rl Shaper": (
        *(*TRIALS, "runner=rl", "agent1=Shaper", "agent1.gru_size=4"),
        *("agent1.hidden_sizes=[]", "agent1.num_minibatches=2", "agent2=Naive"),
        "total_timesteps=72",
    ),
    "rl MFOS": (
        *(*TRIALS, "runner=rl", "agent1=MFOS", "agent1.gru_size=4"),
        *("agent1.hidden_sizes=[]", "agent1.num_minibatches=2", "agent2=Tabular"),
        *("agent2.num_minibatches=2", "total_timesteps=72"),
    ),
    "rl GoodShepherd": (
        *(*TRIALS, "runner=rl", "agent1=GoodShepherd", "agent2=Naive"),
        "total_timesteps=72",
    ),
    "rl self-play": (
        *(*IPD, "runner=rl", "agent1=PPO", *small(), "agent2=PPO", *small(2)),
        "agent1.self_play_trials=3",
    ),
    "rl interventions": (
        *("runner=rl", "env=IteratedTensorGame", "env.num_inner_steps=4"),
        *("num_outer_steps=3", "num_envs=2", "num_opponents=2"),
        "agent1={name: Naive, show_payoff: true, blind_games: 1}",
        "agent2={name: Naive, clock: inner, show_payoff: true, stop_after: uniform}",
        "agent3={name: Naive, show_payoff: true}",
        "agent3.sample={learning_rate: {log_uniform: [0.01, 1]}}",
        "payoff_sampler={kind: noise, low: -1, high: 1}",
        *("shuffle_players=true", "total_timesteps=144"),
    ),
    "exact NaiveExact": (*INFINITE, "agent1=NaiveExact", "agent2=NaiveExact"),
    "exact LOLAExact": (*INFINITE, "agent1=LOLAExact", "agent2=NaiveExact"),
    "exact SOS": (*INFINITE, "agent1=SOS", "agent2=SOS"),
    "exact POLA": (*INFINITE, "agent1=POLA", "agent2=POLA"),
    "evo PPO": (
        *(*SEARCH, "agent1=PPO", "agent1.hidden_sizes=[4]", "agent2=Tabular"),
        *("agent2.num_minibatches=2", "es.sigma_decay=0.9", "eval_interval=96"),
    ),
    "evo two searches": (
        *(*SEARCH, "agent1={name: Naive, es: {}}", "num_opponents=2"),
        "agent2={name: Naive, es: {strategy: CMA_ES}}",
    ),
    "evo Shaper": (
        *(*SEARCH, "agent1=Shaper", "agent1.gru_size=4", "agent1.hidden_sizes=[]"),
        "agent2=Naive",
    ),
    "evo MFOS": (
        *(*SEARCH, "agent1=MFOS", "agent1.gru_size=4", "agent1.hidden_sizes=[]"),
        *("agent1.context=avg", "num_opponents=2", "agent2=Tabular"),
        "agent2.num_minibatches=2",
    ),
    "sarl PPO": (
        *(*STREAM, "env=CartPole", "agent1=PPO", *small(n_steps=16)),
        *("total_timesteps=192", "eval_interval=64"),
    ),
    "sarl RecurrentPPO": (
        *(*STREAM, "env=CartPole", "agent1=RecurrentPPO", *small(n_steps=8)),
        "total_timesteps=96",
    ),
    "sarl continuous": (
        *(*STREAM, "env=Pendulum", "agent1=PPO", *small(n_steps=16)),
        "total_timesteps=192",
    ),
    "sarl IPD": (
        *(*STREAM, "env=IPD", "env.num_inner_steps=5", "agent1=PPO"),
        *(*small(n_steps=10), "agent2=TitForTat", "total_timesteps=120"),
    ),
    "sarl DQN": REPLAY,
    "sarl SAC": (
        *("runner=sarl", "env=Pendulum", "agent1=SAC", "agent1.hidden_sizes=[4]"),
        *("agent1.batch_size=8", "agent1.train_every=4", "agent1.target_every=8"),
        *("agent1.buffer_size=64", "agent1.warmup_steps=16", "num_envs=2"),
        "total_timesteps=160",
    ),
    "es": (
        *("runner=es", "env=IPD", "agent2=TitForTat", "num_inner_steps=4"),
        *("num_envs=2", "agent1=PPO", "agent1.tabular=true", "agent1.n_steps=4"),
        *("agent1.num_minibatches=1", "agent1.num_epochs=1", "eval_episodes=2"),
        *("search.strategy=SimpleES", "search.population_size=4"),
        *("search.iterations=2", "search.num_steps_per_iteration=16"),
        "search.search_targets=[parameters, 'lr:1e-3:1e-1:log']",
        "num_seeds=1",
    ),
    "online": (
        *("runner=online", "env=IPD", "agent2=TitForTat", "num_inner_steps=4"),
        *("num_envs=2", "agent1=PPO", "agent1.tabular=true", "agent1.n_steps=4"),
        *("agent1.num_minibatches=1", "agent1.num_epochs=1", "eval_episodes=2"),
        *("total_timesteps=48", "num_seeds=1"),
    ),
}
#: Runs that are stopped after two iterations and go on; they leave what the run leaves
#: that was not stopped.
RESUMED = ("rl RecurrentPPO", "evo PPO", "sarl PPO", "sarl DQN", "online")
#: Runs over two virtual devices, each in a process of its own.
TWO_DEVICES = ("rl PPO", "evo PPO", "sarl PPO")

Leaves = Iterable[Any]
Result = tuple[dict[str, Leaves], dict[str, list[dict[str, Any]]]]


def of_run(run_dir: Any) -> Result:
    """Returns the weights by file and the rows by log of a run directory."""
    import jax
    from flax import serialization

    from runners.storage.jsonl import read_rows

    weights = {
        path.stem: jax.tree.leaves(serialization.msgpack_restore(path.read_bytes()))
        for path in sorted(run_dir.models.glob("*.msgpack"))
    }
    logs = (run_dir.metrics, run_dir.eval_metrics)
    rows = {path.stem: read_rows(path) for path in logs if path.is_file()}
    return weights, rows


def play(words: tuple[str, ...]) -> Result:
    """Runs an experiment from its beginning to its end."""
    import runners

    with tempfile.TemporaryDirectory() as folder:
        return of_run(runners.run(*QUIET, *words, run_dir=folder).run_dir)


def play_with_a_stop(words: tuple[str, ...]) -> Result:
    """Runs an experiment, presses Ctrl-C after two iterations, and resumes it."""
    import runners
    from runners.session.resuming import plan_of_run

    class Stops(runners.Observer):
        def on_chunk(self, chunk):
            self.stop(chunk.last)

        def on_row(self, iteration, total, row):
            self.stop(iteration)

        def stop(self, iteration):
            if iteration >= 2:
                signal.raise_signal(signal.SIGINT)

    with tempfile.TemporaryDirectory() as folder:
        stopped = runners.run(*QUIET, *words, run_dir=folder, observer=Stops())
        assert stopped.interrupted
        plan, run_dir = plan_of_run(folder)
        from runners.launch import resume_plan

        resume_plan(plan, run_dir)
        return of_run(run_dir)


def functional(algorithm: str, game: str, **runner: Any) -> Result:
    """Calls `train_ppo`, `train_dqn` or `train_sac`."""
    import jax

    import paxenv
    import runners
    from paxenv_agents.learners.dqn import DQNConfig
    from paxenv_agents.learners.ppo import PPOConfig
    from paxenv_agents.learners.sac import SACConfig

    replay = {"hidden_sizes": (8,), "batch_size": 8, "train_every": 4}
    own = {
        "ppo": PPOConfig(n_steps=16, num_envs=4, hidden_sizes=(8,), num_minibatches=2),
        "dqn": DQNConfig(**replay, target_every=8),
        "sac": SACConfig(**replay, target_every=8),
    }[algorithm]
    options = {key: runner.pop(key) for key in ("buffer",) if key in runner}
    if algorithm == "ppo":
        runner = {"total_timesteps": 192, "eval_every": 128, **runner}
    else:
        sizes = {"buffer_size": 64, "warmup_steps": 40, "num_envs": 2}
        runner = {"total_timesteps": 120, "eval_every": 60, **sizes, **runner}
    config = runners.RunnerConfig(plot=False, log_interval=20, **runner)
    several = config.num_devices is not None
    train = getattr(runners, f"train_{algorithm}" + ("_multigpu" if several else ""))
    given = {f"{algorithm}_config": own, "runner_config": config, **options}
    result = train(*paxenv.make(game), **given)
    state = result.state if algorithm == "ppo" else result
    return {"params": jax.tree.leaves(state.agent_state.params)}, {
        "log": result.metrics_log
    }


def on_policy(env: Any, **options: Any) -> Result:
    """Trains with `OnPolicyRunner`, evaluates, and keeps the rows of its callbacks."""
    import jax

    from paxenv_agents.learners.ppo import PPOConfig
    from runners import OnPolicyRunner

    config = PPOConfig(n_steps=8, num_minibatches=2, num_epochs=2, hidden_sizes=(8,))
    with tempfile.TemporaryDirectory() as folder:
        runner = OnPolicyRunner(
            env() if callable(env) else env,
            **{"cfg": config, "seed": 3, "log_dir": folder, **options},
        )
        rows: list[dict[str, Any]] = []
        runner.add_callback("post_iteration", lambda _, stats: rows.append(dict(stats)))
        runner.learn(num_iterations=3)
        rows.append(dict(runner.eval(num_episodes=4)))
        params = jax.tree.leaves(runner.state.params)
    return {"params": params}, {"rows": rows}


def gymnasium_games() -> Any:
    """Returns two games of Gymnasium, played on the host."""
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
    from on_policy_fakes import PartsEnv

    return SyncVectorEnv([PartsEnv] * 2, autoreset_mode=AutoresetMode.NEXT_STEP)


#: What is recorded, by name.
RECORDED: dict[str, Callable[[], Result]] = {
    **{name: lambda words=words: play(words) for name, words in RUNS.items()},
    **{f"{n} resumed": lambda n=n: play_with_a_stop(RUNS[n]) for n in RESUMED},
    **{
        f"{n} on two devices": lambda n=n: play((*RUNS[n], "num_devices=2"))
        for n in TWO_DEVICES
    },
    "train_ppo": lambda: functional("ppo", "CartPole-v1"),
    "train_ppo_multigpu on two devices": lambda: functional(
        "ppo", "CartPole-v1", num_devices=2
    ),
    "train_dqn": lambda: functional("dqn", "CartPole-v1"),
    "train_dqn replay on the host": lambda: functional(
        "dqn", "CartPole-v1", buffer="host"
    ),
    "train_sac": lambda: functional("sac", "Pendulum-v1"),
    "OnPolicyRunner": lambda: on_policy("CartPole-v1", num_envs=4),
    "OnPolicyRunner on the host": lambda: on_policy(gymnasium_games),
}


def record(name: str) -> dict[str, Any]:
    """Returns the record of an entry of `RECORDED`, made in this process."""
    weights, rows = RECORDED[name]()
    return {
        "weights": {key: of_arrays(leaves) for key, leaves in weights.items()},
        "rows": {key: of_rows(log) for key, log in rows.items()},
    }


class Recorder:
    """Makes records in two processes, of one device and of two, compiled by `FLAGS`.

    How a process that has begun compiles is decided, and so is its number of devices.
    """

    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[str]] = {}

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.communicate(timeout=60)

    def record(self, name: str) -> dict[str, Any]:
        """Returns the record of an entry of `RECORDED`."""
        process = self._process(2 if name.endswith("on two devices") else 1)
        assert process.stdin
        assert process.stdout
        print(name, file=process.stdin, flush=True)
        line = process.stdout.readline()
        assert line, f"the process that recorded {name} has ended"
        answer = json.loads(line)
        assert "failed" not in answer, answer["failed"]
        return answer

    def _process(self, num_devices: int) -> "subprocess.Popen[str]":
        if num_devices not in self._processes:
            self._processes[num_devices] = subprocess.Popen(
                [sys.executable, __file__, ANSWER, str(num_devices)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "XLA_FLAGS": FLAGS},
            )
        return self._processes[num_devices]


def answer(num_devices: int) -> None:
    """Prints the record of every name that is read, until there is none."""
    import runners

    if num_devices > 1:
        runners.ensure_devices(num_devices)
    programs = conftest.CompiledPrograms()
    # What runs say is none of the answers.
    with os.fdopen(os.dup(1), "w") as answers, contextlib.redirect_stdout(sys.stderr):
        for line in sys.stdin:
            try:
                found = record(line.strip())
            except Exception:
                found = {"failed": traceback.format_exc()}
            print(json.dumps(found), file=answers, flush=True)
            programs.pytest_runtest_logfinish()


def of_arrays(leaves: Leaves) -> dict[str, Any]:
    """Returns the digest of arrays, their number of entries and two sums."""
    import numpy as np

    digest, size, total, absolute = hashlib.sha256(), 0, 0.0, 0.0
    for array in map(np.asarray, leaves):
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
        size += array.size
        total += float(array.sum(dtype=np.float64))
        absolute += float(np.abs(array).sum(dtype=np.float64))
    return {
        "sha256": digest.hexdigest(),
        "size": size,
        "sum": rounded(total),
        "absolute": rounded(absolute),
    }


def of_rows(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the digest of rows without wall-clock times, and the last of them."""
    plain = [
        {
            name: value if isinstance(value, int | str | bool) else number(value)
            for name, value in sorted(row.items())
            if not is_time(name) and not isinstance(value, dict | list | tuple)
        }
        for row in rows
    ]
    text = json.dumps(plain)
    return {
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "count": len(rows),
        "last": {name: rounded(value) for name, value in plain[-1].items()},
    }


def is_time(name: str) -> bool:
    """Whether an entry of a row depends on how fast the machine is."""
    return name.startswith(("time/", "perf/")) or "seconds" in name or "fps" in name


def number(value: Any) -> float | None:
    """Returns a number as JSON has it; None for NaN."""
    found = float(value)
    return None if math.isnan(found) else found


def rounded(value: Any) -> Any:
    """Returns a number to seven digits: what a processor of another kind may give."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def machine() -> dict[str, str]:
    """Returns what decides how programs round: the processor's kind, and JAX's version.

    Two kinds may have one name; the features that compilers use tell them apart.
    """
    import jax

    processor, info = platform.machine(), Path("/proc/cpuinfo")
    if info.is_file():
        first = info.read_text().partition("\n\n")[0].splitlines()
        facts = {k.strip(): v.strip() for k, _, v in (x.partition(":") for x in first)}
        kind = [facts.get(x, "") for x in ("model name", "cpu family", "model")]
        flags = hashlib.sha256(facts.get("flags", "").encode()).hexdigest()[:8]
        processor = ", ".join([processor, *kind, flags])
    return {"processor": processor, "jax": jax.__version__}


def read() -> dict[str, Any]:
    """Returns the recording: `machine`, and `entries` by name."""
    return json.loads(PATH.read_text(encoding="utf-8"))


def main(names: list[str]) -> None:
    """Records all entries, or those that are named, and says which have moved."""
    known = read() if PATH.is_file() else {"machine": machine(), "entries": {}}
    if names and known["machine"] != machine():
        sys.exit("the recording is of another machine: renew all of it")
    entries = dict(known["entries"]) if names else {}
    with Recorder() as recorder:
        for name in names or RECORDED:
            entries[name] = recorder.record(name)
            moved = entries[name] != known["entries"].get(name)
            print(f"{'moved' if moved else 'same '}  {name}", flush=True)
    lines = (f"{json.dumps(name)}: {json.dumps(e)}" for name, e in entries.items())
    head = f'{{"machine": {json.dumps(machine())}, "entries": {{\n'
    PATH.write_text(head + ",\n".join(lines) + "\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == [ANSWER]:
        answer(int(sys.argv[2]))
    else:
        main(sys.argv[1:])
