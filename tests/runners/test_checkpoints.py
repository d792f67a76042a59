"""Checkpoints: what is saved comes back, whole or not at all."""

import concurrent.futures
import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import struct

from runners.config import load
from runners.planning.plan import prepare
from runners.storage.checkpoints import files
from runners.storage.checkpoints.files import best_step
from runners.storage.checkpoints.store import (
    CheckpointError,
    CheckpointStore,
    NoCheckpointError,
    SaveError,
    find_checkpoint,
    kept_steps,
    read_arrays,
    restore_checkpoint,
    start_rule,
)

MISSING = "outer/agents/0/hyper/gamma"


class Pair(NamedTuple):
    """Two arrays."""

    first: jax.Array
    second: jax.Array


class Odd(struct.PyTreeNode):
    """One of each kind of part that a state may have."""

    scalar: jax.Array
    half: jax.Array
    key: jax.Array
    keys: jax.Array
    pair: Pair
    by_name: dict
    on_host: np.ndarray
    no_elements: jax.Array
    nothing: None = None
    empty: tuple = ()


def odd(fill: float = 1.0) -> Odd:
    return Odd(
        scalar=jnp.asarray(int(fill), jnp.int32),
        half=jnp.full((3,), fill, jnp.bfloat16),
        key=jax.random.key(int(fill)),
        keys=jax.random.split(jax.random.key(int(fill), impl="rbg"), 2),
        pair=Pair(jnp.full((2, 2), fill), jnp.asarray([fill > 1, True])),
        by_name={"loss/q": jnp.full((), fill), "mean": jnp.full((1,), fill)},
        on_host=np.full((4,), fill, np.float64),
        no_elements=jnp.zeros((5, 0)),
    )


def small(value: float = 0.0) -> dict:
    return {"w": jnp.full((2, 3), value, float), "b": jnp.full((3,), value, float)}


