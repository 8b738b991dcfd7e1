"""Signatures change with what changes results, and with nothing else."""

import dataclasses
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from speculative_tts import provenance
from speculative_tts.native import library
from speculative_tts.runs import naming
from speculative_tts.runs.naming import run_name, settings
from speculative_tts.schema.common import CheckpointConfig, CodecConfig, ListConfig
from speculative_tts.schema.decode import (
    ALWAYS,
    READS,
    DecodeConfig,
    HeadsConfig,
    Kernels,
    RuntimeConfig,
    SamplingConfig,
    System,
    ViterbiConfig,
)
from speculative_tts.schema.drafters import HeadsDrafterConfig, LMDrafterConfig
from speculative_tts.schema.fields import Since, Whole
from speculative_tts.schema.rules import ExactRule, GroupRule, ToleranceRule


@pytest.fixture
def config(tmp_path: Path) -> DecodeConfig:
    for name in ("target", "draft", "codec"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(name.encode())
        (tmp_path / name / "config.json").write_text("{}")
    for name in ("prompt", "reference"):
        (tmp_path / f"{name}.wav").write_bytes(name.encode())
    row = {"prompt_audio": "prompt.wav", "reference_audio": "reference.wav"}
    (tmp_path / "list.jsonl").write_text(json.dumps(row) + "\n{}\n")
    return DecodeConfig(
        target=CheckpointConfig("t", str(tmp_path / "target")),
        draft=CheckpointConfig("d", str(tmp_path / "draft")),
        codec=CodecConfig("c", str(tmp_path / "codec")),
        data=ListConfig("l", str(tmp_path / "list.jsonl")),
        rule=ExactRule(),
        drafter=LMDrafterConfig(),
    )


@pytest.mark.parametrize(
    "file", ["target/model.safetensors", "draft/config.json", "prompt.wav", "reference.wav"]
)
def test_contents_change_it(config: DecodeConfig, tmp_path: Path, file: str) -> None:
    """A retrained model under its old name once looked like a finished run."""
    before = run_name(config)
    (tmp_path / file).write_text("something else")
    assert run_name(config) != before


def test_an_edited_list_changes_it(config: DecodeConfig, tmp_path: Path) -> None:
    before = run_name(config)
    with (tmp_path / "list.jsonl").open("a") as file:
        file.write('{"prompt_audio": "not/there.wav"}\n')
    assert run_name(config) != before


def test_names_and_places_of_the_same_contents_do_not(config: DecodeConfig, tmp_path: Path) -> None:
    for name in ("target", "prompt.wav", "reference.wav", "list.jsonl"):
        copy = shutil.copytree if name == "target" else shutil.copy
        (tmp_path / "moved").mkdir(exist_ok=True)
        copy(tmp_path / name, tmp_path / "moved" / name)
    moved = dataclasses.replace(
        config,
        target=CheckpointConfig("other", str(tmp_path / "moved" / "target")),
        data=ListConfig("other", str(tmp_path / "moved" / "list.jsonl")),
    )
    assert run_name(moved) == run_name(config)


@pytest.mark.parametrize("system", System)
def test_what_a_run_does_not_read_does_not_count(config: DecodeConfig, system: System) -> None:
    """Another draft makes no other run of the target alone, and need not exist for it."""
    base = dataclasses.replace(config, system=system, rule=GroupRule())
    for key in sorted({entry.name for entry in dataclasses.fields(config)} - settings(base).keys()):
        changed = {
            "draft": CheckpointConfig("x", "/nowhere"),
            "target": CheckpointConfig("x", "/nowhere"),
            "drafter": HeadsDrafterConfig(),
            "rule": ToleranceRule(),
            "sampling": SamplingConfig(temperature=0.5),
            "runtime": RuntimeConfig(threads=2),
            "heads": HeadsConfig(n=3),
            "viterbi": ViterbiConfig(top_k=9),
            "match": "0.3",
            "wandb": True,
            "out": "elsewhere",
            "source": "another",
            "baseline": False,
        }.get(key, 7)
        other = dataclasses.replace(base, **{key: changed})
        assert run_name(other).rpartition("-")[2] == run_name(base).rpartition("-")[2], key
    with pytest.raises(ValueError, match="/nowhere does not exist"):
        run_name(dataclasses.replace(config, draft=CheckpointConfig("x", "/nowhere")))


def test_every_setting_is_read_by_some_run() -> None:
    """Or changing it would change no name. `out` and `cache` are where, `match` is a search,
    `wandb` who is told, `plan` makes nothing; batches and workers of any number give the same.
    """
    read = {*ALWAYS, *(key for keys in READS.values() for key in keys)}
    read |= {*LMDrafterConfig().reads, *HeadsDrafterConfig().reads}
    unread = {"out", "cache", "match", "wandb", "batch_size", "workers", "plan"}
    assert {entry.name for entry in dataclasses.fields(DecodeConfig)} == read | unread
    assert READS.keys() == {*System}


@dataclass
class Later(DecodeConfig):
    """Settings of a later time: one was added, which was 4 for all runs before."""

    pause: Annotated[Whole, Since(4)] = 4


@dataclass
class Tolerant(ToleranceRule):
    """In a group one was added too."""

    slack: Annotated[Whole, Since(1)] = 1


def test_an_added_setting_keeps_the_names_of_finished_runs(
    config: DecodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed default is another value than before: runs that leave the setting out change."""
    monkeypatch.setitem(READS, config.system, (*READS[config.system], "pause"))
    later = Later(**vars(config))
    assert run_name(later) == run_name(config)
    for changed in (dataclasses.replace(later, pause=5), dataclasses.replace(later, lookahead=9)):
        assert run_name(changed).rpartition("-")[2] != run_name(config).rpartition("-")[2]
    before = dataclasses.replace(config, rule=ToleranceRule(beta=0.2))
    assert run_name(dataclasses.replace(config, rule=Tolerant(beta=0.2))) == run_name(before)
    slack = dataclasses.replace(config, rule=Tolerant(beta=0.2, slack=2))
    assert run_name(slack).rpartition("-")[2] != run_name(before).rpartition("-")[2]


def counted(config: DecodeConfig) -> dict[str, object]:
    """What the signature is taken of."""
    seen: list[dict[str, object]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(naming, "signature", lambda values: seen.append(values) or "0" * 8)
        run_name(config)
    return seen[0]


def test_a_changed_default_law_and_kernel_change_it(
    config: DecodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting counts by its value, whoever gave it; laws by their version; kernels resolved."""
    before = run_name(config)
    changed = dataclasses.replace(config, instrument=config.instrument + 1)  # the default moved
    assert run_name(changed) != before
    with monkeypatch.context() as patch:
        patch.setattr(naming, "LAWS", naming.LAWS + 1)
        assert run_name(config) != before
    with monkeypatch.context() as patch:
        patch.setattr(library, "kernel_label", lambda _: "native-other")
        assert run_name(config) != before
    torch_only = dataclasses.replace(config, runtime=RuntimeConfig(kernels=Kernels.torch))
    assert counted(torch_only)["runtime"]["kernels"] == "torch"  # type: ignore[index]


def test_provenance_is_json_and_says_where_a_number_comes_from(
    config: DecodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/sst-decode", "seed=0"])
    row = json.loads(json.dumps(provenance.provenance(config)))
    assert row["argv"] == ["sst-decode", "seed=0"]
    assert row["config"]["system"] == "speculative"
    assert row["config"]["rule"]["name"] == "exact"
    assert row["seed"] == 0
    assert row["libraries"]["torch"].startswith("2.")
    assert row["hardware"]["cores"] >= 1
    assert row["hardware"]["memory_gib"] > 0
    assert row["date"].endswith("+00:00")


def test_code_version_names_the_commit_of_a_checkout() -> None:
    found = provenance.code_version()
    checkout = (Path(provenance.__file__).parents[1] / ".git").exists()
    assert ("commit" in found) == checkout
    assert not checkout or len(found["commit"]) == 40


def test_an_installed_package_has_no_commit_of_a_repository_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    assert set(provenance.code_version()) == {"version"}


def test_a_processor_is_told_from_another_of_its_maker(tmp_path: Path) -> None:
    """Two generations of EPYC are both `AMD EPYC` to a guest, and differ by half in speed."""
    info = tmp_path / "cpuinfo"
    core = "cpu family\t: 25\nmodel\t\t: {}\nmodel name\t: AMD EPYC\nflags\t\t: fpu\n\n"
    info.write_text(core.format(1) + core.format(17))
    assert provenance.cpu_name(info) == "AMD EPYC, family 25 model 1"
    info.write_text("model name\t: A Core @ 2.5GHz\n")
    assert provenance.cpu_name(info) == "A Core @ 2.5GHz"
    info.write_text("processor\t: 0\nBogoMIPS\t: 50.00\n")  # ARM
    assert provenance.cpu_name(info) == provenance.cpu_name(tmp_path / "none")


def test_peak_memory_is_this_process_alone() -> None:
    """A large parent does not count: ru_maxrss would hand its peak on to the child."""
    held = bytearray(2**29)
    held[:: 2**12] = b"x" * len(held[:: 2**12])
    script = "from speculative_tts.provenance import peak_gib; print(peak_gib())"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert 0 < float(found.stdout) < 0.4 < provenance.peak_gib()


def test_weights_of_a_pickle_count_where_a_folder_has_no_others(tmp_path: Path) -> None:
    """Two SNAC codecs of one config.json were one codec to the caches."""
    (tmp_path / "config.json").write_text("{}")
    bare = provenance.content_hash(tmp_path)
    weights = tmp_path / "pytorch_model.bin"
    weights.write_bytes(b"one")
    first = provenance.content_hash(tmp_path)
    weights.unlink()
    weights.write_bytes(b"another")
    assert len({bare, first, provenance.content_hash(tmp_path)}) == 3
    (tmp_path / "model.safetensors").write_bytes(b"x")
    both = provenance.content_hash(tmp_path)
    weights.unlink()
    assert provenance.content_hash(tmp_path) == both  # beside others it is not read
