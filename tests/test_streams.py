"""A pipe whose reader has gone, as in ``convexstruct verify | head -1``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from convexstruct.cli import main
from convexstruct.verification import runner


@pytest.mark.parametrize(("status", "options"), [(0, []), (1, ["--json"])])
def test_a_closed_pipe_ends_nothing_the_report_is_written_and_the_status_is_what_was_decided(
    status: int, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if status:
        monkeypatch.setattr(runner, "compare", lambda *given: ("failed", "by this test"))
    page, said = tmp_path / "page.html", tmp_path / "said"
    child = os.fork()
    if child == 0:
        code = 99
        try:
            reader, writer = os.pipe()
            os.close(reader)
            os.dup2(writer, 1)
            sys.stdout, sys.stderr = open(1, "w"), said.open("w")  # noqa: SIM115
            code = main(["verify", "--on", "hmm-ties", "--report", str(page), *options])
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == status
    assert "hmm-ties" in page.read_text()
    assert "Traceback" not in said.read_text()
