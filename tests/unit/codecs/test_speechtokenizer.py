"""SpeechTokenizer as a codec; test_check holds it against the official class."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from speculative_tts.codecs.registry import BatchCodec, load_codec
from speculative_tts.codecs.speechtokenizer import SpeechTokenizer, SpeechTokenizerConfig

GOLDEN = Path(__file__).parents[2] / "golden" / "speechtokenizer"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files under the names that a release gives them."""
    folder = tmp_path_factory.mktemp("release")
    shutil.copy(GOLDEN / "config_snake.json", folder / "config.json")
    shutil.copy(GOLDEN / "SpeechTokenizer_snake.pt", folder / "SpeechTokenizer.pt")
    return folder


def test_as_a_codec_it_has_layers(release: Path) -> None:
    codec = load_codec("speechtokenizer", release)
    assert (codec.sample_rate, codec.token_rate, codec.n_codes) == (16_000, 50.0, 64)
    with np.load(GOLDEN / "speechtokenizer.npz") as golden:
        wave, codes = golden["snake/wav"], golden["snake/codes"]
        first = golden["snake/decoded_layer0"]
    assert np.array_equal(codec.encode(wave[0, 0]), codes[:, 0])
    assert codec.decode(codes[:, 0]).shape == (11 * 320,)
    assert np.abs(codec.decode(codes[0, 0]) - first[0, 0]).max() < 1e-4
    assert codec.encode(np.zeros(1, dtype=np.float32)).shape == (8, 1)
    assert codec.encode(np.zeros(0, dtype=np.float32)).shape == (8, 0)
    assert codec.decode(np.zeros((8, 0), dtype=np.int64)).shape == (0,)


def test_waves_of_any_lengths_are_encoded_together(release: Path) -> None:
    """Each as if alone: the recurrent layers of a shorter one end where it ends."""
    codec = load_codec("speechtokenizer", release)
    assert isinstance(codec, BatchCodec)
    rng = np.random.default_rng(0)
    waves = [rng.normal(0, 0.3, n).astype(np.float32) for n in (5000, 0, 320, 9999, 1)]
    together = codec.encode_many(waves)
    for wave, codes in zip(waves, together, strict=True):
        alone = codec.model.encode(torch.from_numpy(wave)[None, None])[:, 0] if len(wave) else None
        assert codes.shape == (8, -(-len(wave) // 320))
        assert alone is None or np.array_equal(codes, alone.numpy())


def test_it_goes_to_the_gpu_that_torch_sees(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU needs a third of real time to encode: 170 core-hours for LibriTTS."""
    places = []
    monkeypatch.setattr(SpeechTokenizer, "to", lambda self, place: places.append(place) or self)
    for there in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        load_codec("speechtokenizer", release)
    assert places == ["cuda", "cpu"]


def test_bad_codes_and_waves(release: Path) -> None:
    codec = load_codec("speechtokenizer", release)
    with pytest.raises(ValueError, match=r"codes must lie in \[0, 64\)"):
        codec.decode(np.array([[64]]))
    with pytest.raises(ValueError, match=r"codes of shape \(8, tokens\) are needed, not \(9, 1\)"):
        codec.decode(np.zeros((9, 1), dtype=np.int64))
    with pytest.raises(ValueError, match="a mono wave"):
        codec.encode(np.zeros((2, 10), dtype=np.float32))


def test_the_published_config_has_166_tensors(tmp_path: Path) -> None:
    values = json.loads((GOLDEN / "config_snake.json").read_text())
    values |= {"activation": "ELU", "n_filters": 64, "dimension": 1024, "semantic_dimension": 768}
    (tmp_path / "config.json").write_text(json.dumps(values))
    with torch.device("meta"):
        model = SpeechTokenizer(SpeechTokenizerConfig.read(tmp_path / "config.json"))
    assert len(model.state_dict()) == 166


def test_files_that_do_not_belong_together(release: Path, tmp_path: Path) -> None:
    values = json.loads((release / "config.json").read_text())
    shutil.copy(release / "SpeechTokenizer.pt", tmp_path)
    config = tmp_path / "config.json"
    for change, message in (
        ({"n_q": 9}, r"missing quantizer.vq.layers.8._codebook.cluster_size, .*embed"),
        ({"codebook_size": 32}, r"cluster_size is \(64,\) instead of \(32,\)"),
        ({"activation": "Tanh"}, "activation 'Tanh' is unknown; known: ELU, Snake"),
        ({"strides": None}, r"config\.json: strides is null; give a list"),
        ({"n_q": "eight"}, r"config\.json: n_q is .eight.; give a whole number"),
    ):
        config.write_text(json.dumps(values | change))
        with pytest.raises(ValueError, match=message):
            load_codec("speechtokenizer", tmp_path)
    config.unlink()
    with pytest.raises(
        ValueError, match=r"no file .*config\.json; give a folder with config\.json"
    ):
        load_codec("speechtokenizer", tmp_path)
