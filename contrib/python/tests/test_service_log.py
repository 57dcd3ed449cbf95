"""The log of `pysbx serve` and `pysbx mcp`: what callers cause again and again is written a few times, and counted."""

# once: a server says the same to its clients as root

from __future__ import annotations

import logging
import re
import socket
import time
from pathlib import Path

import pytest

from pysbx.service.connections.problems import JSON, REQUEST, Problem
from pysbx.service.observe import access_log, log
from tests.servers import TOKEN, USUAL, server


@pytest.mark.parametrize("command", ["serve", "mcp"])
def test_an_error_that_is_repeated_is_counted(command: str, tmp_path: Path) -> None:
    with server(listen=f"unix:{tmp_path}/s", command=command, warnings=True) as service:
        for _ in range(300):
            with socket.socket(socket.AF_UNIX) as channel:
                channel.connect(f"{tmp_path}/s")
                channel.sendall(b"NONSENSE\r\n\r\n")
                channel.recv(1 << 16)
    assert [line for line in service.log if not line.startswith(USUAL)] == [
        *["WARNING: Invalid HTTP request received.\n"] * log.EACH,
        f"WARNING: {300 - log.EACH} more like this were not logged: Invalid HTTP request received.\n",
    ]


def fail(number: int) -> None:
    if number % 2:
        raise ValueError(f"odd: {number}")
    raise ValueError(f"even: {number}")


def test_kinds_are_places_and_not_texts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    kept = log.Log()
    logger = logging.Logger("test")
    logger.addHandler(kept)
    for number in range(100):
        logger.warning("text %s", number)
        try:
            fail(number)
        except ValueError:
            logger.exception("failed\nCRITICAL: forged \u202e")
    said = capsys.readouterr().err
    assert said.count("WARNING: text") == log.EACH
    assert said.count("ValueError: odd") == said.count("ValueError: even") == log.EACH
    assert said.count(r"ERROR: failed\nCRITICAL: forged \u202e") == 2 * log.EACH
    clock[0] = log.PERIOD_SEC + 1
    kept.report()
    said = capsys.readouterr().err
    assert said.count(f"{50 - log.EACH} more like this were not logged: failed") == 2
    assert f"{100 - log.EACH} more like this were not logged: text 0\n" in said
    kept.report()
    logger.warning("x" * 100_000)
    assert 0 < len(capsys.readouterr().err) < 2 * log.MAX_LENGTH


def test_what_cannot_be_formatted_is_written_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    kept = log.Log()
    for _ in range(100):
        kept.handle(logging.LogRecord("x", logging.ERROR, __file__, 1, "%d pieces", ("no number",), None))
    assert capsys.readouterr().err.count("ERROR: '%d pieces'") == log.EACH


@pytest.mark.parametrize(
    ("stream", "line"), [("", r"[\d-]{10}T[\d:.]{12}\+00:00 WARNING: text\n"), ("8:1", "WARNING: text\n")]
)
def test_text_has_the_time_unless_the_journal_adds_it(
    stream: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", stream)
    made = log.install()
    logging.getLogger(log.PACKAGE).warning("text")
    made.close()
    assert re.fullmatch(line, capsys.readouterr().err)


@pytest.mark.parametrize("level", ["info", "debug"])
def test_probes_are_logged_at_debug_only(level: str, tmp_path: Path) -> None:
    with server("--log-level", level, listen=f"unix:{tmp_path}/s") as service:
        service.client.get("/health")
        service.run("1")
    assert any(" GET /health 200" in f" {line}" for line in service.log) is (level == "debug")
    assert any("POST /v1/run 200" in line for line in service.log)


@pytest.mark.parametrize(("command", "listen", "warns"), [("mcp", "0.0.0.0:0", True), ("serve", "[::1]:0", False)])
def test_a_token_that_travels_unencrypted_is_warned_of(command: str, listen: str, warns: bool, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    with server("--token-file", str(tmp_path / "token"), command=command, listen=listen, warnings=True) as service:
        pass
    said = [line for line in service.log if line.startswith("WARNING: ")]
    assert len(said) == warns
    for line in said:
        assert "other machines reach " in line
        assert ", and tokens travel unencrypted: --tls-cert, or a proxy with TLS" in line


def test_other_refusals_are_no_more_of_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    kept = log.Log()
    access_log.refused.addHandler(kept)
    access_log.refused.setLevel(logging.INFO)
    try:
        for kind in [*[REQUEST] * (log.EACH + 2), JSON]:
            access_log.note(Problem(kind, "why"))
    finally:
        access_log.refused.setLevel(logging.NOTSET)
        access_log.refused.removeHandler(kept)
        kept.close()
    said = capsys.readouterr().err.splitlines()
    assert said.count(f"INFO: {JSON.title}: why") == 1
    assert said[-1] == f"INFO: 2 more like this were not logged: {REQUEST.title}: why"
