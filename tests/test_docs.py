"""Every snippet of the README and the docs runs, and every link leads somewhere."""

import dataclasses
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import option_tables
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")],
    key=lambda page: page.relative_to(ROOT).as_posix(),
)
LANGUAGES = {"python", "bash", "toml", "yaml", "text", ""}
# Blocks of a page that need the extra `sb3`, or what its tests bring; they run by
# themselves.
NEEDS_SB3 = ("stable_baselines3", "sb3_vec_env", 'arrays="torch"', "gymnax.make")
# Commands that are run elsewhere (CI, test_examples) or install something.
ELSEWHERE = (
    "python3 -m venv ",
    "pip install ",
    "python examples/",
    "export ",
    "bash .ci/run",
    ".venv/bin/",
)


# Commands that resolve everything and run nothing if asked.
DRY_RUNS = ("rl", "evo", "sarl", "online", "es", "eval", "run", "parity", "probe")


class Snippet(NamedTuple):
    """A fenced block; `line` is the page's line of its first line of text."""

    page: str
    line: int
    language: str
    text: str

    @property
    def needs_sb3(self) -> bool:
        return any(word in self.text for word in NEEDS_SB3)


def snippets(page: Path) -> list[Snippet]:
    text = page.read_text()
    return [
        Snippet(
            page.relative_to(ROOT).as_posix(),
            text.count("\n", 0, match.start(2)) + 1,
            match.group(1),
            match.group(2),
        )
        for match in re.finditer(r"^```(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE)
    ]


SNIPPETS = [snippet for page in PAGES for snippet in snippets(page)]


def pages_with(language: str, needs_sb3: bool) -> list[str]:
    return sorted(
        {
            s.page
            for s in SNIPPETS
            if s.language == language and s.needs_sb3 == needs_sb3
        }
    )


def run_python(page: str, needs_sb3: bool) -> int:
    """Runs a page's blocks in one namespace and returns how many there were."""
    namespace: dict = {"__name__": "__main__"}
    count = 0
    for s in SNIPPETS:
        if (s.page, s.language, s.needs_sb3) == (page, "python", needs_sb3):
            # Tracebacks then show the page's own line numbers.
            source = "\n" * (s.line - 1) + s.text
            exec(compile(source, ROOT / page, "exec"), namespace)
            count += 1
    return count


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_there_is_a_readme_with_python_and_commands():
    languages = {s.language for s in SNIPPETS if s.page == "README.md"}
    assert {"python", "bash"} <= languages


def test_no_page_has_two_sections_of_one_name():
    """Also not below different sections: a link to the second would need a number."""
    for page in PAGES:
        text = re.sub(r"(?m)^```.*\n(?:.*\n)*?```$", "", page.read_text())
        names = re.findall(r"(?m)^#+ (.+?) *$", text)
        # A changelog has the same sections for every release.
        assert page.name == "CHANGELOG.md" or sorted(set(names)) == sorted(names), page


def test_languages_of_blocks_are_known():
    assert {s.language for s in SNIPPETS} <= LANGUAGES


@pytest.mark.parametrize(
    "page",
    [
        page if page == "README.md" else pytest.param(page, marks=pytest.mark.slow)
        for page in pages_with("python", needs_sb3=False)
    ],
)
def test_python_blocks_run(page):
    """What the documentation shows is what the package does."""
    assert run_python(page, needs_sb3=False) > 0


@pytest.mark.sb3
@pytest.mark.parametrize("page", pages_with("python", needs_sb3=True))
def test_python_blocks_that_need_the_extra_run(page):
    assert run_python(page, needs_sb3=True) > 0


def commands(language: str = "bash") -> list[tuple[str, int, str]]:
    """Returns (page, line, command) of all blocks, continued lines joined."""
    found = []
    for s in SNIPPETS:
        if s.language == language:
            joined = s.text.replace("\\\n", " ")
            found += [
                (s.page, s.line, line.split(" # ")[0].strip())
                for line in joined.splitlines()
                if line.strip() and not line.startswith("#")
            ]
    return found


def paxrun_commands(language: str = "bash") -> list[tuple[str, int, str]]:
    return [c for c in commands(language) if c[2].split()[0] == "paxrun"]


def test_every_command_is_run_by_some_test():
    left = [
        c
        for c in commands()
        if not c[2].startswith(ELSEWHERE) and c not in paxrun_commands()
    ]
    assert left == []


@pytest.mark.parametrize("page", sorted({c[0] for c in paxrun_commands()}))
def test_paxrun_lines_are_accepted(page, tmp_path):
    """`--dry-run` resolves everything that a run reads, and plays nothing."""
    from runners.cli import cli

    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "experiments.md").write_text((ROOT / "docs/experiments.md").read_text())
    for _, line, command in [c for c in paxrun_commands() if c[0] == page]:
        words = shlex.split(command)[1:]
        if words[0] in DRY_RUNS and "--help" not in words:
            words.append("--dry-run")
        moves = "0\n" * 200 if words[0] == "play" else None
        result = CliRunner().invoke(cli, words, input=moves)
        assert result.exit_code == 0, f"{page}:{line}: {command}\n{result.output}"