def assert_same(actual, expected):
    """Asserts equal structure, kinds, dtypes and bits."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert (type(x), x.shape, x.dtype) == (type(y), y.shape, y.dtype)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            assert jax.random.key_impl(x) == jax.random.key_impl(y)
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


@pytest.fixture(scope="module")
def run_state():
    """The state of PPO against TitForTat before the first iteration, two seeds."""
    plan = prepare(load(["ipd/ppo_v_tft", "num_envs=8", "num_seeds=2"]))
    init = jax.jit(jax.vmap(lambda key: plan.experiment.init(key, plan.params)))
    return init(jax.random.split(jax.random.key(0), 2))


@pytest.fixture
def store(tmp_path):
    with CheckpointStore(tmp_path / "checkpoints") as opened:
        yield opened


# What comes back.


def test_every_kind_of_leaf_comes_back(store):
    store.save(3, odd(2.0), {})
    state, _ = store.restore(odd(1.0))
    assert_same(state, odd(2.0))


@pytest.mark.slow
def test_a_run_state_comes_back(store, run_state):
    changed = jax.tree.map(
        lambda x: x if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x + 1,
        run_state,
    )
    store.save(3, changed, {})
    state, _ = store.restore(run_state)
    assert_same(state, changed)


def test_entries_have_the_names_of_fields_keys_and_positions(store):
    path = store.save(1, odd(), {})
    store.wait()
    values = read_arrays(path, ["by_name/loss/q", "pair/second", "on_host"])
    assert values["by_name/loss/q"].tolist() == 1.0
    assert values["pair/second"].tolist() == [False, True]
    assert values["on_host"].tolist() == [1.0] * 4


def test_the_state_may_be_donated_while_it_is_being_written(store):
    double = jax.jit(lambda s: jax.tree.map(lambda x: 2 * x, s), donate_argnums=0)
    state = {"w": jnp.full((512, 512), 3.0)}
    store.save(1, state, {})
    for _ in range(5):
        state = double(state)
    restored, _ = store.restore({"w": jnp.zeros((512, 512))})
    assert float(restored["w"].min()) == float(restored["w"].max()) == 3.0


def test_a_host_array_may_change_while_it_is_being_written(store):
    buffer = np.full((512, 512), 3.0, np.float32)
    store.save(1, {"replay": buffer}, {})
    buffer[:] = 7.0
    restored, _ = store.restore({"replay": np.zeros((512, 512), np.float32)})
    assert restored["replay"].min() == restored["replay"].max() == 3.0


def test_a_restored_host_array_can_be_written_to(store):
    store.save(1, {"replay": np.zeros(3)}, {})
    restored, _ = store.restore({"replay": np.zeros(3)})
    restored["replay"][1] = 5.0
    assert restored["replay"].tolist() == [0.0, 5.0, 0.0]


def test_a_number_of_the_host_keeps_its_64_bits(store):
    store.save(1, {"steps": np.int64(2**40)}, {})
    state, _ = store.restore({"steps": np.int64(0)})
    assert state["steps"].dtype == np.int64
    assert state["steps"] == 2**40


def test_meta_comes_back(store):
    meta = {"iteration": 7, "config": {"name": "ipd"}, "tail": [1.5, None]}
    store.save(3, small(), meta)
    assert store.restore(small())[1] == meta


def test_meta_that_is_not_json_is_refused_before_anything_is_written(store):
    with pytest.raises(TypeError, match="meta of a checkpoint must be JSON"):
        store.save(3, small(), {"array": jnp.zeros(2)})
    assert store.steps() == []


def test_a_leaf_that_is_no_array_is_refused_by_name(store):
    with pytest.raises(TypeError, match=r"a/0 is 3 of type int.*jnp\.asarray"):
        store.save(3, {"a": (3,)}, {})


def test_a_template_of_shapes_is_enough(store):
    store.save(3, {"w": jnp.arange(3.0), "key": jax.random.key(5)}, {})
    template = jax.eval_shape(lambda: {"w": jnp.zeros(3), "key": jax.random.key(0)})
    state, _ = store.restore(template)
    assert state["w"].tolist() == [0.0, 1.0, 2.0]
    assert jnp.all(
        jax.random.key_data(state["key"]) == jax.random.key_data(jax.random.key(5))
    )


def test_an_optimiser_goes_on_without_compiling_anew(store):
    """The structure is that of a fresh state, and nothing is traced again."""
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1))
    params = small(1.0)
    fresh = (params, optimiser.init(params))
    traces = []

    @jax.jit
    def step(state):
        traces.append(1)
        params, opt_state = state
        updates, opt_state = optimiser.update(params, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    one = step(fresh)
    straight = step(one)
    store.save(1, one, {})
    restored, _ = store.restore(fresh)
    resumed = step(restored)

    assert jax.tree.structure(restored) == jax.tree.structure(fresh)
    assert (len(traces), step._cache_size()) == (1, 1)
    assert_same(resumed, straight)


def test_weak_types_and_placement_are_those_of_the_template(store):
    """An array that is weakly typed or bound to no device stays so."""
    device = jax.devices()[0]
    template = {
        "weak": jnp.asarray(2.5),
        "weak_row": jnp.broadcast_to(jnp.asarray(0), (3,)),
        "free": jnp.zeros(2),
        "bound": jax.device_put(jnp.zeros(2), device),
        "key": jax.device_put(jax.random.key(1), device),
    }
    store.save(1, template, {})
    state, _ = store.restore(template)
    for name, leaf in template.items():
        assert state[name].aval == leaf.aval, name
        assert state[name].committed == leaf.committed, name
        assert state[name].sharding == leaf.sharding, name
    assert float(state["weak"]) == 2.5


def test_a_restored_key_draws_the_same_numbers(store):
    """Also batches of keys, and of another generator."""
    state = {
        "one": jax.random.key(3),
        "two": jax.random.split(jax.random.key(3, impl="rbg"), 2),
    }
    store.save(1, state, {})
    other = {
        "one": jax.random.key(0),
        "two": jax.random.split(jax.random.key(0, impl="rbg"), 2),
    }
    restored, _ = store.restore(other)
    for i in range(3):
        np.testing.assert_array_equal(
            jax.random.normal(jax.random.fold_in(restored["one"], i), (4,)),
            jax.random.normal(jax.random.fold_in(state["one"], i), (4,)),
        )
    np.testing.assert_array_equal(
        jax.vmap(jax.random.bits)(restored["two"]),
        jax.vmap(jax.random.bits)(state["two"]),
    )


FOUR_DEVICES = """
    import jax, jax.numpy as jnp, numpy as np, sys
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from runners.storage.checkpoints.store import CheckpointStore

    assert jax.device_count() == 4
    mesh = Mesh(np.array(jax.devices()), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))
    whole = NamedSharding(mesh, PartitionSpec())
    state = {
        "split": jax.device_put(jnp.arange(8.0), split),
        "whole": jax.device_put(jnp.ones((2, 2)), whole),
        "key": jax.device_put(jax.random.key(4), whole),
    }
    with CheckpointStore(sys.argv[1]) as store:
        store.save(1, state, {})
        zeros = {k: v if k == "key" else 0 * v for k, v in state.items()}
        back, _ = store.restore(zeros)
    assert all(back[k].sharding == state[k].sharding for k in state)
    assert back["split"].tolist() == list(range(8))
