"""The tables of options in the pages, from the fields that describe them.

`test_docs.py` compares. After an option has changed, run
`python tests/option_tables.py`.
"""

import re
from pathlib import Path

from paxenv.options import Option, described, rule_of, written
from paxenv_agents.exact.agents import (
    ExactConfig,
    LOLAExactConfig,
    POLAConfig,
    SOSConfig,
)
from paxenv_agents.learners.dqn import DQNConfig
from paxenv_agents.learners.lola import LOLAConfig
from paxenv_agents.learners.ppo import PPOConfig
from paxenv_agents.learners.sac import SACConfig
from runners.config.schema import AgentConfig, ExperimentConfig
from runners.search.options import ESOptions
from runners.session.runner_config import RunnerConfig

DOCS = Path(__file__).parents[1] / "docs"
#: By page: the configs of each table, with a column of defaults for each of them.
TABLES = {
    "agents.md": (
        (PPOConfig,),
        (DQNConfig, SACConfig),
        (LOLAConfig,),
        (ExactConfig, LOLAExactConfig, SOSConfig, POLAConfig),
    ),
    "config.md": ((ExperimentConfig,), (AgentConfig,)),
    "evolution.md": ((ESOptions,),),
    "functional_api.md": ((RunnerConfig,),),
}
WORDS = {"None": "none", "True": "true", "False": "false", "''": "", "{}": ""}


def rewritten(page: str) -> str:
    """Returns a page with its tables as the fields say."""
    text = (DOCS / page).read_text()
    for kinds in TABLES[page]:
        names = ", ".join(kind.__name__ for kind in kinds)
        begin, end = f"<!-- options of {names} -->\n\n", "\n\n<!-- end -->"
        before, found, after = text.partition(begin)
        assert found, f"{page} has no place for the options of {names}"
        text = f"{before}{begin}{table(*kinds)}{end}{after.partition(end)[2]}"
    return text


def table(*kinds: type) -> str:
    """Returns the options of dataclasses as one table of Markdown."""
    every: dict[str, Option] = {}
    for kind in kinds:
        own = described(kind)
        every |= {name: own[name] for name in own if name not in every}
    heads = ["default"]
    if len(kinds) > 1:
        heads = [kind.__name__.removesuffix("Config") for kind in kinds]
    lines = [
        _row("option", *heads, "values", "meaning"),
        "|---" * (len(heads) + 3) + "|",
    ]
    for option in every.values():
        if option.help and option.name != "options":
            also = f" (`{'`, `'.join(option.aliases)}`)" if option.aliases else ""
            defaults = [_default(kind, option.name) for kind in kinds]
            lines.append(
                _row(
                    f"`{option.name}`{also}", *defaults, _values(option), _said(option)
                )
            )
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _default(kind: type, name: str) -> str:
    known = described(kind)
    if name not in known:
        return ""
    default = written(known[name].default)
    return WORDS.get(default, default)


def _values(option: Option) -> str:
    rule = rule_of(option.hint)
    claim = rule.claim.removeprefix("one of ") if rule else ""
    return claim.replace("True or False", "true or false")


def _said(option: Option) -> str:
    said = re.sub(r"\bNone\b", "none", option.help)
    return f"{said} See [{option.page}]({option.page})." if option.page else said


if __name__ == "__main__":
    for name in TABLES:
        (DOCS / name).write_text(rewritten(name))
