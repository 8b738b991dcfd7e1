"""sst-listen serve as a process of its own, and what a browser would send it."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SERVE = "import sys; from speculative_tts.commands.listen import main; sys.exit(main())"


class Served:
    """A running server."""

    def __init__(self, folder: Path, port: int | str = 0) -> None:
        command = [sys.executable, "-c", SERVE, "serve", f"folder={folder}", f"port={port}"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().partition(" is at ")[2].partition(" ")[0]

    def send(self, body: Any, kind: str = "application/json") -> tuple[int, Any]:
        """Status and reply; a broken connection raises OSError."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.address}answers", data, {"Content-Type": kind}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)

    def end(self) -> None:
        """Stop it and close what it prints to."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def served(folder: Path, port: int | str = 0) -> Iterator[Served]:
    """A server until the end of the block."""
    one = Served(folder, port)
    try:
        yield one
    finally:
        one.end()
