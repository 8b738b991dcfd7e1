"""Compiles the native step into a wheel where there is a compiler; all else is in pyproject.toml.

Without one the wheel is the same but for that, and the step is compiled at first use, as it is in
an editable install, whose source may change.
"""

import importlib.util
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = Path("speculative_tts") / "native"


class BuildSteps(build_ext):
    """One library an instruction set, none in an editable install."""

    def run(self) -> None:
        """Compile unless the package runs from its sources."""
        if not self.editable_mode:
            super().run()


def steps() -> list[Extension]:
    """The step for each instruction set of this machine; one that does not compile is left out."""
    spec = importlib.util.spec_from_file_location("flags", FOLDER / "flags.py")
    flags = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(flags)
    return [
        Extension(
            f"speculative_tts.native._native_{name}",
            [str(FOLDER / path.name) for path in flags.SOURCES],
            depends=[str(path) for path in FOLDER.glob("*.h")],
            extra_compile_args=flags.options(name),
            extra_link_args=list(flags.LINKING[1:]),
            language="c++",
            optional=True,
        )
        for name in flags.sets()
    ]


setup(ext_modules=steps(), cmdclass={"build_ext": BuildSteps})