def described(command: str) -> list[str]:
    """Returns the words of a command in a block of text, without its description."""
    return shlex.split(re.split(r"\s{2,}(?!-)", command)[0])[1:]


def text_commands(*names: str) -> list[tuple[str, int, str]]:
    """Returns the commands of these names that need nothing from a network."""
    here = [c for c in paxrun_commands("text") if "--run-path" not in c[2]]
    return [c for c in here if c[2].split()[1] in names]


def test_training_lines_of_text_blocks_are_accepted():
    """They write where they stand or need an extra, so that only `--dry-run` runs."""
    from runners.cli import cli

    found = text_commands(*DRY_RUNS)
    for page, line, command in found:
        # Whether an extra is installed is no matter of what was typed.
        words = [word for word in described(command) if word != "wandb.log=true"]
        result = CliRunner().invoke(cli, [*words, "--dry-run"])
        assert result.exit_code == 0, f"{page}:{line}: {command}\n{result.output}"
    assert len(found) > 3


def test_other_lines_of_text_blocks_have_the_options_that_they_show():
    """They read a run; click takes them apart, and nothing is read."""
    from runners.cli import cli

    rest = [c for c in paxrun_commands("text") if c not in text_commands(*DRY_RUNS)]
    for _, _, command in rest:
        words, group = described(command), cli
        context = cli.make_context("paxrun", list(words))
        while hasattr(group, "get_command"):
            group = group.get_command(context, words.pop(0))
        group.make_context("paxrun", words, parent=context)
    assert len(rest) > 6


def test_lines_about_held_out_play_are_played(monkeypatch):
    """The co-players of a run of the experiment that the line names are changed."""
    from runners.cli import cli
    from runners.config import load
    from runners.engine.statistics import Estimate
    from runners.planning.plan import prepare
    from runners.session import held_out
    from runners.storage.run_dir import RunDir

    metrics = {"episode/reward_per_step/player_1": Estimate(-1.0, None, 1, (-1.0,))}
    monkeypatch.setattr(
        *(held_out, "played"), lambda v: dataclasses.replace(v, metrics=metrics)
    )
    found = text_commands("held-out")
    for page, line, command in found:
        words = described(command)
        _, family, name, _ = words[1].split("/")
        plan = prepare(load([f"{family}/{name}", f"save_dir={words[1]}"]))
        RunDir.create(plan.config, words)
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, f"{page}:{line}: {command}\n{result.output}"
        assert len(result.output.splitlines()) > words.count("--vary") + 2
    assert found


