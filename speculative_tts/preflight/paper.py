"""List what the papers' experiments lack here: weights, code, lists, judges, disk, GPU."""

import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from speculative_tts.preflight.judges import judges, presets_of
from speculative_tts.preflight.needs import Requirement, needs
from speculative_tts.preflight.table import CheckedItem
from speculative_tts.schema.common import Device
from speculative_tts.schema.evaluate import CheckConfig, Paper

GIB = 2**30
RUNS_GIB = 40  # audio and records of all experiments
GPU_GIB = {  # weights in bfloat16 with draft, caches and codec
    Paper.ssd: 8,
    Paper.pcg: 24,  # LLaSA-8B: 16.1 + 2.6 + activations
    Paper.mtp: 8,
}


def paper(asked: CheckConfig) -> list[CheckedItem]:
    """Check everything that the papers' experiments need, in the order in which to get it.

    Judges are left out without `scoring`: runs are scored elsewhere.
    """
    chosen, models = [one for one in GPU_GIB if not asked.only or one in asked.only], asked.models
    wanted, lacking = needs(Path(models)), dict[Requirement, str | None]()
    papers: dict[Requirement, list[str]] = defaultdict(list)
    for one in chosen:
        states = dict(state for need in wanted[one] for state in need.states())
        lacking |= states
        for need in states:
            papers[need].append(one.name.upper())
    found = [_finding(need, ", ".join(papers[need]), state) for need, state in lacking.items()]
    if asked.scoring:
        presets = presets_of(asked) or [one.name for one in chosen]
        found += judges(f"{models}/judges", presets)
    absent = [need for need, state in lacking.items() if state is not None]
    if asked.device is Device.cpu:  # a rehearsal, of few utterances
        return found + _disks(absent, Path(models), {})
    return [*found, *_disks(absent, Path(models), {Path(): RUNS_GIB}), _gpu(chosen)]


def _finding(need: Requirement, needed_by: str, lacking: str | None) -> CheckedItem:
    if lacking is None:
        return CheckedItem(need.item, needed_by, here=True, state="here")
    return CheckedItem(need.item, needed_by, here=False, state=lacking, remedy=need.command)


def _disks(
    absent: Sequence[Requirement], models: Path, runs: Mapping[Path, float]
) -> list[CheckedItem]:
    """Check the disks of `models` and of the runs for the room in GiB that is still needed."""
    wanted = defaultdict[Path, float](float, runs)
    for need in absent:
        wanted[models if Path(need.item).is_relative_to(models) else Path()] += need.gib
    places = {place: _existing(place) for place in wanted}
    disks: dict[int, list[Path]] = defaultdict(list)
    for place in wanted:
        disks[places[place].stat().st_dev].append(place)
    return [
        _disk(places[own[0]], " and ".join(map(str, own)), sum(wanted[place] for place in own))
        for own in disks.values()
    ]


def _existing(place: Path) -> Path:
    """Return the path if it exists, else its nearest existing parent."""
    return next(path for path in (place, *place.absolute().parents) if path.exists())


def _disk(place: Path, name: str, needed: float) -> CheckedItem:
    free = shutil.disk_usage(place).free / GIB
    here = free >= needed
    remedy = "" if here else f"make room, or start on a disk with {needed:.0f} GiB free"
    state = f"{free:.0f} of {needed:.0f} GiB"
    return CheckedItem(f"free disk ({name})", "all", here=here, state=state, remedy=remedy)


def _gpu(chosen: Sequence[Paper]) -> CheckedItem:
    import torch

    needed = max(GPU_GIB[one] for one in chosen)
    if not torch.cuda.is_available():
        remedy = f"run on a machine with a GPU of {needed} GiB"
        return CheckedItem("GPU memory", "all", here=False, state="no GPU", remedy=remedy)
    memory = torch.cuda.get_device_properties(0).total_memory / GIB
    smaller = " (LLaSA-8B does not fit: target=llasa_3b draft=llasa_1b)" if needed > 8 else ""
    remedy = "" if memory >= needed else f"run on a GPU of {needed} GiB{smaller}"
    state = f"{memory:.0f} of {needed} GiB"
    return CheckedItem("GPU memory", "all", here=memory >= needed, state=state, remedy=remedy)