"""


@pytest.mark.slow
def test_four_devices_write_and_one_reads(tmp_path):
    """On as many devices the placement returns, on one the numbers do."""
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FOUR_DEVICES), str(tmp_path)],
        env={**env, "JAX_PLATFORMS": "cpu"},
        check=True,
        timeout=120,
    )
    template = {
        "split": jnp.zeros(8),
        "whole": jnp.zeros((2, 2)),
        "key": jax.random.key(0),
    }
    state, _ = restore_checkpoint(tmp_path, template)
    assert state["split"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert state["whole"].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert state["split"].devices() == jnp.zeros(1).devices()
    expected = jax.random.key_data(jax.random.key(4))
    np.testing.assert_array_equal(jax.random.key_data(state["key"]), expected)


# What does not fit.


def test_a_missing_entry_is_refused_by_name(store):
    """Without being asked, an older file does not open."""
    store.save(1, {"w": jnp.zeros(2)}, {})
    with pytest.raises(CheckpointError, match="does not fit this state: b is missing"):
        store.restore({"w": jnp.zeros(2), "b": jnp.zeros(3)})


def test_a_missing_entry_can_be_taken_from_the_template(store, run_state):
    """The documented fallback, which names what it fills in."""
    agent = run_state.outer.agents[0]
    older = {k: v for k, v in agent.hyper.items() if k != "gamma"}
    outer = run_state.outer.replace(
        agents=(agent.replace(hyper=older), *run_state.outer.agents[1:])
    )
    store.save(1, run_state.replace(outer=outer), {})

    with pytest.raises(CheckpointError, match=f"{MISSING} is missing"):
        store.restore(run_state)
    with pytest.warns(UserWarning, match=f"has no {MISSING}"):
        state, _ = store.restore(run_state, allow_missing=True)
    assert_same(state, run_state)


def test_a_surplus_entry_is_refused_by_name(store):
    store.save(1, small(), {})
    with pytest.raises(CheckpointError, match="b is surplus"):
        store.restore({"w": jnp.zeros((2, 3))}, allow_missing=True)


def test_another_shape_is_an_error_that_names_both(store):
    """Another hidden size is never cut to fit."""
    store.save(1, small(), {})
    template = {"w": jnp.zeros((2, 4)), "b": jnp.zeros((4,))}
    expected = r"w has shape \(2, 3\), expected \(2, 4\)"
    with pytest.raises(CheckpointError, match=expected):
        store.restore(template, allow_missing=True)


def test_another_dtype_is_an_error_that_names_both(store):
    store.save(1, {"n": jnp.zeros(2, jnp.float32)}, {})
    with pytest.raises(CheckpointError, match="n has dtype float32, expected int32"):
        store.restore({"n": jnp.zeros(2, jnp.int32)})


def test_another_random_generator_is_an_error(store):
    store.save(1, {"key": jax.random.key(0, impl="rbg")}, {})
    with pytest.raises(CheckpointError, match=r"dtype key<rbg>, expected key<fry>"):
        store.restore({"key": jax.random.key(0)})


def test_damaged_files_are_refused_with_their_path(store):
    path = store.save(1, {"w": jnp.arange(5000.0)}, {})
    store.wait()
    for file in path.glob("state/**/d/*"):
        file.write_bytes(b"\0" * file.stat().st_size)
    with pytest.raises(CheckpointError, match=r"step_1 is damaged"):
        store.restore({"w": jnp.zeros(5000)})


def test_a_damaged_record_is_refused_with_its_path(store):
    path = store.save(1, small(), {})
    store.wait()
    (path / "meta" / "record.json").write_text('{"format": 1, "st')
    with pytest.raises(CheckpointError, match=r"step_1 is damaged"):
        store.restore(small())


# Saving that fails, or is cut off.


def test_a_save_that_fails_says_where(tmp_path):
    """The folder cannot be written to any more, here because it is a file."""
    folder = tmp_path / "checkpoints"
    store = CheckpointStore(folder)
    store.save(1, small(), {})
    store.wait()
    shutil.rmtree(folder)
    folder.write_text("")
    with pytest.raises(SaveError, match=f"cannot save the checkpoint {folder}/step_2"):
        store.save(2, small(), {})


FAILS_IN_THE_BACKGROUND = """
    import os, sys
    import jax.numpy as jnp
    from runners.storage.checkpoints.store import CheckpointStore

    with CheckpointStore(sys.argv[1]) as store:
        store.save(1, {"w": jnp.zeros(2)}, {})
        store.wait()
        def refuse(*args, **kwargs):
            raise PermissionError("read-only file system")
        os.rename = os.replace = refuse
        store.save(2, {"w": jnp.zeros(2)}, {})
        print("returned")
