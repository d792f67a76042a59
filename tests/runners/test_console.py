"""A console that cannot show a sign gets another one."""

import io
import sys

import pytest
from run_fakes import fake_run

from runners.cli import main


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", "+/- ? ??"),
        ("cp1252", "± é ??"),
        ("utf-8", "± é Δ?"),
    ],
)
def test_every_command_prints_what_the_console_can_show(
    tmp_path, monkeypatch, encoding, shown
):
    """Also names that are no text, which Python reads as lone surrogates."""
    fake_run(tmp_path, "wandb.name=± é Δ\udcff")
    streams = {name: io.BytesIO() for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, io.TextIOWrapper(stream, encoding=encoding))
    command = ["paxrun", "runs", "ls", "--exp-dir", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as end:
        main()
    sys.stdout.flush()
    assert end.value.code == 0
    assert shown in streams["stdout"].getvalue().decode(encoding)


def test_a_mistake_in_signs_that_the_console_lacks_is_a_message(monkeypatch):
    streams = {name: io.BytesIO() for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, io.TextIOWrapper(stream, encoding="cp1252"))
    monkeypatch.setattr(sys, "argv", ["paxrun", "rl", "--env", "Δ"])
    with pytest.raises(SystemExit) as end:
        main()
    sys.stderr.flush()
    assert end.value.code == 2
    assert "there is no game '?'" in streams["stderr"].getvalue().decode("cp1252")


def test_an_answer_that_is_no_text_is_no_action(monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(b"c\xff\nq\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stdin)
    stdout = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stdout, encoding="ascii"))
    command = ["paxrun", "play", "IPD", "--against", "TitForTat", "num_inner_steps=2"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as end:
        main()
    sys.stdout.flush()
    assert end.value.code == 0
    assert b"is no action: type one of C" in stdout.getvalue()
