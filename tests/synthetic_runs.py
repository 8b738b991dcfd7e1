"""Run folders as sst-decode and sst-eval leave them, with made-up but plausible numbers.

A system's seconds, acceptance and word errors follow a small model of speculation, so that plots
of them have the shapes that real ones should have.
"""

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from settings_read import read_of

from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.summary import Bootstrap, summarise
from speculative_tts.records import write_jsonl
from speculative_tts.typed import write_json

WORDS = ["alpha", "bravo", "charlie", "delta", "echo", "one", "two", "three", "four", "five"]
TARGET_STEP, DRAFT_STEP, RATE = 0.0085, 0.0033, 16000
JUDGES = {
    "wer": {
        "id": "pocketsphinx-words",
        "version": "5.1.1",
        "options": {"label": "word grammar", "padding": 0.25},
    },
    "similarity": {"id": "ge2e", "version": "0.1.4", "options": {}},
    "dnsmos": {"id": "dnsmos-p808", "version": "0.0.1.1", "options": {}},
}
FINE: dict[str, Any] = {
    "target": {"name": "tiny_fine", "path": "tiny:target_fine"},
    "draft": {"name": "paper", "path": "tiny:draft"},
}
WER = {"draft": 0.16, "target": 0.03, "codec": 0.015, "reference": 0.004}


def config_of(system: str, rule: str, beta: float, lookahead: int, seed: int, **other: Any) -> Any:
    parts = {
        part: {"name": "tiny", "path": f"tiny:{part}"} for part in ("target", "draft", "codec")
    }
    return {
        **parts,
        "data": {"name": "tiny", "path": "tiny:testset/list.jsonl"},
        "drafter": {"name": "lm"},
        "rule": {"name": rule, "beta": beta},
        "sampling": {"temperature": 1.0, "top_k": 25},
        "runtime": {"device": "cpu", "dtype": "float32", "threads": 1, "warmup": 2},
        "system": system,
        "lookahead": lookahead,
        "seed": seed,
        "limit": None,
        "baseline": True,
        "instrument": 20,
        "out": "runs",
        **other,
    }


@contextmanager
def undrawn() -> Iterator[None]:
    """Let reports write blank figures: drawing takes nine tenths of a report's time."""
    files = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<svg/>", "pdf": b"%PDF"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("speculative_tts.reporting.write.draw", lambda _: files)
        yield


def make_run(
    runs: Path,
    system: str,
    *,
    rule: str = "exact",
    beta: float = 0.0,
    lookahead: int = 3,
    seed: int = 0,
    n: int = 40,
    date: str = "2026-11-21T04:00:00+00:00",
    scored: bool = True,
    groups: dict[str, Any] | None = None,
    **other: Any,
) -> Path:
    """Write one run folder; returns it. `groups` is rule.groups of the configuration."""
    config = config_of(system, rule, beta, lookahead, seed, **other)
    if groups is not None:
        config["rule"]["groups"] = groups
    tag = f"{rule}-b{beta:g}-k{lookahead}-" if system == "speculative" else ""
    digest = zlib.crc32(json.dumps(config).encode()) if other or groups else 0
    folder = runs / f"{system}-{tag}s{seed}-{digest:08x}"
    facts = {} if groups is None else {"groups": group_facts(groups["mean_size"])}
    write_run(folder, config, beta, n=n, scored=scored, date=date, facts=facts)
    return folder