"""


def test_a_save_that_fails_in_the_background_fails_the_process(tmp_path):
    """With the path, at the latest when the store is closed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FAILS_IN_THE_BACKGROUND), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "returned\n"
    assert done.returncode == 1
    assert f"cannot save the checkpoint {tmp_path}/step_2" in done.stderr
    assert "read-only file system" in done.stderr
    with pytest.warns(UserWarning, match="step_2"):
        assert find_checkpoint(tmp_path).name == "step_1"


KILLED = """
    import os, signal, sys
    import jax.numpy as jnp
    from runners.storage.checkpoints.store import CheckpointStore

    store = CheckpointStore(sys.argv[1])
    for step in (1, 2):
        store.save(step, {"w": jnp.full(100, step * 1.0)}, {"iteration": step})
        store.wait()
    os.rename = os.replace = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
    store.save(3, {"w": jnp.full(100, 3.0)}, {"iteration": 3})
    store.wait()
"""


def test_a_save_that_was_killed_leaves_the_last_whole_one(tmp_path):
    """Killed when all is written but the last rename; a warning names the rest."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)], timeout=120
    )
    assert done.returncode == -signal.SIGKILL
    store = CheckpointStore(tmp_path)
    template = {"w": jnp.zeros(100)}
    with pytest.warns(UserWarning, match=r"step_3\S* is not used"):
        state, meta = store.restore(template)
    assert meta == {"iteration": 2}
    assert state["w"].tolist() == [2.0] * 100

    store.save(3, state, {"iteration": 3})
    store.close()
    assert sorted(os.listdir(tmp_path)) == ["step_1", "step_2", "step_3"]


def test_a_folder_without_a_record_is_not_whole(store):
    """Such as one whose copying was cut off."""
    store.save(1, small(), {})
    store.wait()
    (store.folder / "step_9" / "state").mkdir(parents=True)
    with pytest.warns(UserWarning, match="step_9 is not used"):
        assert find_checkpoint(store.folder).name == "step_1"


def test_a_replacement_that_was_cut_off_before_the_swap_is_finished(store):
    store.save(1, small(1.0), {})
    store.wait()
    shutil.copytree(store.folder / "step_1", store.folder / ".step_1.new")
    (store.folder / "step_1").rename(store.folder / ".step_1.old")
    with CheckpointStore(store.folder) as other:
        other.save(2, small(2.0), {})
        assert other.steps() == [1, 2]
    assert sorted(os.listdir(store.folder)) == ["step_1", "step_2"]


def test_a_deletion_that_was_cut_off_leaves_no_half_of_one(tmp_path, monkeypatch):
    def cut_off(path):
        next(path for path in path.glob("state/*") if path.is_file()).unlink()
        raise KeyboardInterrupt

    store = CheckpointStore(tmp_path, max_to_keep=1)
    store.save(1, small(), {})
    store.save(2, small(), {})
    monkeypatch.setattr(shutil, "rmtree", cut_off)
    with pytest.raises(KeyboardInterrupt):
        store.wait()
    monkeypatch.undo()
    assert files.saved_steps(tmp_path) == [2]
    assert sorted(os.listdir(tmp_path)) == [".step_1.old", "step_2"]

    with CheckpointStore(tmp_path, max_to_keep=1) as other:
        other.save(3, small(), {})
    assert os.listdir(tmp_path) == ["step_3"]


# Which one is meant.


def test_a_relative_folder_is_resolved_once(tmp_path, monkeypatch):
    """And serves after the process has changed its directory."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with CheckpointStore("runs/a/checkpoints") as store:
        store.save(1, small(1.0), {})
        monkeypatch.chdir(tmp_path / "elsewhere")
        store.save(2, small(2.0), {})
        assert store.folder == tmp_path / "runs" / "a" / "checkpoints"
        assert store.steps() == [1, 2]
    state, _ = restore_checkpoint("../runs/a", small())
    assert state["b"].tolist() == [2.0, 2.0, 2.0]