def test_commands_in_sentences_exist():
    from runners.cli import cli

    spans = {
        (page.relative_to(ROOT).as_posix(), " ".join(span.split()))
        for page in PAGES
        for span in re.findall(r"`paxrun ([^`]+)`", page.read_text())
    }
    unknown = []
    context = cli.make_context("paxrun", ["rl"], resilient_parsing=True)
    for page, span in sorted(spans):
        command, words = cli, span.split()
        if words[0].startswith(("-", "+")):
            words = ["run", *words]
        while words and hasattr(command, "get_command"):
            name = words.pop(0).partition("|")[0]
            command = command.get_command(context, name)
        params = [] if command is None else command.params
        options = {o for p in params for o in (*p.opts, *p.secondary_opts, "--help")}
        asked = {word.partition("=")[0] for word in words if word.startswith("--")}
        if command is None or not asked <= options:
            unknown.append(f"{page}: {span}")
    assert unknown == []


@pytest.mark.parametrize("page", [p.relative_to(ROOT).as_posix() for p in PAGES])
def test_links_between_pages_lead_somewhere(page):
    text = (ROOT / page).read_text()
    targets = re.findall(r"\]\((?!https?:|mailto:|#)([^)#]+)", text)
    missing = [t for t in targets if not (ROOT / page).parent.joinpath(t).exists()]
    assert missing == []


def test_the_two_commands_of_the_readme_start_from_nothing():
    """A new environment is part of each: system Pythons refuse a bare pip install."""
    lines = [c[2] for c in commands() if c[0] == "README.md"]
    assert lines[:2] == [
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/paxrun rl",
        "python3 -m venv .venv && .venv/bin/pip install -e '.[dev]'"
        " && .venv/bin/pytest",
    ]


def first_column(heading: str) -> list[str]:
    """Returns the code words of a table of the README."""
    section = (ROOT / "README.md").read_text().split(f"\n## {heading}\n")[1]
    return re.findall(r"^\| `([^`]+)` \|", section.split("\n## ")[0], re.MULTILINE)


def test_the_readme_lists_every_game():
    import paxenv

    ours = {id for id in paxenv.games() if id.startswith("pax/")}
    assert set(first_column("Games")) == ours


def test_the_readme_lists_every_agent():
    from paxenv_agents import catalogue

    assert set(first_column("Agents")) == {spec.name for spec in catalogue.AGENTS}


def test_every_stored_experiment_has_a_row_of_results():
    from runners.config import experiment_names

    text = (ROOT / "docs/experiments.md").read_text()
    assert set(re.findall(r"^\| `([^`]+)`[ |]", text, re.MULTILINE)) == set(
        experiment_names()
    )


def test_the_tables_of_experiments_are_those_of_the_record():
    """`paxrun parity --record docs` makes them; nobody edits them by hand."""
    from runners.report import parity

    text = (ROOT / "docs/experiments.md").read_text()
    between = text.split(parity.BEGIN)[1].split(parity.END)[0]
    assert between.strip() == parity.render(parity.read(ROOT / "docs")).strip()


def test_the_readme_quotes_the_error_of_a_forgotten_import(run_python):
    """The text is Gymnasium's own, seen in a process that does not import paxenv."""
    seen = run_python(
        "import gymnasium\n"
        "try:\n    gymnasium.make('pax/IPD-v0')\n"
        "except gymnasium.error.NamespaceNotFound as error:\n    print(error)"
    )
    text = (ROOT / "README.md").read_text()

    assert f"gymnasium.error.NamespaceNotFound: {seen}" in text


def test_the_module_form_needs_no_import(run_python):
    seen = run_python(
        "import gymnasium\nprint(gymnasium.make('paxenv:pax/IPD-v0').spec.id)"
    )
    assert seen == "pax/IPD-v0"


@pytest.mark.parametrize("page", option_tables.TABLES)
def test_every_setting_is_documented_as_its_field_says(page):
    text = (ROOT / "docs" / page).read_text()
    assert text == option_tables.rewritten(page), "run python tests/option_tables.py"
