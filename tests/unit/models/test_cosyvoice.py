"""CosyVoice folders: both layouts, both versions, what training adds, and what is wrong."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from cosyvoice_folders import BACKBONE, write_merged, write_official
from torch import Tensor

from speculative_tts.models.families.cosyvoice_export import write_checkpoint
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.families.registry import (
    cosyvoice,
    family_of,
    load_layout,
    load_speech_lm,
)
from speculative_tts.models.prompt import Prompt
from speculative_tts.schema.common import CheckpointConfig

pytestmark = pytest.mark.usefixtures("kernels")

CPU = torch.device("cpu")
CODES = 40


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """official (version 2), merged (the same weights) and three (version 3)."""
    root = tmp_path_factory.mktemp("cosyvoice")
    write_official(root / "official", CODES)
    write_merged(root / "merged", root / "official")
    write_official(root / "three", CODES, version=3)
    return root


def load(folder: Path) -> MergedVocabLM:
    return cosyvoice.load(folder, dtype=torch.float32, device=CPU)


@torch.inference_mode()
def logits(model: MergedVocabLM, text: str = "hello the world") -> Tensor:
    """After a prompt, and after three more codes."""
    prompt = model.prompt(model.prompt_ids(Prompt(text, "the", torch.arange(5))))
    cache = model.cache(1, len(prompt) + 3)
    first = model.prefill([prompt], cache)
    more = model.extend(torch.tensor([[1, 2, 3]]), cache, torch.tensor([len(prompt)]))
    return torch.cat([first, more[0]])


def test_the_folder_says_what_it_is(folders: Path) -> None:
    for name in ("official", "merged", "three"):
        assert family_of(folders / name).name == "cosyvoice"
    layout = load_layout(CheckpointConfig("x", str(folders / "official")))
    assert (layout.n_codes, layout.stop_ids) == (CODES, (40, 41, 42))
    assert layout.sampling["ras_window"] == 10
    assert layout.limits("hello the world", 0, 2, 20) == (14, 140)  # 7 text ids


def test_merged_vocabulary_gives_the_same_logits(folders: Path) -> None:
    one, other = load(folders / "official"), load(folders / "merged")
    assert one.layout.shared == other.layout.shared
    torch.testing.assert_close(logits(one), logits(other), atol=1e-5, rtol=0)


def test_what_training_adds_is_ignored(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "official", tmp_path / "trained")
    state = torch.load(tmp_path / "trained/llm.pt")
    torch.save({**state, "epoch": 3, "step": 1200}, tmp_path / "trained/llm.pt")
    trained = logits(load(tmp_path / "trained"))
    torch.testing.assert_close(trained, logits(load(folders / "official")))


def test_version_3_is_told_by_its_keys(folders: Path) -> None:
    model = load(folders / "three")
    layout = model.layout
    assert isinstance(layout, cosyvoice.CosyVoiceLayout)
    assert (layout.version, layout.n_codes, len(layout.stop_ids)) == (3, CODES, 200)
    assert (layout.sos_id, layout.eos_id, layout.task_id, layout.fill_id) == (40, 41, 42, 43)
    assert logits(model, "be kind<|endofprompt|>hello").shape == (4, CODES + 200)
    with pytest.raises(ValueError, match=r"no <\|endofprompt\|> in the text of a CosyVoice 3"):
        logits(model)
    assert len(layout.encode("[AA0][ǜ]<|endofsystem|>")) == 3


SAID = "You are a helpful assistant.<|endofprompt|>"


def test_an_instruction_comes_before_every_prompts_text(folders: Path) -> None:
    """So test lists and corpora, which have none, go with CosyVoice 3."""
    config = CheckpointConfig("three", str(folders / "three"), instruction=SAID)
    layout, plain = load_layout(config), cosyvoice.read_layout(folders / "three")
    assert layout.text_ids("hello", "the world") == plain.text_ids("hello", SAID + "the world")
    assert layout.text_ids("hello") == plain.text_ids("hello", SAID)
    assert layout.limits("hello", 0, 2, 20) == plain.limits("hello", 0, 2, 20)
    own = "Whisper.<|endofprompt|>the"
    assert layout.text_ids("hello", own) == plain.text_ids("hello", own)
    model = load_speech_lm(config, dtype=torch.float32, device=CPU)
    assert model.layout.text_ids("hello") == layout.text_ids("hello")
    assert isinstance(model, MergedVocabLM)
    assert logits(model, "hello").shape == (4, CODES + 200)


@pytest.mark.parametrize(
    ("name", "instruction", "message"),
    [
        ("official", SAID, "is for CosyVoice 3, the target is CosyVoice 2; leave it out"),
        ("three", "Be kind.", r"'Be kind.' does not end with <\|endofprompt\|>; add it"),
    ],
)
def test_an_instruction_that_does_not_fit(
    folders: Path, name: str, instruction: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_layout(CheckpointConfig(name, str(folders / name), instruction=instruction))


@pytest.mark.parametrize("name", ["official", "merged"])
def test_a_draft_is_written_as_its_source_is_laid_out(
    folders: Path, tmp_path: Path, name: str
) -> None:
    source = folders / name
    state = dict(cosyvoice.read_checkpoint(source).state)
    write_checkpoint(tmp_path / "same", source, state, [0, 1, 2, 3])
    torch.testing.assert_close(logits(load(tmp_path / "same")), logits(load(source)))
    if name == "official":
        again = torch.load(tmp_path / "same/llm.pt", weights_only=True)
        before = torch.load(source / "llm.pt", weights_only=True)
        assert again.keys() == before.keys()
        assert all(torch.equal(again[key], before[key]) for key in before)


def broken(folders: Path, tmp_path: Path, fault: str) -> Path:
    folder = tmp_path / "broken"
    shutil.copytree(folders / "official", folder)
    path = folder / "llm.pt"
    state = torch.load(path)
    if fault == "tokenizer":
        (folder / BACKBONE / "merges.txt").unlink()
    elif fault == "backbone":
        shutil.rmtree(folder / BACKBONE)
    elif fault == "yaml":
        (folder / "cosyvoice2.yaml").rename(folder / "cosyvoice3.yaml")
        text = (folder / "cosyvoice3.yaml").read_text().replace("Qwen2LM", "CosyVoice3LM")
        (folder / "cosyvoice3.yaml").write_text(text)
    elif fault == "bias":
        torch.save({k: v for k, v in state.items() if k != "llm_decoder.bias"}, path)
    elif fault == "layers":
        torch.save({k: v for k, v in state.items() if ".layers.3." not in k}, path)
    elif fault == "cut":
        path.write_bytes(path.read_bytes()[:1000])
    elif fault == "flow":
        torch.save({"encoder.weight": torch.zeros(2)}, path)
    return folder


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("tokenizer", "no text tokenizer in .*looked for vocab.json and merges.txt"),
        ("backbone", "no CosyVoice-BlankEN/config.json in .*looked for llm.pt"),
        ("yaml", "mixes versions: cosyvoice3.yaml is of CosyVoice 3"),
        ("bias", "mixes CosyVoice 2 and 3: llm_embedding present, llm_decoder.bias absent"),
        ("layers", "has 3 layers, its CosyVoice-BlankEN/config.json says 4"),
        ("cut", r"is torn, or of another program\); copy it again"),
        ("flow", "has no tensor speech_embedding.weight"),
    ],
)
def test_what_is_wrong_is_said(folders: Path, tmp_path: Path, fault: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        load(broken(folders, tmp_path, fault))
    assert "\n" not in str(raised.value)


def test_a_part_of_a_larger_model_is_said(folders: Path, tmp_path: Path) -> None:
    """Lightning's names begin with the field that holds the model: "it is something else"."""
    folder = shutil.copytree(folders / "official", tmp_path / "lightning")
    state = torch.load(folder / "llm.pt")
    torch.save({"state_dict": {f"model.{k}": v for k, v in state.items()}}, folder / "llm.pt")
    with pytest.raises(
        ValueError, match=r"has model\.speech_embedding\.weight in place of speech_"
    ):
        load(folder)