@pytest.fixture
def run_folder(tmp_path):
    """A run directory with steps 10 and 20, 10 being the best, and one named."""
    with CheckpointStore(tmp_path / "exp" / "run" / "checkpoints") as store:
        store.save(10, small(10.0), {"env_steps": 10}, metric=5.0)
        store.save(20, small(20.0), {"env_steps": 20}, metric=4.0)
        store.save_named("final.pt", small(30.0), {"env_steps": 30})
    (tmp_path / "exp" / "run" / "meta.json").write_text("{}")
    return tmp_path / "exp" / "run"


@pytest.mark.parametrize(
    ("level", "step"),
    [
        ("", 20),
        ("checkpoints", 20),
        ("checkpoints/step_10", 10),
        ("checkpoints/best", 10),
        ("checkpoints/latest", 20),
        ("checkpoints/named/final.pt", 30),
    ],
)
def test_every_level_down_to_one_checkpoint_works(run_folder, level, step):
    """The run, its checkpoints, or one of them."""
    assert restore_checkpoint(run_folder / level, small())[1] == {"env_steps": step}


@pytest.mark.parametrize(
    ("level", "message"),
    [
        ("checkpoints/step_10/state", "is inside one checkpoint: .*checkpoints$"),
        ("checkpoints/named", "holds the named checkpoints final.pt: give one"),
        ("..", "holds runs, not checkpoints: give one of them, such as .*/exp/run$"),
        ("nowhere", "there is no folder .*nowhere"),
    ],
)
def test_another_level_is_named(run_folder, level, message):
    """Too deep and too high are told apart from not there."""
    with pytest.raises(CheckpointError, match=message):
        find_checkpoint(run_folder / level)


def test_an_empty_folder_has_no_checkpoint(tmp_path):
    """It is an error that a caller may expect as a missing file."""
    with pytest.raises(NoCheckpointError, match=r"no checkpoint at all in .* none"):
        find_checkpoint(tmp_path)
    with pytest.raises(FileNotFoundError):
        CheckpointStore(tmp_path).restore(small())


@pytest.mark.parametrize(
    ("which", "step"),
    [
        ("latest", 20),
        ("best", 10),
        (10, 10),
        ("step_10", 10),
        ("final.pt", 30),
        ("named/final.pt", 30),
    ],
)
def test_a_store_finds_by_step_rule_name_or_path(run_folder, which, step):
    store = CheckpointStore(run_folder)
    state, meta = store.restore(small(), which)
    assert meta == {"env_steps": step}
    assert state["b"].tolist() == [float(step)] * 3


def test_a_store_finds_another_run_by_its_path(run_folder, tmp_path):
    store = CheckpointStore(tmp_path / "other")
    assert store.restore(small(), run_folder)[1] == {"env_steps": 20}


