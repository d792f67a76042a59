"""The tables of options in the pages, from the fields that describe them.

`test_docs.py` compares. After an option has changed, run
`python tests/option_tables.py`.
"""

import dataclasses
import re
from pathlib import Path
from typing import Any

from paxenv import options
from runners.config.schema import AgentConfig, ExperimentConfig
from runners.search.options import ESOptions
from runners.session.runner_config import RunnerConfig

DOCS = Path(__file__).parents[1] / "docs"
TABLES = {
    "config.md": (ExperimentConfig, AgentConfig),
    "evolution.md": (ESOptions,),
    "functional_api.md": (RunnerConfig,),
}
WORDS = {"None": "none", "True": "true", "False": "false", "''": "", "()": "", "{}": ""}


def rewritten(page: str) -> str:
    """Returns a page with its tables as the fields say."""
    text = (DOCS / page).read_text()
    for kind in TABLES[page]:
        begin, end = f"<!-- options of {kind.__name__} -->\n\n", "\n\n<!-- end -->"
        place = re.compile(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", re.DOTALL)
        assert place.search(text), f"{page} has no place for {kind.__name__}"
        text = place.sub(lambda _, kind=kind: table(kind), text, count=1)
    return text


def table(kind: Any) -> str:
    """Returns the options of a dataclass as a table of Markdown."""
    lines = ["| key | default | values | meaning |", "|---|---|---|---|"]
    for field in dataclasses.fields(kind):
        help = field.metadata.get("help")
        if help and field.name != "options":
            names = [f"`{name}`" for name in field.metadata["aliases"]]
            also = f" ({', '.join(names)})" if names else ""
            default = options.written(options.default_of(field))
            rule = options.rule_of(options.hints(kind)[field.name])
            values = rule.claim.removeprefix("one of ") if rule else ""
            page = field.metadata["page"]
            cells = (
                f"`{field.name}`{also}",
                WORDS.get(default, default),
                values.replace("True or False", "true or false"),
                f"{help} See [{page}]({page})." if page else help,
            )
            lines.append(f"| {' | '.join(c.replace('|', '&#124;') for c in cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    for name in TABLES:
        (DOCS / name).write_text(rewritten(name))
