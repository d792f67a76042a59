"""Rules of the code base that no single module can keep by itself."""

import ast
import functools
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Packages from the bottom up: each may import itself and those before it.
PACKAGES = ("paxenv", "paxenv_agents", "runners")
MODULES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
TEXTS = sorted(
    path
    for folder in (*PACKAGES, "tests", "examples", "docs", ".ci")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {"", ".py", ".md", ".toml", ".yaml", ".yml", ".json", ".sh"}
    and path.is_file()
    and "__pycache__" not in path.parts
) + sorted(path for path in ROOT.glob("*") if path.suffix in {".md", ".toml", ".cff"})

#: Rooms of a package from the bottom up: each imports itself and those before it.
ROOMS = {
    "paxenv_agents": (
        *("ops", "types", "structure", "agent", "registry", "networks", "engine"),
        *("strategies", "learners", "exact", "catalogue", "weights"),
        *("testing", "opponents"),
    ),
    "runners": (
        *("engine", "search", "kinds", "config", "storage", "planning", "session"),
        *("report", "views", "launch", "cli", "__main__"),
    ),
}

MAX_LINES = 700
MAX_FUNCTION_LINES = 60

#: Modules that are loaded before anything is made.
LIGHT = (
    "paxenv/__init__.py",
    "paxenv/catalogue.py",
    "paxenv/entry_points.py",
    "paxenv/registration.py",
    "paxenv/registry.py",
    "paxenv_agents/__init__.py",
    "paxenv_agents/catalogue.py",
    "paxenv_agents/registry.py",
    "runners/__init__.py",
    "runners/kinds.py",
)
HEAVY = {"jax", "jaxlib", "flax", "optax", "evosax", "orbax", "matplotlib"}

#: What the distribution depends on, by the names that are imported.
DEPENDENCIES = {
    *("jax", "jaxlib", "flax", "optax", "evosax", "orbax", "gymnasium", "pettingzoo"),
    *(
        "click",
        "jaxtyping",
        "matplotlib",
        "numpy",
        "scipy",
        "yaml",
        "rich",
        "tensorboardX",
    ),
}
#: Modules that are imported only by who asks for an extra.
EXTRAS = {"paxenv/adapters/sb3_vec_env.py": {"stable_baselines3"}}

SHARED_TYPES = (
    *("Environment", "EnvState", "GameParams", "Accumulator", "Frame", "GameSpec"),
    *("Agent", "AgentSpec", "TrainingState", "MemoryState", "Sample"),
    *("PPOConfig", "Slot", "Lineup", "Experiment"),
)
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "misc", "common", "base_agent"}


def relative(path):
    return path.relative_to(ROOT).as_posix()


