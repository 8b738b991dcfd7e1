"""Write lists for VERSA (wavlab-speech/versa), so that its metrics measure the same audio.

Each run gets a folder with `pred.scp` (lines `id path`, Kaldi's form), `gt.scp` (recordings of the
text, if the list has them), `spk.scp` (voice prompts) and `text` (`id words`); one `metrics.yaml`
has the metrics comparable to this package's. The printed commands pass the prompts as ground truth:
VERSA's `speaker` compares with that, and published similarities are to the prompt.
"""

import shlex
from collections.abc import Iterable
from pathlib import Path

from speculative_tts.evaluation.rows import ScoreRow
from speculative_tts.evaluation.sources import Source
from speculative_tts.files import write_atomic

METRICS = """\
- name: whisper_wer
  model_tag: large-v3
  beam_size: 1
  text_cleaner: whisper_en
- name: speaker
  model_tag: default
- name: pseudo_mos
  predictor_types: [utmos, dnsmos]
"""


def write(sources: Iterable[Source], folder: Path) -> list[str]:
    """Write lists and metrics; return a command for each run."""
    metrics = folder / "metrics.yaml"
    write_atomic(metrics, METRICS.encode())
    commands = []
    for source in sources:
        own = folder / source.folder.name
        _list(own / "pred.scp", ((one.id, one.audio) for one in source.samples))
        _list(own / "text", ((one.id, one.text) for one in source.samples))
        _list(own / "gt.scp", _present(source.samples, "reference_audio"))
        prompts = _list(own / "spk.scp", _present(source.samples, "prompt_audio"))
        command = ["python", "versa/bin/scorer.py", "--io", "soundfile"]
        places = {"score_config": metrics, "pred": own / "pred.scp", "text": own / "text"}
        if prompts == len(source.samples):  # VERSA leaves out what is not in every list
            places["gt"] = own / "spk.scp"
        for option, path in (places | {"output_file": own / "scores"}).items():
            command += [f"--{option}", str(path)]
        commands.append(shlex.join(command))
    return commands


def _present(samples: Iterable[ScoreRow], name: str) -> list[tuple[str, str]]:
    return [(one.id, path) for one in samples if (path := getattr(one, name))]


def _list(path: Path, rows: Iterable[tuple[str, str]]) -> int:
    """Write rows `id value` sorted by id, as Kaldi requires; return their number."""
    lines = []
    for key, value in sorted(rows):
        if len(key.split()) != 1 or len(value.splitlines()) > 1:
            raise ValueError(
                f"{path}: {key!r} has a blank in its id, or a line's end in its text or path, at "
                "which Kaldi's lists are cut; take it out of the list"
            )
        lines.append(f"{key} {Path(value).absolute() if path.suffix else value}")
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())
    return len(lines)