def write_run(
    folder: Path,
    config: dict[str, Any],
    strength: float,
    *,
    n: int,
    scored: bool = True,
    date: str = "2026-11-21T04:00:00+00:00",
    facts: dict[str, Any] | None = None,
    judges: dict[str, Any] = JUDGES,
    sound: bool = True,
) -> None:
    """A run folder of a configuration; its rule lets pass what SSD with beta `strength` would."""
    seed, lookahead, system = config["seed"], config["lookahead"], config["system"]
    rng = np.random.default_rng([seed, lookahead, int(strength * 10), len(system)])
    rows = [_row(folder, i, config, strength, rng, judges) for i in range(n)]
    (folder / "audio").mkdir(parents=True)
    records = []
    for i, row in enumerate(rows):
        tone = 0.1 * np.sin(np.arange(RATE // 4) * (0.05 + 0.01 * i % 0.1))
        if sound:
            soundfile.write(folder / "audio" / f"{row.id}.wav", tone, RATE)
        record = {"id": row.id, "speaker": row.speaker, "text": row.text, "seed": seed}
        records.append(
            record | {"audio": f"audio/{row.id}.wav", "prompt_audio": f"audio/{row.id}.wav"}
        )
    write_json(folder / "config.json", read_of(config))
    write_jsonl(folder / "records.jsonl", records)
    write_json(folder / "provenance.json", provenance(system, seed, date) | (facts or {}))
    (folder / "DONE").touch()
    if scored:
        write_jsonl(folder / "scores.jsonl", (row.flat() for row in rows))
        summary = summarise(rows, Bootstrap(draws=500))
        made = {"run": {"complete": True}, "judges": judges, "limits": {"dnsmos_limit": 40}}
        made["argv"] = ["sst-eval", "runs=runs"]
        write_json(folder / "summary.json", made | summary)


def provenance(system: str, seed: int, date: str) -> dict[str, Any]:
    return {
        "argv": ["/somewhere/bin/sst-decode", "experiment=ssd/table1"],
        "seed": seed,
        "date": date,
        "code": {"version": "0.1.0", "commit": "0123456789abcdef", "dirty": False},
        "libraries": {"torch": "2.13.0", "numpy": "2.4.6"},
        "hardware": {"cpu": "Some CPU @ 2.00GHz", "cores": 2, "threads": 1, "gpus": []},
    }


def _row(
    folder: Path, i: int, config: dict[str, Any], beta: float, rng: Any, judges: dict[str, Any]
) -> ScoreRow:
    system, lookahead, seed = config["system"], config["lookahead"], config["seed"]
    text = " ".join(np.random.default_rng(i).choice(WORDS, 6))
    wrong = WER.get(system, 0.03 + 0.06 * beta)
    heard = [w if rng.random() > wrong else str(rng.choice(WORDS)) for w in text.split()]
    errors = sum(a != b for a, b in zip(heard, text.split(), strict=True))
    tokens = int(rng.integers(60, 90))
    counts: dict[str, Any] = {}
    if system not in {"codec", "reference"}:
        counts = {"tokens": tokens, "lm_seconds": tokens * TARGET_STEP * rng.uniform(0.95, 1.05)}
        counts["stop"] = "stop_id"
        counts |= {"codec_seconds": 0.002 * tokens, "flow_seconds": 0.0015 * tokens}
    if system == "swap":
        counts = {"tokens": tokens, "stop": "stop_id", "swapped": tokens // 2}
    if system in {"draft", "speculative", "multi_token", "uncached"}:
        counts["baseline_tokens"], counts["baseline_seconds"] = tokens, counts["lm_seconds"]
    if system == "uncached":
        counts["lm_seconds"] *= 3.0
    if system == "multi_token":
        counts["lm_seconds"] *= 1.1 / config["heads"]["n"]
    if system == "draft":
        counts["lm_seconds"] = tokens * DRAFT_STEP
    if system == "speculative":
        counts |= _speculation(tokens, beta, lookahead, rng, observed=i < 20)
    natural = "utmos" if "utmos" in judges else "dnsmos"
    return ScoreRow(
        id=f"utt{i:03d}",
        speaker=f"speaker{i % 4}",
        seed=seed,
        text=text,
        audio=str(folder / "audio" / f"utt{i:03d}.wav"),
        columns={
            "grammar": "words",
            "hypothesis": " ".join(heard),
            "words": 6,
            "hits": 6 - errors,
            "substitutions": errors,
            "deletions": 0,
            "insertions": 0,
            "first_word_lost": int(heard[0] != text.split()[0]),
            "last_words_lost": 0,
            "seen": i % 4 < 3,
            "characters": len(text),
            "character_substitutions": 3 * errors,
            "character_deletions": 0,
            "character_insertions": 0,
            "similarity": float(np.clip(0.82 + 0.03 * rng.standard_normal(), 0, 1)),
            "similarity_floor": 0.6,
            natural: float(3.1 + 0.1 * rng.standard_normal()) if i % 2 else None,
            "audio_seconds": tokens / 25,
            "reference_seconds": tokens / 25,
            **counts,
        },
    )


def _speculation(
    tokens: int, beta: float, lookahead: int, rng: Any, *, observed: bool
) -> dict[str, Any]:
    drafted, accepted = [0] * lookahead, [0] * lookahead
    emitted = rounds = 0
    while emitted < tokens:
        rounds += 1
        for depth in range(lookahead):
            drafted[depth] += 1
            if rng.random() > 0.62 - 0.02 * depth + 0.6 * beta:
                break
            accepted[depth] += 1
            emitted += 1
        emitted += 1
        for later in range(depth + 1, lookahead):
            drafted[later] += 1
    verify = TARGET_STEP * (1 + 0.03 * lookahead)
    split: dict[str, Any] = {"draft_seconds": None}
    if observed:
        split = {
            "draft_seconds": rounds * lookahead * DRAFT_STEP,
            "verify_seconds": rounds * verify,
            "accept_seconds": rounds * 0.0004,
            "tv": [d * (0.35 * beta + 0.02 * beta * k) for k, d in enumerate(drafted)],
            "kl": [d * 0.5 * beta for d in drafted],
            "positions": drafted,
        }
    return split | {
        "lm_seconds": rounds * (lookahead * DRAFT_STEP + verify),
        "rounds": rounds,
        "drafted": sum(drafted),
        "accepted": sum(accepted),
        "drafted_per_position": drafted,
        "accepted_per_position": accepted,
        "residuals": rounds - accepted[-1],
        "bonuses": accepted[-1],
        "residual_fallbacks": 0,
    }


def make_ssd_runs(runs: Path, n: int = 40, seeds: tuple[int, ...] = (0,)) -> None:
    """All runs of the SSD report."""
    for seed in seeds:
        for system in ("target", "draft", "codec", "reference"):
            make_run(runs, system, n=n, seed=seed)
        for beta in (0.0, 0.1, 0.2, 0.3, 0.4):
            make_run(runs, "speculative", rule="tolerance", beta=beta, n=n, seed=seed)
        for size, beta in ((4.5, 0.05), (10.0, 0.1), (40.0, 0.2), (140.0, 0.3)):
            groups = groups_of(size)
            make_run(runs, "speculative", rule="group", beta=beta, n=n, seed=seed, groups=groups)
        for k in (1, 2, 3, 4, 6, 8):
            make_run(runs, "speculative", lookahead=k, n=n, seed=seed)
            if k != 3:
                make_run(
                    runs, "speculative", rule="tolerance", beta=0.4, lookahead=k, n=n, seed=seed
                )


def group_facts(size: float) -> dict[str, Any]:
    likeness = {"spearman": 0.27, "percentile": 22.0}
    return {
        "theta": 0.9 - 0.005 * size,
        "groups": 2000,
        "mean_size": size,
        "median_size": size,
        "max_size": int(4 * size),
        "singletons": 0.04,
        "bytes": 177504,
        "likeness": likeness,
    }


def groups_of(size: float, source: str = "embedding") -> dict[str, Any]:
    plain = {"theta": None, "cap": None, "weights": "equal", "path": None}
    return {**plain, "source": source, "mean_size": size}


def make_pcg_runs(runs: Path, n: int = 12, seeds: tuple[int, ...] = (0, 1, 2)) -> None:
    """All runs of the PCG report; groups of a size behave like SSD with `strength`."""
    strength = {1.0: 0.0, 4.5: 0.1, 10.3: 0.2, 25.0: 0.3, 40.0: 0.35, 140.0: 0.5}
    for seed in seeds:
        for system in ("target", "draft"):
            make_run(runs, system, n=n, seed=seed)
        make_run(runs, "speculative", n=n, seed=seed)
        for beta in (0.1, 0.2, 0.3, 0.4):
            make_run(runs, "speculative", rule="tolerance", beta=beta, n=n, seed=seed)
        for size, beta in strength.items():
            groups = groups_of(size)
            make_run(runs, "speculative", rule="group", beta=beta, n=n, seed=seed, groups=groups)
            make_run(runs, "swap", rule="group", n=n, seed=seed, groups=groups)
        mel = groups_of(60.0, "mel")
        make_run(runs, "speculative", rule="group", beta=0.2, n=n, seed=seed, groups=mel)
    for k in (1, 2, 4, 6, 8):
        make_run(runs, "speculative", lookahead=k, n=n)
        make_run(runs, "speculative", rule="tolerance", beta=0.3, lookahead=k, n=n)
        make_run(
            runs, "speculative", rule="group", beta=0.35, lookahead=k, n=n, groups=groups_of(40.0)
        )