@functools.cache
def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported(node):
    """Returns the dotted names that one import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"relative import in line {node.lineno}"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def at_module_level(tree):
    """Yields the statements that run at import, not those for type checkers."""
    pending = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            pending += [
                n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)
            ]


def functions(tree):
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def classes(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def bases(node):
    return {ast.unparse(base).rpartition(".")[2] for base in node.bases}


def extends_a_dependency(node):
    names = {ast.unparse(base) for base in node.bases}
    return any(n.startswith(("click.", "gymnasium.", "pettingzoo.")) for n in names)


def test_imports_go_one_way():
    """Games reach agents by one function of their registry, `import_agents`."""
    upward = []
    for path in MODULES:
        rank = PACKAGES.index(path.relative_to(ROOT).parts[0])
        forbidden = {*PACKAGES[rank + 1 :], "tests", "examples"}
        upward += [
            (relative(path), name)
            for name in named(parse(path))
            if name.partition(".")[0] in forbidden
        ]
    assert upward == [("paxenv/registry.py", "paxenv_agents.")]


def named(tree):
    """Returns the dotted names that a module imports, by `importlib` too."""
    names = []
    for node in ast.walk(tree):
        names += imported(node)
        is_call = isinstance(node, ast.Call) and node.args
        if is_call and ast.unparse(node.func).endswith("import_module"):
            texts = [n for a in node.args for n in ast.walk(a)]
            values = (n.value for n in texts if isinstance(n, ast.Constant))
            names += [value for value in values if isinstance(value, str)]
    return names


def room(package, name):
    """Returns the room in which a dotted name lies, None outside of the package."""
    first, _, rest = name.partition(".")
    place = rest.partition(".")[0]
    return place if first == package and place in ROOMS[package] else None


@pytest.mark.parametrize("package", ROOMS)
def test_every_module_lies_in_a_room(package):
    places = {
        path.relative_to(ROOT / package).with_suffix("").parts[0]
        for path in MODULES
        if path.is_relative_to(ROOT / package)
    }
    assert places == {*ROOMS[package], "__init__"}


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_only_rooms_below(package):
    order = ROOMS[package]
    upward = []
    for path in MODULES:
        own = room(package, ".".join(path.relative_to(ROOT).with_suffix("").parts))
        if own is not None:
            found = {name: room(package, name) for name in named(parse(path))}
            upward += [
                f"{relative(path)} imports {name}"
                for name, other in found.items()
                if other is not None and order.index(other) > order.index(own)
            ]
    assert upward == []


def dotted(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def test_modules_import_one_another_in_no_circle():
    modules = {dotted(path): path for path in MODULES}
    below = {
        name: {
            other
            for dependency in named(parse(path))
            for other in (dependency, dependency.rpartition(".")[0])
            if other in modules and other != name
        }
        for name, path in modules.items()
        if path.name != "__init__.py"
    }
    while True:
        ends = {name for name, others in below.items() if not others & below.keys()}
        if not ends:
            break
        below = {name: others for name, others in below.items() if name not in ends}
    assert {name: sorted(others & below.keys()) for name, others in below.items()} == {}


def test_no_game_imports_another_game():
    trees = {path.stem: parse(path) for path in (ROOT / "paxenv/envs").glob("*.py")}
    games = {
        stem
        for stem, tree in trees.items()
        if any("Environment" in bases(node) for node in classes(tree))
    }
    assert "iterated_matrix_game" in games
    crossings = [
        (stem, name)
        for stem in sorted(games)
        for node in ast.walk(trees[stem])
        for name in imported(node)
        if name.startswith("paxenv.envs.") and name.split(".")[2] in games - {stem}
    ]
    assert crossings == []


def imported_on_load(path):
    """Returns the top-level packages that importing a module imports by itself."""
    names = [n for node in at_module_level(parse(path)) for n in imported(node)]
    return {n.partition(".")[0] for n in names}


def test_light_modules_import_nothing_heavy():
    heavy = {name: imported_on_load(ROOT / name) & HEAVY for name in LIGHT}
    assert {name: found for name, found in heavy.items() if found} == {}


def test_optional_packages_are_imported_where_they_are_used():
    known = {*DEPENDENCIES, *PACKAGES, *sys.stdlib_module_names}
    unknown = {
        relative(path): imported_on_load(path)
        - known
        - EXTRAS.get(relative(path), set())
        for path in MODULES
    }
    assert {path: found for path, found in unknown.items() if found} == {}


def test_modules_are_short():
    lines = {relative(p): len(p.read_text("utf-8").splitlines()) for p in MODULES}
    assert {path: n for path, n in lines.items() if n > MAX_LINES} == {}


def test_functions_are_short():
    long = {}
    for path in MODULES:
        for node in functions(parse(path)):
            documented = ast.get_docstring(node) is not None
            first = node.body[1 if documented and len(node.body) > 1 else 0]
            lines = (node.end_lineno or 0) - first.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                long[relative(path), node.name] = lines
    assert long == {}


def test_shared_types_are_defined_exactly_once():
    where = {name: [] for name in SHARED_TYPES}
    for path in MODULES:
        for node in classes(parse(path)):
            if node.name in where:
                where[node.name].append(relative(path))
    assert {name: paths for name, paths in where.items() if len(paths) != 1} == {}


def test_no_module_is_named_for_nothing():
    assert [relative(p) for p in MODULES if p.stem in EMPTY_NAMES] == []


def test_public_names_are_documented():
    bare = []
    for path in MODULES:
        tree = parse(path)
        if tree.body and not ast.get_docstring(tree):
            bare.append(relative(path))
        bare += [
            f"{relative(path)}: {node.name}"
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ]
    assert bare == []


def test_public_methods_are_documented_where_they_are_first_defined():
    """A method may lean on the docstring of the method that it overrides."""
    methods = [
        (relative(path), owner.name, node)
        for path in MODULES
        for owner in classes(parse(path))
        if not owner.name.startswith("_") and not extends_a_dependency(owner)
        for node in owner.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    contracts = {node.name for _, _, node in methods if ast.get_docstring(node)}
    bare = [
        f"{path}: {owner}.{node.name}"
        for path, owner, node in methods
        if node.name not in contracts
    ]
    assert bare == []


#: Where axes are still told by docstrings alone.
def public_functions(tree):
    """Returns the functions that a module offers, and the methods of its classes."""
    owners = [tree, *(node for node in classes(tree) if node.name[0] != "_")]
    return [
        node
        for owner in owners
        for node in owner.body
        if isinstance(node, ast.FunctionDef)
        and (node.name[0] != "_" or node.name == "__call__")
    ]


def test_arrays_in_public_signatures_of_agents_say_their_axes():
    bare = [
        f"{relative(path)}: {node.name}"
        for path in MODULES
        if path.is_relative_to(ROOT / "paxenv_agents")
        for node in public_functions(parse(path))
        for argument in (*ast.walk(node.args), node)
        for hint in (
            getattr(argument, "annotation", None),
            getattr(argument, "returns", None),
        )
        if hint is not None and "jax.Array" in ast.unparse(hint)
    ]
    assert bare == []


FORBIDDEN = {
    "a path of one machine": r"\.\./shar"
    + r"ed|/\w+/(main|shar"
    + "ed|venv)|/home/\\w+/",
    "a debugger": r"\bbreak" + r"point\(|\bpdb\.set_" + "trace",
    "a note without an issue": r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b(?!\(#\d+\))",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_nothing_forbidden_is_written_anywhere(what):
    found = [
        f"{relative(path)}:{number}"
        for path in TEXTS
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(FORBIDDEN[what], line)
    ]
    assert found == []


def test_no_docstring_begins_with_the_number_of_a_ticket():
    found = [
        f"{relative(path)}: {text[:40]}"
        for path in (*MODULES, *(ROOT / "tests").rglob("*.py"))
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and (text := ast.get_docstring(node))
        and re.match(r"[A-Z]{1,2}-?\d{1,3}[:;,.]", text)
    ]
    assert found == []


def test_nothing_is_printed_by_the_library():
    """Progress and tables go through rich and click, games print nothing at all."""
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert found == []


def test_test_files_have_unique_names():
    """Without `__init__.py` in tests, two files of one name cannot be collected."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
    assert list((ROOT / "tests").rglob("__init__.py")) == []
