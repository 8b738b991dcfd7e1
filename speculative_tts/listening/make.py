"""Runs become a test: a folder for raters' browsers, and the key that stays at home."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from speculative_tts.codecs.audio import readable, write_wave
from speculative_tts.evaluation.judge import Sample
from speculative_tts.evaluation.sources import Source, find_runs, read_external
from speculative_tts.files import write_atomic
from speculative_tts.listening import sound
from speculative_tts.listening.answers import answered
from speculative_tts.listening.clips import Clips, Utterance
from speculative_tts.listening.design import assign, places
from speculative_tts.listening.key import (
    ANSWERS,
    SITE,
    Key,
    System,
    Trial,
    identity,
    public,
)
from speculative_tts.listening.p808 import export, require_method
from speculative_tts.provenance import provenance
from speculative_tts.schema.listen import ListenConfig, ListeningTest

AUDIO = "audio"
PAGE = ("index.html", "style.css", "test.js", "server.js")
MOST_SYSTEMS = 12  # of one test; who has more forgot to choose


@dataclass(frozen=True)
class Made:
    """A test that was written, and what the user must be told."""

    key: Key
    clips: int
    utterances: int
    remarks: tuple[str, ...]


def make(config: ListenConfig) -> Made:
    """Write the test of a configuration. Raises ValueError for runs that cannot make one."""
    folder = Path(config.folder)
    _refuse_answered(folder)
    if config.p808 is not None:
        require_method(config.test)
    rng = np.random.default_rng(config.seed)
    sources = _systems(config)
    said = _utterances(sources, config, rng)
    plan = assign(
        config.test,
        raters=config.raters,
        samples=config.samples,
        utterances=len(said),
        systems=len(sources),
        rng=rng,
    )
    clips = Clips(config.test, sources, said, rng)
    raters = [
        _with_checks([clips.trial(one, config.show_text) for one in heard], clips, config, turn)
        for turn, heard in enumerate(plan)
    ]
    key = Key(
        identity(clips.known, raters),
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
    if config.p808 is not None:
        export(folder / SITE / AUDIO, folder, key, config.p808)
    return Made(key, len(clips.known), len(said), tuple(remarks))


def _refuse_answered(folder: Path) -> None:
    answers = folder / ANSWERS
    if answered(answers):
        raise ValueError(
            f"{answers} holds answers to the test that is there; give another folder=<path>"
        )


def _systems(config: ListenConfig) -> list[Source]:
    """The systems to be heard, the baseline first."""
    found = find_runs(Path(config.runs))
    if config.list is not None:
        found += read_external(Path(config.list))
    names = {_name(one): one for one in found}
    if config.systems:
        found = list(
            {_name(one): one for want in config.systems for one in _named(want, names)}.values()
        )
    if len(found) > MOST_SYSTEMS:
        raise ValueError(
            f"{len(found)} systems are too many for one test ({MOST_SYSTEMS} at most); choose with "
            f"systems=[{_name(found[0])},{_name(found[1])}]"
        )
    if config.baseline is not None:
        first = _named(config.baseline, {_name(one): one for one in found})
        found = [*first, *(one for one in found if one not in first)]
    if len(found) < 2 and config.test not in (ListeningTest.mos, ListeningTest.smos):
        raise ValueError(f"test={config.test.name} compares systems, and there is one; give more")
    return [_labelled(one) for one in found]


def _system(source: Source) -> System:
    return System(
        source.label, str(source.folder.absolute()), source.run.get("system") != "external"
    )


def _name(source: Source) -> str:
    return source.folder.name


def _labelled(source: Source) -> Source:
    return dataclasses.replace(source, run=source.run | {"label": _name(source)})


def _named(wanted: str, there: dict[str, Source]) -> list[Source]:
    """The one system whose name is, or begins with, what is wanted."""
    fitting = [wanted] if wanted in there else [one for one in there if one.startswith(wanted)]
    if len(fitting) != 1:
        raise ValueError(
            f"systems: {wanted} names {len(fitting)} of the systems that are there; give "
            f"{'more of a name' if fitting else 'how one begins'}: {', '.join(sorted(there))}"
        )
    return [there[fitting[0]]]


def _utterances(
    sources: Sequence[Source], config: ListenConfig, rng: np.random.Generator
) -> list[Utterance]:
    """What every system spoke, in an order drawn at random."""
    by_id = [{one.id: one for one in source.samples} for source in sources]
    shared = [
        key
        for key in by_id[0]
        if all(key in one and readable(Path(one[key].audio)) for one in by_id)
    ]
    said = [_utterance([one[key] for one in by_id]) for key in shared]
    needs = {
        ListeningTest.smos: ("prompt", [one for one in said if one.prompt]),
        ListeningTest.mushra: ("recording", [one for one in said if one.recording]),
    }
    lacking, said = needs.get(config.test, ("audio", said))
    if not said or (config.checks and not any(one.recording for one in said)):
        what = lacking if not said else "recording for the attention checks (checks=0: none)"
        raise ValueError(
            f"no utterance that all of {', '.join(map(_name, sources))} spoke has a readable "
            f"{what}; give runs of one test list"
        )
    chosen = [said[i] for i in rng.permutation(len(said))]
    return chosen[: config.utterances]


def _utterance(samples: Sequence[Sample]) -> Utterance:
    first = samples[0]
    prompt, reference = (
        Path(path) if path and readable(Path(path)) else None
        for path in (first.prompt_audio, first.reference_audio)
    )
    audio = tuple(Path(one.audio) for one in samples)
    recorded = first.text if reference else None
    recording = reference or prompt
    return Utterance(first.id, first.text, first.speaker, audio, recording, recorded, prompt)


def _with_checks(
    trials: list[Trial], clips: Clips, config: ListenConfig, rater: int
) -> list[Trial]:
    """A rater's trials with checks among them, good and bad in turn.

    MUSHRA has its own in every trial: the hidden reference.
    """
    if config.test is ListeningTest.mushra:
        return trials
    result = list(trials)
    where = places(len(trials), config.checks)
    for i in reversed(range(config.checks)):
        result.insert(
            where[i], clips.check(rater + i, high=(rater + i) % 2 == 0, show_text=config.show_text)
        )
    return result


def _write_site(site: Path, key: Key, clips: Clips, loudness: float) -> list[str]:
    """Page, trials and sounds; returns remarks."""
    gains, peaks = {}, {}
    for name, made in clips.made.items():
        one = made()
        gains[name] = one.gain(loudness)
        peaks[name] = one.peak * gains[name]
    loudest = max(peaks, key=lambda name: peaks[name])
    softer = min(1.0, sound.PEAK / max(peaks[loudest], sound.PEAK))
    for stale in (site / AUDIO).glob("*.wav"):
        stale.unlink()
    for name, made in clips.made.items():
        one = made().times(gains[name] * softer)
        write_wave(site / AUDIO / name, one.wave, one.rate)
    page = resources.files("speculative_tts.listening") / "site"
    for name in PAGE:
        write_atomic(site / name, (page / name).read_bytes())
    write_atomic(site / "data.js", f"window.TEST = {json.dumps(public(key))};\n")
    if softer == 1:
        return []
    clip = key.clips[loudest]
    return [
        (
            f"all clips at {loudness + 20 * np.log10(softer):.1f} LUFS instead of {loudness:g}: "
            f"{clip.utterance} of {clip.system or clip.role.name} would clip"
        )
    ]
