"""Settings that JAX reads when it starts, and what all tests share."""

import ctypes
import gc
import importlib.util
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import hypothesis
import pytest
from jaxtyping import install_import_hook

# The caller's own settings win, so that the same tests run on an accelerator.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# On a machine of few cores XLA's thread pool would be too small for virtual devices.
os.environ.setdefault("NPROC", "16")
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / "paxenv_jax_cache")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# Most of the time of these tests is compilation, so programs are compiled in haste. Set
# XLA_FLAGS, if only to nothing, to test them as they run for users.
HASTE = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
# XLA ends a process for a flag that it does not know; later versions may drop this one.
UNFUSED = " --xla_cpu_use_fusion_emitters=false"
KNOWN = tuple(map(int, version("jaxlib").split(".")[:2])) <= (0, 10)
os.environ.setdefault("XLA_FLAGS", HASTE + UNFUSED * KNOWN)
# Where in the sources an operation was written is of no use here, and long to note.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
# Tracing makes a great many objects, few of them in cycles; looking for those took an
# eighth of the time.
gc.set_threshold(100_000, 50, 50)

# Shapes and dtypes in signatures are checked in every test, and in pure functions all
# other types too: the hook that is installed last comes first. Configs and agents are
# left out, which refuse wrong values by messages of their own, and modules with
# dataclasses that are pytrees: JAX makes them of shapes, and of anything else.
CHECKED = {
    "paxenv.envs": ("coin_metrics", "coin_views"),
    "paxenv_agents": ("ops",),
    "paxenv_agents.engine": ("experience",),
    "paxenv_agents.exact": ("games", "gradients", "proximal", "training"),
    "paxenv_agents.learners": ("losses", "lookahead", "minibatches"),
    "paxenv_agents.networks": ("actor_critic", "feed_forward", "recurrent"),
    "runners.engine": ("metric_names", "statistics"),
    "runners.search": ("algorithms",),
}
install_import_hook("paxenv", "array_checks.checked")
install_import_hook(
    [f"{package}.{name}" for package, names in CHECKED.items() for name in names],
    "beartype.beartype",
)

#: Tests of a package that is optional are not even read where it is not installed.
collect_ignore = [
    f"callers/{file}"
    for file, package in {
        "test_gymnax.py": "gymnax",
        "test_stable_baselines3.py": "stable_baselines3",
        "test_supersuit.py": "supersuit",
        "test_torchrl.py": "torchrl",
    }.items()
    if not importlib.util.find_spec(package)
]

# What a test finds depends on the code and not on how busy the machine is.
hypothesis.settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("any machine")

ROOT = Path(__file__).parents[1]
STATM, MAPS = Path("/proc/self/statm"), Path("/proc/self/maps")
#: Bytes of a worker at which compiled programs are dropped, and by how many more it
#: must have grown until the next time.
MAX_BYTES, MORE_BYTES = 1_500_000_000, 500_000_000
#: Memory maps at which they are dropped too. Each program takes a few; Linux gives a
#: process 65,530, and beyond that XLA ends it with a segmentation fault.
MAX_MAPS = 30_000


class CompiledPrograms:
    """Keeps a worker small: what JAX has compiled is most of its memory."""

    def __init__(self):
        self.max_bytes = MAX_BYTES

    def pytest_runtest_logfinish(self):
        """After each test: looking costs microseconds, and reading back from the
        persistent cache little.
        """
        if STATM.is_file() and resident_bytes() > self.max_bytes:
            drop_compiled_programs()
            self.max_bytes = max(MAX_BYTES, resident_bytes() + MORE_BYTES)


def resident_bytes():
    """Returns the memory that this process has in use."""
    pages = int(STATM.read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def drop_compiled_programs():
    """Forgets them, and gives their memory back to the system."""
    import jax

    jax.clear_caches()
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def pytest_configure(config):
    config.pluginmanager.register(CompiledPrograms(), "compiled programs")


def pytest_pyfunc_call(pyfuncitem):
    """Runs a test marked `fused` in a process whose programs are compiled with fusion.

    How a process that has begun compiles is decided.
    """
    marked = pyfuncitem.get_closest_marker("fused") is not None
    if not marked or UNFUSED not in os.environ["XLA_FLAGS"]:
        return None
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-m", "fused", pyfuncitem.nodeid],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "XLA_FLAGS": HASTE},
    )
    assert done.returncode == 0, done.stdout
    return True


@pytest.fixture(scope="module", autouse=True)
def compiled_programs_are_few():
    """Drops compiled programs after a module, where they have become too many."""
    yield
    if MAPS.is_file() and len(MAPS.read_bytes().splitlines()) > MAX_MAPS:
        drop_compiled_programs()


@pytest.fixture(scope="session")
def root():
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def run_python():
    """Runs code in a fresh interpreter and returns what it printed.

    `path` is prepended to the import path; warnings go to stderr, which is shown when
    the code fails.
    """

    def run(code, path=()):
        python_path = [*map(str, path), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, python_path)),
            },
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run
