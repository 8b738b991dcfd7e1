"""Training a target that reads phones, on a toy corpus: it listens, and exports what is decoded."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from killed_trainings import killed_at
from safetensors.torch import load_file

from speculative_tts.codecs.tiny import TOKEN_FEATURES, TinyCodec
from speculative_tts.corpora.codes import write_shard
from speculative_tts.models.families.merged_vocab import MergedVocabLM
from speculative_tts.models.phones import PhoneLayout
from speculative_tts.models.prompt import Prompt
from speculative_tts.records import read_jsonl
from speculative_tts.schema.common import Device
from speculative_tts.schema.train import TrainTargetConfig
from speculative_tts.text.phones import PHONES
from speculative_tts.training.data.pairs import IGNORED
from speculative_tts.training.devices import accelerator_for
from speculative_tts_makers.corpora.sentence_codes import SENTENCE_SCHEMA
from speculative_tts_makers.training.guided import GuidedLM, Look, Shape
from speculative_tts_makers.training.phones import Drawing, PhoneData, read_spoken, write
from speculative_tts_makers.training.sentences import SentenceRecipe, train_sentences

N_CODES = 48
SAID = PHONES[:12]  # phone p is always said as codes 4 p and on


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A codec and codes of two voices; phones last 2 or 3 codes."""
    folder = tmp_path_factory.mktemp("sentences")
    rng = np.random.default_rng(0)
    book = rng.normal(size=(N_CODES, TOKEN_FEATURES)).astype(np.float32)
    TinyCodec(book, np.ones(27, np.float32)).save(folder / "codec")
    for name, count in (("train-a", 60), ("train-b", 60), ("dev-a", 8)):
        rows = [row(rng, name, number) for number in range(count)]
        write_shard(rows, SENTENCE_SCHEMA, folder / f"codes/{name}.parquet")
    return folder


def row(rng: np.random.Generator, name: str, number: int) -> dict[str, object]:
    phones = rng.integers(len(SAID), size=4)
    lasts = rng.integers(2, 4, size=4)
    codes = [4 * int(p) + i for p, n in zip(phones, lasts, strict=True) for i in range(n)]
    ends = [4 * int(end) for end in np.cumsum(lasts)] + [4 * len(codes)]
    text = f"<{' '.join(SAID[p] for p in phones)} .>"
    return {
        "id": f"{name}-{number}", "speaker": name[-1], "split": name[:-2], "text": text,
        "words": "", "codes": codes, "phone_ends": ends, "seconds": 0.0,
    }  # fmt: skip


def recipe(prepared: Path, out: Path, **changes: object) -> SentenceRecipe:
    return replace(
        SentenceRecipe(
            prepared=str(prepared),
            out=str(out),
            shape=Shape(hidden=24, intermediate=32, layers=2, heads=4, kv_heads=2, guided=(0,)),
            drawing=Drawing(rows=8, pool=2, longest=24, longest_prompt=12, shortest=4),
            block=16, steps=6, warmup_steps=2, watch_every=3, save_every=2, dev=8, noise=0.1,
        ),
        **changes,
    )  # fmt: skip


def test_it_learns_to_listen_and_is_decoded_as_it_was_trained(
    prepared: Path, tmp_path: Path
) -> None:
    figures = train_sentences(
        recipe(prepared, tmp_path, steps=240, watch_every=120), accelerator_for(Device.cpu)
    )
    assert figures["dev_loss"] < 2.0 < figures["dev_loss_other_text"]
    model = MergedVocabLM.load(tmp_path / "target", dtype=torch.float32, device=torch.device("cpu"))
    layout = model.layout
    assert isinstance(layout, PhoneLayout)
    ids = model.prompt_ids(Prompt(f"<{SAID[3]} {SAID[5]} .>"))
    logits = model.prefill([model.prompt(ids)], model.cache(1, 64))
    assert int(logits.argmax()) == 12  # the first code of its first phone
    lm = GuidedLM(
        Shape(hidden=24, intermediate=32, layers=2, heads=4, kv_heads=2), layout.vocab_size
    )
    state = load_file(tmp_path / "target/model.safetensors")
    lm.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    hidden, _ = lm.model(lm.model.embed_tokens(torch.tensor([ids])), None)
    trained = lm.lm_head(hidden[0, -1])[: layout.speech_vocab_size]
    torch.testing.assert_close(logits[0], trained.detach(), atol=1e-4, rtol=1e-4)


