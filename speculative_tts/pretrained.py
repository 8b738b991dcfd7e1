"""Load models by transformers, and refuse what it would draw at random, drop or misread."""

from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger
from pathlib import Path
from typing import Any

from speculative_tts.texts import some
from speculative_tts.typed import read_json

PLAIN = {"F64", "F32", "F16", "BF16", "I64", "BOOL"}  # integers are counts and positions
TRAINED_WITH = "masked_spec_embed"  # many checkpoints lack it: it masks inputs in training alone
AGAIN = "copy the checkpoint again"
FOUND = {"output_loading_info": True, "ignore_mismatched_sizes": True}
logger = getLogger(__name__)


def read_pretrained(
    kind: Any, folder: Path, remedy: str, *, others: bool = False, **options: Any
) -> Any:
    """Load a model of a transformers class from a local folder.

    Raise ValueError, which ends with `remedy`, for tensors that the folder lacks or that have
    another shape, which transformers would draw at random; for numbers in 8 bits without a
    quantization_config, which it would take as they are; and for tensors that the model does not
    have, unless `others` may lie there: these a warning names.
    """
    if not read_json(folder / "config.json", remedy).get("quantization_config"):
        _require_plain(folder, remedy)
    with naming_odd_values(f"{folder}/config.json", remedy), _quiet():
        model, told = kind.from_pretrained(folder, local_files_only=True, **FOUND, **options)
    return _whole(model, told, folder, remedy, others=others)


def read_part(kind: Any, settings: dict[str, Any], folder: Path, prefix: str, remedy: str) -> Any:
    """Load a model of a transformers class that lies in a folder of a larger one.

    `settings` are its part of config.json, its tensors begin with `prefix`. Raise ValueError as
    `read_pretrained`, and where there are no such tensors.
    """
    from speculative_tts.state_dicts import opened

    state: dict[str, Any] = {}
    _require_plain(folder, remedy)
    for file in sorted(folder.glob("*.safetensors")):
        with opened(file, remedy=remedy) as tensors:
            names = [name for name in tensors.keys() if name.startswith(prefix)]  # noqa: SIM118
            state |= {name.removeprefix(prefix): tensors.get_tensor(name) for name in names}
    if not state:
        raise ValueError(f"{folder} holds no tensors {prefix}*; {remedy}")
    with naming_odd_values(f"{folder}/config.json", remedy), _quiet():
        config = kind.config_class(**settings)
        model, told = kind.from_pretrained(None, config=config, state_dict=state, **FOUND)
    return _whole(model, told, folder, remedy, others=False)


def _whole(model: Any, told: Any, folder: Path, remedy: str, *, others: bool) -> Any:
    """Return a model of which nothing was drawn at random; see `read_pretrained`."""
    odd = _named(told["missing_keys"]) + _named(told["mismatched_keys"])
    more = _named(told["unexpected_keys"])
    if odd or (more and not others):
        raise ValueError(f"{folder} does not fit its config.json: {some(odd + more)}; {remedy}")
    if more:
        logger.warning("%s holds tensors that the model does not have: %s", folder, some(more))
    return model


def read_tokenizer(folder: Path, remedy: str) -> Any:
    """Load a folder's tokenizer; ValueError with the folder, transformers' reason and `remedy`."""
    from transformers import AutoTokenizer

    load: Any = AutoTokenizer.from_pretrained  # without types
    try:
        with _quiet():
            return load(str(folder), local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError, _strict()) as error:
        raise ValueError(
            f"the tokenizer in {folder} is not readable ({_reason(error)}); {remedy}"
        ) from error


@contextmanager
def naming_odd_values(where: object, remedy: str) -> Iterator[None]:
    """Raise ValueError, one line, where transformers refuses a value of a config.json."""
    try:
        yield
    except _strict() as error:
        raise ValueError(f"{where} is odd ({_reason(error)}); {remedy}") from error


def _strict() -> type[Exception]:
    """Return what transformers raises for a config.json with an impossible value."""
    from huggingface_hub.errors import StrictDataclassError

    return StrictDataclassError


def _reason(error: Exception) -> str:
    """Return the first line of an exception; with the second, where that says what is odd."""
    first, _, second = str(error).strip().partition("\n")
    return f"{first} {second.strip()}" if first.endswith("':") else first.rstrip(": ")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence transformers' progress bar and its own report, of which a line is told here."""
    from transformers.utils import logging

    theirs: Any = logging  # without types
    before, bars = theirs.get_verbosity(), theirs.is_progress_bar_enabled()
    theirs.set_verbosity_error()
    theirs.disable_progress_bar()
    try:
        yield
    finally:
        theirs.set_verbosity(before)
        if bars:
            theirs.enable_progress_bar()


def _named(keys: Any) -> list[str]:
    """Return the names of transformers' loading info; mismatched ones come with their shapes."""
    names = (key if isinstance(key, str) else key[0] for key in keys)
    return sorted(name for name in names if not name.endswith(TRAINED_WITH))


def _require_plain(folder: Path, remedy: str) -> None:
    from speculative_tts.state_dicts import opened

    for file in sorted(folder.glob("*.safetensors")):
        with opened(file, "numpy", remedy) as tensors:
            kinds = {name: tensors.get_slice(name).get_dtype() for name in tensors.keys()}  # noqa: SIM118
        if odd := [f"{name} is {kind}" for name, kind in kinds.items() if kind not in PLAIN]:
            raise ValueError(
                f"{file} holds quantised numbers without scales: {some(odd)}; {remedy}"
            )
