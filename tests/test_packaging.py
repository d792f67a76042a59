"""What is installed, and what a wheel holds."""

import itertools
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"paxenv", "paxenv_agents", "runners"}
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


def name_of(requirement: str) -> str:
    return re.match(r"[A-Za-z0-9_.-]+", requirement).group().lower()


def lower_bounds(requirements: list[str]) -> dict[str, str]:
    return {
        name_of(r): re.search(r">=([0-9.]+)", r).group(1).removesuffix(".")
        for r in requirements
    }


def padded(version: str) -> tuple[int, ...]:
    numbers = tuple(int(n) for n in version.split("."))
    return numbers + (0,) * (3 - len(numbers))


def test_version_is_the_same_everywhere():
    version = PROJECT["version"]
    assert metadata.version("paxenv") == version
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest.group(1) == version


def test_python_3_11_and_newer_are_supported():
    names = PROJECT["classifiers"]
    for minor in (11, 12, 13):
        assert f"Programming Language :: Python :: 3.{minor}" in names


def test_metadata_name_licence_systems_and_what_developers_need():
    assert PROJECT["requires-python"] == ">=3.11"
    assert PROJECT["license"] == "Apache-2.0"
    assert {
        "Development Status :: 4 - Beta",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
    } <= {*PROJECT["classifiers"]}
    developers = {name_of(r) for r in PROJECT["optional-dependencies"]["dev"]}
    assert {"pytest", "ruff", "pyright"} <= developers


def test_the_readme_cites_what_the_citation_file_names():
    bibtex = re.search(r"@software\{.*?\n\}", (ROOT / "README.md").read_text(), re.S)
    fields = dict(re.findall(r"^  (\w+) = \{+(.+?)\}+,$", bibtex.group(), re.M))
    cited = (ROOT / "CITATION.cff").read_text()
    assert f'title: "{fields["title"]}"' in cited
    assert f"version: {fields['version']}" in cited
    assert f"- name: {fields['author']}" in cited


def test_dependencies_that_cap_others_are_left_out():
    needed = {name_of(r) for r in PROJECT["dependencies"]}
    assert needed.isdisjoint(
        {"gymnax", "distrax", "flashbax", "hydra-core", "omegaconf", "chex"}
    )
    assert needed.isdisjoint({"torch", "stable-baselines3", "wandb", "tensorflow"})


def test_sb3_is_an_extra_without_a_torch_of_its_own():
    extra = PROJECT["optional-dependencies"]["sb3"]
    assert [name_of(r) for r in extra] == ["stable-baselines3"]


def test_the_extra_all_is_every_extra_but_tools_and_hardware():
    """It names the others, so it has no bounds of its own."""
    extras = PROJECT["optional-dependencies"]
    (together,) = extras["all"]
    name, names = re.fullmatch(r"(\w+)\[([\w,]+)\]", together).groups()
    assert name == PROJECT["name"]
    assert set(names.split(",")) == {*extras} - {"all", "cuda", "dev"}


def test_nothing_that_is_asked_for_asks_for_tensorflow():
    """From all extras to what those require in turn, as far as it is installed.

    What a package of others wants only for an extra of its own is left out.
    """
    extras = PROJECT["optional-dependencies"].values()
    asked = [*PROJECT["dependencies"], *itertools.chain(*extras)]
    seen, left = {PROJECT["name"]}, {name_of(r) for r in asked} - {PROJECT["name"]}
    while left:
        seen.add(name := left.pop())
        try:
            required = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        left |= {name_of(r) for r in required if "extra ==" not in r} - seen
    assert {"jax", "scipy", "stable-baselines3", "wandb"} <= seen
    assert not {name for name in seen if name.startswith("tensorflow")}


def test_paxrun_is_the_only_script():
    assert PROJECT["scripts"] == {"paxrun": "runners.cli:main"}


def test_packages_are_typed():
    for package in PACKAGES:
        assert (ROOT / package / "py.typed").is_file()


def test_licence_is_apache_2():
    assert PROJECT["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_oldest_versions_that_ci_runs_are_the_lower_bounds():
    pins = dict(
        line.split("==")
        for line in (ROOT / ".ci/oldest.txt").read_text().splitlines()
        if line and not line.startswith("#")
    )
    bounds = lower_bounds(PROJECT["dependencies"])
    assert {k: padded(v) for k, v in pins.items()} == {
        k: padded(v) for k, v in bounds.items()
    }


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run(
        [sys.executable, *command, str(ROOT)], check=True, capture_output=True
    )
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_wheel_holds_exactly_three_packages(wheel_files):
    top = {name.partition("/")[0] for name in wheel_files}
    assert {name for name in top if not name.endswith(".dist-info")} == PACKAGES


def test_wheel_holds_the_stored_experiments(wheel_files):
    stored = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "runners/conf").rglob("*.yaml")
    }
    assert stored
    assert stored <= set(wheel_files)


def test_wheel_holds_licence_and_type_markers(wheel_files):
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(wheel_files)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_files)


def test_accelerators_are_an_extra_that_the_readme_explains():
    extra = PROJECT["optional-dependencies"]["cuda"]
    assert [name_of(r) for r in extra] == ["jax"]
    assert ".venv/bin/pip install '.[cuda]'" in (ROOT / "README.md").read_text()