@pytest.mark.parametrize("which", [15, "fianl.pt", "best"])
def test_what_is_not_there_is_an_error_that_says_what_is(tmp_path, which):
    with CheckpointStore(tmp_path) as store:
        store.save(10, small(), {})
        store.save_named("final.pt", small(), {})
        with pytest.raises(NoCheckpointError, match=r"steps 10 and names final\.pt"):
            store.find(which)


def test_a_named_one_is_the_latest_where_no_other_is(store):
    store.save_named("b", small(), {"env_steps": 5})
    store.save_named("a", small(), {"env_steps": 9})
    store.save_named("c", small(), {"env_steps": 7})
    assert store.find().name == "a"


def test_a_store_inside_a_checkpoint_is_refused(run_folder):
    with pytest.raises(CheckpointError, match="is one checkpoint: the folder of"):
        CheckpointStore(run_folder / "checkpoints" / "step_10")


# What is kept.


def test_the_latest_are_kept(tmp_path):
    with CheckpointStore(tmp_path, max_to_keep=2) as store:
        for step in (1, 2, 3, 4):
            store.save(step, small(), {})
        assert store.steps() == [3, 4]


def test_the_best_is_kept_and_linked(tmp_path):
    metrics = {1: 0.5, 2: 3.0, 3: float("nan"), 4: 3.0, 5: -1.0, 6: None}
    with CheckpointStore(tmp_path, max_to_keep=1) as store:
        for step, metric in metrics.items():
            store.save(step, small(float(step)), {}, metric)
        assert store.steps() == [2, 6]
        assert store.restore(small(), "best")[0]["b"].tolist() == [2.0, 2.0, 2.0]
    assert os.readlink(tmp_path / "best") == "step_2"


def test_the_best_is_found_where_the_file_system_has_no_links(tmp_path, monkeypatch):
    def symlink(*_, **__):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "symlink", symlink)
    with CheckpointStore(tmp_path, max_to_keep=1) as store:
        for step, metric in {1: 0.5, 2: 3.0, 3: 1.0}.items():
            store.save(step, small(float(step)), {}, metric)
        assert store.steps() == [2, 3]
        assert store.find("best").name == "step_2"
    assert find_checkpoint(tmp_path / "best").name == "step_2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_2", "step_3"]


def test_threads_save_in_places_of_their_own(tmp_path):
    """Each store writes into folders that it has made itself."""
    state = {f"x{i}": np.full((20, 20), float(i)) for i in range(20)}

    def work(i):
        with CheckpointStore(tmp_path / str(i), max_to_keep=None) as store:
            for step in range(4):
                store.save(step, state, {"thread": i})
            return store.steps(), store.restore(state)[1]

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        found = list(pool.map(work, range(3)))
    assert found == [([0, 1, 2, 3], {"thread": i}) for i in range(3)]


def test_the_best_is_known_to_a_store_that_opens_later(tmp_path):
    with CheckpointStore(tmp_path, max_to_keep=1) as store:
        store.save(1, small(), {}, metric=2.0)
    with CheckpointStore(tmp_path, max_to_keep=1) as store:
        store.save(2, small(), {}, metric=1.0)
        store.save(3, small(), {}, metric=1.5)
        assert store.steps() == [1, 3]
    assert best_step(tmp_path) == 1


def test_a_save_reads_no_record_that_has_been_read(tmp_path, monkeypatch):
    """What a save costs does not grow with the number of checkpoints that are kept."""
    read, real = [], files.read_record
    monkeypatch.setattr(
        files, "read_record", lambda path: read.append(path.name) or real(path)
    )
    with CheckpointStore(tmp_path, max_to_keep=None) as store:
        for step in range(5):
            store.save(step, small(), {}, metric=float(-step))
    assert read == [f"step_{step}" for step in range(5)]


def test_the_best_is_another_once_its_step_is_saved_again(tmp_path):
    with CheckpointStore(tmp_path, max_to_keep=1) as store:
        store.save(1, small(), {}, metric=3.0)
        store.save(2, small(), {}, metric=1.0)
        assert store.steps() == [1, 2]
        store.save(1, small(), {}, metric=0.0)
        store.save(3, small(), {}, metric=0.5)
        assert store.steps() == [2, 3]