def test_another_folder_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"looked for .*llm\.pt .* and CosyVoice-BlankEN"):
        family_of(tmp_path)


def test_the_sampler_of_the_folder_is_read(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "official", tmp_path / "own")
    path = tmp_path / "own/cosyvoice2.yaml"
    path.write_text(path.read_text().replace("win_size: 10", "win_size: 7"))
    assert cosyvoice.read_layout(tmp_path / "own").sampling["ras_window"] == 7
    path.write_text("llm: [")
    with pytest.raises(ValueError, match="is not YAML"):
        cosyvoice.read_layout(tmp_path / "own")
    path.unlink()
    assert cosyvoice.read_layout(tmp_path / "own").sampling["ras_window"] == 10


def test_groups_get_the_codes_of_either_layout(folders: Path) -> None:
    state = torch.load(folders / "official/llm.pt")
    for name in ("official", "merged"):
        table = cosyvoice.code_embedding(folders / name)
        torch.testing.assert_close(table, state["speech_embedding.weight"][:CODES])


def test_config_of_a_draft_keeps_the_rest(folders: Path, tmp_path: Path) -> None:
    state = dict(cosyvoice.read_checkpoint(folders / "official").state)
    write_checkpoint(tmp_path / "d", folders / "official", state, [0, 3])
    config = json.loads((tmp_path / "d" / BACKBONE / "config.json").read_text())
    before = json.loads((folders / "official" / BACKBONE / "config.json").read_text())
    assert config == before | {"num_hidden_layers": 2}
