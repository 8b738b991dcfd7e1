"""sst-listen serve: what was acknowledged is kept, and nothing else gets in or out."""

import http.client
import json
import signal
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from listening_runs import make_runs, make_test, rated
from listening_server import Served, served

from speculative_tts.commands.listen import main
from speculative_tts.listening.answers import read_answers
from speculative_tts.listening.key import Key, read_key

pytestmark = pytest.mark.whole

NAMES = ["target-s0-22222222", "speculative-tolerance-b0.4-k3-s0-33333333"]
KILLS = 5


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_runs(tmp_path_factory.mktemp("listening") / "runs", NAMES)


@pytest.fixture
def key(runs: Path, tmp_path: Path) -> Key:
    return make_test(tmp_path, runs, "raters=12", "samples=10", "baseline=target")


def sheets_of(key: Key) -> list[Any]:
    return rated(key, {NAMES[0]: 2.81, NAMES[1]: 3.19}, 0)


def kept(folder: Path, key: Key) -> set[tuple[int, int]]:
    return {
        (sheet.rater, one.trial)
        for sheet in read_answers(folder / "answers", key)
        for one in sheet.answers
    }


@pytest.mark.slow
def test_kill_9_between_answers_loses_none(key: Key, tmp_path: Path) -> None:
    """Five servers are killed while a rater answers one trial after another, at any moment."""
    answers = [(sheet, one) for sheet in sheets_of(key) for one in sheet["answers"]]
    acknowledged: set[tuple[int, int]] = set()
    rng = np.random.default_rng(0)
    for _ in range(KILLS):
        server = Served(tmp_path)
        killer = threading.Timer(rng.uniform(0.0, 0.3), server.process.kill)
        try:
            while answers:
                sheet, one = answers[0]
                status, reply = server.send(sheet | {"answers": [one]})
                assert (status, reply) == (200, {"saved": 1})
                acknowledged.add((sheet["rater"], one["trial"]))
                answers.pop(0)
                if killer.ident is None:  # a busy machine takes its time until the first answer
                    killer.start()
                time.sleep(0.005)
        except (OSError, http.client.HTTPException):
            pass
        server.end()
        killer.cancel()
        assert acknowledged
        assert acknowledged <= kept(tmp_path, key)
        assert len(kept(tmp_path, key) - acknowledged) <= 1  # on disk, and not yet said
    with served(tmp_path) as server:  # and it goes on, with an answer sent twice too
        for sheet, one in answers:
            assert server.send(sheet | {"answers": [one]})[0] == 200
    assert len(kept(tmp_path, key)) == 12 * (10 * 2 + 4)
    assert main(["score", f"folder={tmp_path}", "draws=500"]) == 0
    found = json.loads((tmp_path / "scores.json").read_text())
    assert found["raters"] == 12
    assert found["pairs"][0]["difference"]["low"] > 0


def test_what_gets_in(key: Key, tmp_path: Path) -> None:
    good = sheets_of(key)[0]
    hostile = "'); DROP TABLE answers; --<script>alert(1)</script>"
    deep = b"[" * 100_000
    refused: list[tuple[Any, str, int]] = [
        (good, "text/plain", 415),
        (b"x" * 1_100_000, "application/json", 413),
        (b"{", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (deep, "application/json", 400),
        ([], "application/json", 400),
        (good | {"test": "../key.json"}, "application/json", 400),
        (good | {"rater": 13}, "application/json", 400),
        (good | {"session": "../../../etc/passwd"}, "application/json", 400),
        (good | {"name": "\ud800"}, "application/json", 400),
        (good | {"name": "x" * 101}, "application/json", 400),
    ]
    for values in ([float("nan")], [10**400], [True], ["5"], [], [3.0, 3.0]):
        one = {"trial": 0, "values": values, "seconds": 1, "plays": 1}
        refused.append((good | {"answers": [one]}, "application/json", 400))
    with served(tmp_path) as server:
        for body, kind, status in refused:
            code, reply = server.send(body, kind)
            assert code == status, body
            assert "\n" not in reply["error"]
            assert "Traceback" not in reply["error"]
        assert server.send(good | {"name": hostile})[0] == 200
    (sheet,) = read_answers(tmp_path / "answers", key)
    assert sheet.name == hostile
    assert len(sheet.answers) == 24


PATHS = (
    "/key.json",
    "/../key.json",
    "/%2e%2e/key.json",
    "/audio/../../key.json",
    "/audio/..%2f..%2fkey.json",
    "/..%5ckey.json",
    "//key.json",
    "/answers/",
    "/../answers/{sheet}",
    "/..%2fanswers%2f{sheet}",
    "/%00",
)


def test_what_gets_out(key: Key, tmp_path: Path) -> None:
    with served(tmp_path) as server:
        place = urlsplit(server.address).netloc

        def get(path: str, method: str = "GET") -> tuple[http.client.HTTPResponse, bytes]:
            connection = http.client.HTTPConnection(place, timeout=20)
            connection.request(method, path)
            reply = connection.getresponse()
            body = reply.read()
            connection.close()
            return reply, body

        assert server.send(sheets_of(key)[0])[0] == 200
        (sheet,) = (tmp_path / "answers").glob("*.json")
        for path in PATHS:
            reply, body = get(path.format(sheet=sheet.name))
            assert reply.status in (400, 404, 405), path
            assert b"target-s0" not in body
            assert b"session" not in body
        for path in ("/", "/index.html", "/test.js", "/data.js", f"/audio/{min(key.clips)}"):
            reply, body = get(path)
            assert reply.status == 200
            assert body
            assert reply.getheader("X-Content-Type-Options") == "nosniff"
            assert "script-src 'self'" in (reply.getheader("Content-Security-Policy") or "")
        assert get("/server.js")[1] == b'window.COLLECT = "answers";\n'
        assert get("/answers", "OPTIONS")[0].status == 405  # no other site's page may send


def test_one_server_a_test(key: Key, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path) as server:
        assert main(["serve", f"folder={tmp_path}", "port=0"]) == 2
        assert "is in use by another process" in capsys.readouterr().err
        port = urlsplit(server.address).port
        other = tmp_path / "other"
        key.write(other)
        assert main(["serve", f"folder={other}", "port=0"]) == 2
        assert "make the test again" in capsys.readouterr().err
        (other / "site").mkdir()
        (other / "site" / "index.html").touch()
        assert main(["serve", f"folder={other}", f"port={port}"]) == 2
        assert f"127.0.0.1:{port} cannot be had" in capsys.readouterr().err


def test_ctrl_c_is_a_normal_end(key: Key, tmp_path: Path) -> None:
    with served(tmp_path) as server:
        assert server.send(sheets_of(key)[0])[0] == 200
        server.process.send_signal(signal.SIGINT)
        out, error = server.process.communicate(timeout=60)
    assert (server.process.returncode, error) == (0, "")
    assert out.startswith("answers are kept; sst-listen score folder=")


def test_a_test_that_nobody_answered_may_be_made_again(
    key: Key, runs: Path, tmp_path: Path
) -> None:
    with served(tmp_path) as server:
        pass
    again = [f"folder={tmp_path}", f"runs={runs}", "raters=3", "samples=2"]
    assert main(["make", *again]) == 0
    with served(tmp_path) as server:
        sheet = rated(read_key(tmp_path), dict.fromkeys(NAMES, 3.0), 0)[0]
        assert server.send(sheet)[0] == 200
    assert main(["make", *again]) == 2