def test_the_best_goes_the_way_of_the_others_if_asked(tmp_path):
    with CheckpointStore(tmp_path, max_to_keep=1, keep_best=False) as store:
        store.save(1, small(), {}, metric=2.0)
        store.save(2, small(), {}, metric=1.0)
        assert store.steps() == [2]
    assert not (tmp_path / "best").is_symlink()


def test_the_first_after_each_multiple_of_the_period_is_kept(tmp_path):
    """The steps of a run hardly ever are multiples: it is crossing that counts."""
    with CheckpointStore(tmp_path, max_to_keep=1, keep_period=100) as store:
        for step in range(30, 400, 40):  # 30 70 110 150 190 230 270 310 350 390
            store.save(step, small(), {})
        assert store.steps() == [110, 230, 310, 390]


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ((None, None), {5, 15, 25, 35}),
        ((1, None), {35}),
        ((1, 10), {15, 25, 35}),
        ((1, 20), {25, 35}),
        ((2, None, 5), {5, 25, 35}),
    ],
)
def test_rules_of_keeping(rule, kept):
    assert kept_steps([5, 15, 25, 35], *rule) == kept


def test_named_ones_are_never_pruned(tmp_path):
    with CheckpointStore(tmp_path, max_to_keep=1) as store:
        store.save_named("model_1.pt", small(1.0), {})
        for step in (1, 2, 3):
            store.save(step, small(), {})
        assert store.names() == ["model_1.pt"]
        assert store.restore(small(), "model_1.pt")[0]["b"].tolist() == [1.0] * 3


def test_a_step_or_name_that_is_saved_again_is_replaced(store):
    store.save(1, small(1.0), {})
    store.save(1, small(2.0), {"again": True})
    store.save_named("final", small(3.0), {})
    store.save_named("final", small(4.0), {})
    assert (store.steps(), store.names()) == ([1], ["final"])
    assert store.restore(small(), 1)[1] == {"again": True}
    assert store.restore(small(), "final")[0]["b"].tolist() == [4.0, 4.0, 4.0]
    assert sorted(os.listdir(store.folder)) == ["named", "step_1"]


@pytest.mark.parametrize("name", ["", "latest", "best", "a/b", "..", ".hidden"])
def test_names_that_are_no_file_names_are_refused(store, name):
    with pytest.raises(ValueError, match="cannot name a checkpoint"):
        store.save_named(name, small(), {})


@pytest.mark.parametrize("option", ["max_to_keep", "keep_period"])
def test_numbers_below_one_are_refused(tmp_path, option):
    with pytest.raises(ValueError, match=f"{option} must be >= 1 or None, got 0"):
        CheckpointStore(tmp_path, **{option: 0})


# How a run starts.


def test_a_folder_without_checkpoints_is_a_fresh_start(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "checkpoints" / "step_5.orbax-checkpoint-tmp").mkdir(parents=True)
    for folder in (tmp_path / "nowhere", tmp_path, tmp_path / "checkpoints"):
        for flags in ({}, {"resume": True}, {"overwrite": True}):
            assert start_rule(folder, **flags) == "fresh"


def test_checkpoints_are_resumed_or_overwritten_only_if_asked(run_folder):
    assert start_rule(run_folder, resume=True) == "resume"
    assert start_rule(run_folder, overwrite=True) == "overwrite"
    with pytest.raises(FileExistsError, match=r"steps 10, 20 .* resume=True goes on"):
        start_rule(run_folder)


def test_resuming_and_overwriting_exclude_each_other(tmp_path):
    with pytest.raises(ValueError, match="choose one"):
        start_rule(tmp_path, resume=True, overwrite=True)


def test_clearing_deletes_checkpoints_and_nothing_else(run_folder):
    (run_folder / "checkpoints" / "notes.txt").write_text("mine")
    with CheckpointStore(run_folder) as store:
        store.clear()
    assert (run_folder / "checkpoints" / "notes.txt").read_text() == "mine"
    assert sorted(os.listdir(run_folder / "checkpoints")) == ["named", "notes.txt"]
    assert start_rule(run_folder) == "fresh"
