"""Make a listening test from runs: a folder for raters' browsers, and a key that stays private."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from speculative_tts.codecs.audio import readable, write_wave
from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.sources import Source, find_runs, read_external
from speculative_tts.files import write_atomic
from speculative_tts.listening import sound
from speculative_tts.listening.answers import has_answers
from speculative_tts.listening.clips import Clips, SharedUtterance
from speculative_tts.listening.design import assign, check_places
from speculative_tts.listening.key import (
    ANSWERS,
    SITE,
    ComparedSystem,
    Key,
    Trial,
    hash_test,
    public,
)
from speculative_tts.provenance import provenance
from speculative_tts.schema.listen import ListenConfig, ListeningTest
from speculative_tts.texts import some
from speculative_tts.typed import json_text

AUDIO = "audio"
PAGE = ("index.html", "style.css", "test.js", "server.js")
MOST_SYSTEMS = 12  # per test; with more, the user forgot to choose


@dataclass(frozen=True)
class WrittenTest:
    """A test that was written, with remarks for the user."""

    key: Key
    clips: int
    utterances: int
    remarks: tuple[str, ...]


def make(config: ListenConfig) -> WrittenTest:
    """Write the test of a configuration; raise ValueError for runs that cannot make one."""
    folder = Path(config.folder)
    _refuse_answered(folder)
    rng = np.random.default_rng(config.seed)
    sources = _systems(config)
    utterances = _utterances(sources, config, rng)
    plan = assign(
        config.test,
        raters=config.raters,
        samples=config.samples,
        utterances=len(utterances),
        systems=len(sources),
        rng=rng,
    )
    clips = Clips(config.test, sources, utterances, rng)
    raters = [
        _with_checks([clips.trial(one, config.show_text) for one in trials], clips, config, turn)
        for turn, trials in enumerate(plan)
    ]
    key = Key(
        hash_test(clips.known, raters),
        config.test,
        [_system(one) for one in sources],
        clips.known,
        clips.training(),
        raters,
        config.samples,
        {"seed": config.seed, "loudness": config.loudness, "provenance": provenance(config)},
    )
    remarks = _write_site(folder / SITE, key, clips, config.loudness)
    key.write(folder)
    return WrittenTest(key, len(clips.known), len(utterances), tuple(remarks))


def _refuse_answered(folder: Path) -> None:
    answers = folder / ANSWERS
    if has_answers(answers):
        raise ValueError(
            f"{answers} holds answers to the test that is there; give another folder=<path>"
        )


def _systems(config: ListenConfig) -> list[Source]:
    """Return the systems to be compared, the baseline first."""
    systems = find_runs(Path(config.runs))
    if config.list is not None:
        systems += read_external(Path(config.list))
    names = {_name(one): one for one in systems}
    if config.systems:
        systems = list(
            {_name(one): one for want in config.systems for one in _named(want, names)}.values()
        )
    if len(systems) > MOST_SYSTEMS:
        raise ValueError(
            f"{len(systems)} systems are too many for one test ({MOST_SYSTEMS} at most); choose "
            f"with systems=[{_name(systems[0])},{_name(systems[1])}]"
        )
    if config.baseline is not None:
        first = _named(config.baseline, {_name(one): one for one in systems})
        systems = [*first, *(one for one in systems if one not in first)]
    if len(systems) < 2 and config.test not in (ListeningTest.mos, ListeningTest.smos):
        raise ValueError(f"test={config.test.name} compares systems, and there is one; give more")
    return [_labelled(one) for one in systems]


def _system(source: Source) -> ComparedSystem:
    return ComparedSystem(
        source.label, str(source.folder.absolute()), source.run.get("system") != "external"
    )


def _name(source: Source) -> str:
    return source.folder.name


def _labelled(source: Source) -> Source:
    return dataclasses.replace(source, run=source.run | {"label": _name(source)})


def _named(wanted: str, systems: dict[str, Source]) -> list[Source]:
    """Return the one system whose name is `wanted` or begins with it."""
    fitting = [wanted] if wanted in systems else [one for one in systems if one.startswith(wanted)]
    if len(fitting) != 1:
        raise ValueError(
            f"systems: {wanted} names {len(fitting)} of the systems that are there; give "
            f"{'more of a name' if fitting else 'how one begins'}: {some(sorted(systems))}"
        )
    return [systems[fitting[0]]]


def _utterances(
    sources: Sequence[Source], config: ListenConfig, rng: np.random.Generator
) -> list[SharedUtterance]:
    """Return the utterances that every system spoke, in random order."""
    by_id = [{one.id: one for one in source.samples} for source in sources]
    shared = [
        key
        for key in by_id[0]
        if all(key in one and readable(Path(one[key].audio)) for one in by_id)
    ]
    spoken = [_utterance([one[key] for one in by_id]) for key in shared]
    voices = config.test is ListeningTest.smos
    usable = [one for one in spoken if one.prompt] if voices else spoken
    if not usable or (config.checks and not any(one.recording for one in usable)):
        missing = "prompt" if voices else "audio"
        what = missing if not usable else "recording for the attention checks (checks=0: none)"
        raise ValueError(
            f"no utterance that all of {some([*map(_name, sources)])} spoke has a readable "
            f"{what}; give runs of one test list"
        )
    chosen = [usable[i] for i in rng.permutation(len(usable))]
    return chosen[: config.utterances]


def _utterance(samples: Sequence[ScoreRow]) -> SharedUtterance:
    first = samples[0]
    prompt, reference = (
        Path(path) if path and readable(Path(path)) else None
        for path in (first.prompt_audio, first.reference_audio)
    )
    audio = tuple(Path(one.audio) for one in samples)
    recorded = first.text if reference else None
    recording = reference or prompt
    return SharedUtterance(first.id, first.text, first.speaker, audio, recording, recorded, prompt)


def _with_checks(
    trials: list[Trial], clips: Clips, config: ListenConfig, rater: int
) -> list[Trial]:
    """Insert checks, good and bad in turn."""
    result = list(trials)
    where = check_places(len(trials), config.checks)
    for i in reversed(range(config.checks)):
        result.insert(
            where[i], clips.check(rater + i, high=(rater + i) % 2 == 0, show_text=config.show_text)
        )
    return result


def _write_site(site: Path, key: Key, clips: Clips, loudness: float) -> list[str]:
    """Write page, trials and sounds; return remarks for the user."""
    gains, peaks = {}, {}
    for name, load in clips.sounds.items():
        one = load()
        gains[name] = one.gain(loudness)
        peaks[name] = one.peak * gains[name]
    loudest = max(peaks, key=lambda name: peaks[name])
    softer = min(1.0, sound.PEAK / max(peaks[loudest], sound.PEAK))
    for stale in (site / AUDIO).glob("*.wav"):
        stale.unlink()
    for name, load in clips.sounds.items():
        one = load().times(gains[name] * softer)
        write_wave(site / AUDIO / name, one.wave, one.rate)
    page = resources.files("speculative_tts.listening") / "site"
    for name in PAGE:
        write_atomic(site / name, (page / name).read_bytes())
    write_atomic(site / "data.js", f"window.TEST = {json_text(public(key))};\n")
    if softer == 1:
        return []
    clip = key.clips[loudest]
    return [
        (
            f"all clips at {loudness + 20 * np.log10(softer):.1f} LUFS instead of {loudness:g}: "
            f"{clip.utterance} of {clip.system or clip.role.name} would clip"
        )
    ]
