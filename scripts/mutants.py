"""`make mutants`: faults put into the code one at a time, and which of them no test finds.

mutmut makes the faults (mutants), of the files that `[tool.mutmut]` names, and switches between
them. The rest is here, for three reasons: mypy refuses more than half of them, which is one run of
mypy for all; torch and the tests are loaded and collected once, and every mutant is a fork of that;
time is the process's own, since a busy machine must not kill a mutant.

    python scripts/mutants.py run [FILE ...] [--again] [--seconds 600]
    python scripts/mutants.py page

`run` goes on where the last one ended: with mutants that have no result (of functions that changed
since, too), then with the survivors that tests/mutants.yaml does not call equivalent, as tests may
be new (`--again`: with these alone). `page` writes tests/mutants.md and fails if an entry of
tests/mutants.yaml belongs to no survivor.
"""

import argparse
import gc
import hashlib
import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from mutant_files import (
    ENDLESS,
    FOLDER,
    KILLED,
    SECONDS,
    SURVIVED,
    UNREACHED,
    File,
    files,
    make,
    reasons,
    tools,
)

MEMORY = 16 * 2**30  # of address space
WAITING = 900  # seconds by the clock, after which a mutant waits for what does not come


class Mutation:
    """A pytest plugin: what pytest has collected is run for one mutant after the other."""

    def __init__(self, wanted: list[tuple[File, str]], given: argparse.Namespace) -> None:
        self._wanted, self._until = wanted, time.monotonic() + given.seconds
        self._most = given.tests
        self._failed = self._trying = False
        self._killers: dict[str, Counter[str]] = defaultdict(Counter)  # by function

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails without a mutant ends the run."""
        self._failed = self._failed or report.failed

    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        """A test that fails ends its mutant: to quote its code would take longer than most tests.

        mutmut's files have thousands of lines, which are parsed for that.
        """
        if self._trying and call.excinfo and not call.excinfo.errisinstance(pytest.skip.Exception):
            os._exit(KILLED)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running each test once."""
        import speculative_tts

        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} files of tests cannot be read")
        assert Path(speculative_tts.__file__).is_relative_to(FOLDER), "nothing here is a mutant"
        tests = {item.nodeid: item for item in session.items}
        known = self._reach(tests)
        gc.freeze()  # forks share what is there
        for number, (file, mutant) in enumerate(self._wanted, 1):
            if time.monotonic() > self._until:
                break
            chosen = self._chosen(mutant, tests, known)
            result = self._tried(mutant, chosen) if chosen else UNREACHED
            file.results[mutant] = result
            file.save()
            print(number, len(self._wanted), mutant, result, file=sys.__stderr__, flush=True)
        return True

    def _chosen(
        self, mutant: str, tests: dict[str, pytest.Item], known: dict[str, tuple[float, list[str]]]
    ) -> list[tuple[pytest.Item, float]]:
        """Tests that reach a mutant, and their seconds.

        What found others of its function is first, then what is quick and reaches little else.
        """
        function = mutant.partition("__mutmut_")[0]
        kills = self._killers[function]
        reach = [test for test in tests if function in known[test][1]]
        reach.sort(key=lambda test: (-kills[test], known[test][0] * len(known[test][1])))
        total = 0.0
        chosen = []
        for test in reach:
            if total + known[test][0] <= self._most or not chosen:
                total += known[test][0]
                chosen.append((tests[test], known[test][0]))
        return chosen

    def _reach(self, tests: dict[str, pytest.Item]) -> dict[str, tuple[float, list[str]]]:
        """Seconds of each test, and the functions it reaches; tests that are known are not run.

        They are while their file and the functions that they reach are as they were: where else
        should another function be called from?
        """
        hashes = {
            f"{file.module}.{name}": code
            for file in files()
            for name, code in file.notes["hash_by_function_name"].items()
        }
        text = {path: path.read_text() for path in {item.path for item in tests.values()}}

        def digest(test: str, reached: list[str]) -> str:
            parts = [text[tests[test].path], *(hashes.get(name, "") for name in reached)]
            return hashlib.sha256("\n".join(parts).encode()).hexdigest()

        path = FOLDER / "reach.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        new = [
            item
            for test, item in tests.items()
            if test not in known or known[test][2] != digest(test, known[test][1])
        ]
        if new and (child := os.fork()):
            if os.waitpid(child, 0)[1]:
                pytest.exit("this test fails without any mutant", 1)
            known = json.loads(path.read_text())
        elif new:
            from mutmut.state import state

            os.environ["MUTANT_UNDER_TEST"] = "stats"
            for item, after in zip(new, [*new[1:], None], strict=True):
                state()._stats.clear()
                began = time.process_time()
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                seconds = time.process_time() - began
                reached = sorted(state()._stats)
                known[item.nodeid] = (seconds, reached, digest(item.nodeid, reached))
                if self._failed:
                    print(item.nodeid, file=sys.__stderr__, flush=True)
                    os._exit(1)
                path.write_text(json.dumps(known))
            os._exit(0)
        return {test: (seconds, reached) for test, (seconds, reached, _) in known.items()}

    def _tried(self, mutant: str, tests: list[tuple[pytest.Item, float]]) -> int:
        """Run tests with a mutant until one fails, in a process of its own."""
        killer = FOLDER / "killer"
        if child := os.fork():
            status = os.waitpid(child, 0)[1]
            self._killers[mutant.partition("__mutmut_")[0]][killer.read_text()] += 1
            return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else ENDLESS
        signal.alarm(WAITING)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os.environ["MUTANT_UNDER_TEST"], self._trying = mutant, True
        items = [item for item, _ in tests]
        items[0].config.get_terminal_writer()._file = io.StringIO()
        for (item, seconds), after in zip(tests, [*items[1:], None], strict=True):
            killer.write_text(item.nodeid)
            limit = int(time.process_time() + 3 * seconds + 6)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        killer.write_text("none")
        os._exit(SURVIVED)


