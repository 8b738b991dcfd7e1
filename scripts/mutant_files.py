"""The mutants that mutmut has made, file by file, and why some of them need no test."""

import ast
import difflib
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path("mutants").absolute()
PACKAGE = "speculative_tts/"
REASONS = Path("tests/mutants.yaml").absolute()
KILLED, SURVIVED, UNREACHED, ENDLESS = 1, 0, 33, 36  # mutmut's codes
REFUSED, MESSAGE, DEVICE = 37, 34, 38
SECONDS = 3.0  # of a mutant's tests; more would find a few more
STRICT = r"[, ]*(strict=(True|False|None))?\)"
ASSERTED = r'^(assert .*), f?"[^"]*"$'  # what is asserted, and what is said where it does not hold
COPIES = ("unused-ignore", "no-redef", "has-type")  # mypy on mutmut's copies, not on the mutant


@dataclass
class File:
    """A mutated file, and mutmut's notes about it."""

    path: Path  # below FOLDER

    @property
    def name(self) -> str:
        """As `decoding/groups`."""
        return str(self.path.relative_to(FOLDER / PACKAGE).with_suffix(""))

    @property
    def module(self) -> str:
        """As `speculative_tts.decoding.rules.group`."""
        return ".".join(self.path.relative_to(FOLDER).with_suffix("").parts)

    @cached_property
    def notes(self) -> dict[str, Any]:
        """Of which `exit_code_by_key` has the results."""
        return dict(json.loads(self.path.with_suffix(".py.meta").read_text()))

    @property
    def results(self) -> dict[str, int | None]:
        """By the mutant's whole name."""
        results: dict[str, int | None] = self.notes["exit_code_by_key"]
        return results

    def save(self) -> None:
        """Keep the results."""
        self.path.with_suffix(".py.meta").write_text(json.dumps(self.notes))

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """The copies of functions, by name."""
        nodes = ast.walk(ast.parse("\n".join(self._lines)))
        return {n.name: n for n in nodes if isinstance(n, ast.FunctionDef)}

    @cached_property
    def _lines(self) -> list[str]:
        return self.path.read_text().splitlines()

    def change(self, mutant: str) -> tuple[str, range]:
        """What a mutant changes, as `old -> new`, and which lines of the original that is."""
        name = mutant.rpartition(".")[2]
        plain = _plain(mutant)
        before, after = (self._text(one) for one in (plain, name))
        first = self.functions[plain].lineno
        pieces = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        changed = [piece for piece in pieces if piece[0] != "equal"]
        (_, a, _, c, _), (_, _, b, _, d) = changed[0], changed[-1]
        texts = (" ".join(map(str.strip, lines)) for lines in (before[a:b], after[c:d]))
        return " -> ".join(texts), range(first + a, first + b)

    def _text(self, name: str) -> list[str]:
        node = self.functions[name]
        return [line.replace(name, "f") for line in self._lines[node.lineno - 1 : node.end_lineno]]

    def sort_out(self, lines: list[int]) -> None:
        """Note which mutants no test has to find; `lines` are those that mypy refuses."""
        for mutant in [mutant for mutant, code in self.results.items() if code is None]:
            node = self.functions[mutant.rpartition(".")[2]]
            if any(node.lineno <= line <= (node.end_lineno or 0) for line in lines):
                self.results[mutant] = REFUSED
            elif self.message(mutant):
                self.results[mutant] = MESSAGE
            elif self.device(mutant):
                self.results[mutant] = DEVICE
        self.save()

    def message(self, mutant: str) -> bool:
        """Does it change nothing but what is said to people, or that a zip is strict?"""
        change, lines = self.change(mutant)
        before, after = (
            re.sub(ASSERTED, r"\1", re.sub(STRICT, ")", text)) for text in change.split(" -> ")
        )
        if before == after:
            return True
        plain = self.functions[_plain(mutant)]
        return any(
            node.lineno <= lines.start and lines.stop - 1 <= (node.end_lineno or 0)
            for node in ast.walk(plain)
            if isinstance(node, ast.stmt | ast.expr) and _says(node)
        )

    def device(self, mutant: str) -> bool:
        """Does it change nothing but on which device a tensor is made?"""
        before, _, after = self.change(mutant)[0].partition(" -> ")
        return _nowhere(before) == _nowhere(after)


def _nowhere(text: str) -> str:
    """A line without what says a device."""
    text = re.sub(r"(device=|\.to\()[\w.]+(\[0\])?", r"\1", text).replace("device=", "")
    return re.sub(r"[\s,]*\)", ")", text)


def _plain(mutant: str) -> str:
    """The name of the copy without a fault."""
    return mutant.rpartition(".")[2].partition("__mutmut_")[0] + "__mutmut_orig"


def _says(node: ast.stmt | ast.expr) -> bool:
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        return called.startswith(("logger.", "warnings.", "print", "progress"))
    return isinstance(node, ast.Raise)


def tools() -> dict[str, Any]:
    """Settings of the tools."""
    return dict(tomllib.loads(Path("pyproject.toml").read_text())["tool"])


def files() -> list[File]:
    """All mutated files."""
    return [File(path.with_suffix("")) for path in sorted(FOLDER.rglob("*.py.meta"))]


def make() -> None:
    """Make the mutants, and sort out those that no test has to find."""
    from mutmut.__main__ import create_mutants
    from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir

    FOLDER.mkdir(exist_ok=True)
    others = shutil.ignore_patterns("*.py", "__pycache__")  # mutmut keeps the first ones it copied
    shutil.copytree(PACKAGE, FOLDER / PACKAGE, ignore=others, dirs_exist_ok=True)
    copy_src_dir()
    copy_also_copy_files()
    create_mutants(1)
    path = FOLDER / "judged.json"
    judged = json.loads(path.read_text()) if path.exists() else {}
    made = {file.name: hashlib.sha256(file.path.read_bytes()).hexdigest() for file in files()}
    new = [file for file in files() if judged.get(file.name) != made[file.name]]
    if not new:
        return
    disabled = [word for code in COPIES for word in ("--disable-error-code", code)]
    command = [sys.executable, "-m", "mypy", "--output", "json", *disabled]
    told = subprocess.run(command, cwd=FOLDER, stdout=subprocess.PIPE, text=True, check=False)
    wrong = defaultdict(list)
    for row in map(json.loads, filter(None, told.stdout.splitlines())):
        if row["severity"] == "error":
            wrong[row["file"]].append(row["line"])
    for file in new:
        file.sort_out(wrong[str(file.path.relative_to(FOLDER))])
    path.write_text(json.dumps(made))


@dataclass(frozen=True)
class Reason:
    """Why mutants survive; an equivalent one changes nothing that a caller can see."""

    why: str
    equivalent: bool = True


def reasons() -> dict[str, dict[str, Reason]]:
    """What tests/mutants.yaml says, by file and change."""
    found: dict[str, dict[str, Reason]] = defaultdict(dict)
    for name, entries in (yaml.safe_load(REASONS.read_text()) or {}).items():
        for entry in entries:
            reason = Reason(entry["why"], entry.get("equivalent", True))
            found[name] |= dict.fromkeys(entry["mutants"], reason)
    return found