def test_a_killed_training_ends_where_an_undisturbed_one_does(
    prepared: Path, tmp_path: Path
) -> None:
    train_sentences(recipe(prepared, tmp_path / "whole"), accelerator_for(Device.cpu))
    with pytest.raises(KeyboardInterrupt):
        train_sentences(
            recipe(prepared, tmp_path / "cut"), accelerator_for(Device.cpu), killed_at(3)
        )
    train_sentences(recipe(prepared, tmp_path / "cut"), accelerator_for(Device.cpu))
    whole, cut = (
        load_file(tmp_path / name / "target/model.safetensors") for name in ("whole", "cut")
    )
    assert all(whole[name].equal(cut[name]) for name in whole)


def test_a_time_limit_decides_the_number_of_steps(prepared: Path, tmp_path: Path) -> None:
    train_sentences(
        recipe(prepared, tmp_path, steps=100_000, seconds=1.0, watch_every=10**6),
        accelerator_for(Device.cpu),
    )
    rows = list(read_jsonl(tmp_path / "training/metrics.jsonl", "step"))
    steps = rows[-1]["step"]
    assert 1 <= steps < 100_000


def test_the_guide_is_the_weight_on_rows_of_the_phone() -> None:
    look = Look(torch.tensor([[-1, 0, 1, 1, -1]]), torch.tensor([[-1, -1, -1, -1, 0]]))
    q, k = torch.zeros(1, 2, 5, 4), torch.zeros(1, 2, 5, 4)
    alike = look.loss(q, k)  # all five positions weigh the same: phone 0 has a fifth, phone 1 two
    torch.testing.assert_close(alike, -torch.tensor([1 / 5, 2 / 5]).log().mean())


def test_a_sequence_is_written_as_it_is_read_when_decoding(prepared: Path) -> None:
    layout = replace(PhoneLayout.merged(N_CODES, PHONES), clock=(2.5,) * len(PHONES), block=16)
    voices = read_spoken(prepared / "codes", "train", layout)
    assert sorted(voices) == ["a", "b"]
    prompt, said = voices["a"][:2]
    inputs, targets, phone, spoken = write((prompt, said), layout)
    given = int(np.flatnonzero(targets != IGNORED)[0]) + 1
    texts = [voices["a"][i].rows.tolist() for i in (0, 1)]
    assert inputs[1 : 1 + len(texts[0]) + len(texts[1])].tolist() == texts[0] + texts[1]
    assert (given - 2) % 16 == 0
    assert inputs[given:].tolist() == [*prompt.codes, *said.codes]
    assert targets[-1] == layout.eos_id
    assert spoken[given - 1] == 0
    assert spoken[-1] == phone.max()
    assert (np.diff(spoken[given - 1 :]) >= 0).all()


def test_batches_are_a_function_of_their_number(prepared: Path) -> None:
    layout = replace(PhoneLayout.merged(N_CODES, PHONES), clock=(2.5,) * len(PHONES), block=16)
    drawing = Drawing(rows=4, pool=3, longest=24, longest_prompt=12, shortest=4)
    voices = read_spoken(prepared / "codes", "train", layout)
    one, two = (PhoneData(voices, layout, drawing, seed=3) for _ in range(2))
    two.batch(7, 1.0)
    assert one.batch(2, 1.0).inputs.equal(two.batch(2, 1.0).inputs)
    assert one.batch(2, 0.0).inputs.shape[1] <= one.batch(2, 1.0).inputs.shape[1]


def test_settings_of_other_architectures_are_refused() -> None:
    with pytest.raises(ValueError, match="compile and init"):
        SentenceRecipe.of(TrainTargetConfig(init="runs/x"))