def wanted(given: argparse.Namespace) -> Iterator[tuple[File, str]]:
    """Mutants to be tried, file by file: those without a result, then survivors again.

    In a drawn order, so that those tried of a file are at any time a fair sample of it.
    """
    known = {file.name: file for file in files()}
    if unknown := set(given.files) - known.keys():
        raise SystemExit(
            f"no such file: {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    chosen = [known[name] for name in given.files or known]
    if not given.again:
        for file in chosen:
            left = [mutant for mutant, code in file.results.items() if code is None]
            yield from ((file, mutant) for mutant in sorted(left, key=drawn))
    listed = reasons()
    for file in chosen:
        for mutant, code in file.results.items():
            if code in (SURVIVED, UNREACHED):
                reason = listed[file.name].get(file.change(mutant)[0])
                if reason is None or not reason.equivalent:
                    yield file, mutant


def drawn(mutant: str) -> str:
    """A mutant's place in an order that has nothing to do with what it is."""
    return hashlib.sha256(mutant.encode()).hexdigest()


def run(given: argparse.Namespace) -> int:
    """Try mutants."""
    make()
    todo = list(wanted(given))
    settings = tools()["mutmut"]
    os.chdir(FOLDER)
    sys.path.insert(0, str(FOLDER))
    os.environ["MUTANT_UNDER_TEST"] = ""
    temporary = f"--basetemp={FOLDER / 'tmp'}"
    chosen = settings["pytest_add_cli_args_test_selection"]
    arguments = [*settings["pytest_add_cli_args"], *chosen, temporary, "--rootdir=."]
    return int(pytest.main(arguments, plugins=[Mutation(todo, given)]))


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["run", "page"])
    parser.add_argument("files", nargs="*", help="as `decoding/groups`; all, if none is named")
    parser.add_argument("--again", action="store_true", help="only what survived")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="then stop")
    parser.add_argument("--tests", type=float, default=SECONDS, help="seconds of a mutant's tests")
    given = parser.parse_intermixed_args()
    if given.what == "run":  # the page wants the package itself: here it is FOLDER's
        again = [sys.executable, __file__, "page"]
        return run(given) or subprocess.run(again, cwd=FOLDER.parent, check=False).returncode
    from mutant_page import page

    return page()


if __name__ == "__main__":
    sys.exit(main())
