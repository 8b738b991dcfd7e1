"""A codec's postnet: its formula, streams, storage, and that it learns what neighbours tell."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from safetensors.numpy import load_file, save_file
from torch import nn

from speculative_tts.assets import resolve
from speculative_tts.codecs import world
from speculative_tts.codecs.postnet import NEIGHBOURS, Postnet
from speculative_tts.codecs.tiny import TOKEN_FEATURES, ResidualTinyCodec, TinyCodec, stack_frames
from speculative_tts_makers.corpora.postnet import (
    UNITS,
    decoded_and_true,
    train_postnet,
    with_postnet,
)

SIZE = 6


def some(size: int = SIZE, seed: int = 0) -> Postnet:
    rng = np.random.default_rng(seed)
    shapes = [(UNITS, (2 * NEIGHBOURS + 1) * size), (UNITS,), (size, UNITS), (size,)]
    return Postnet(
        *((0.1 * rng.normal(size=s)).astype(np.float16).astype(np.float32) for s in shapes)
    )


def codec(postnet: Postnet | None) -> TinyCodec:
    entries = np.random.default_rng(1).normal(size=(16, TOKEN_FEATURES)).astype(np.float16)
    return TinyCodec(entries.astype(np.float32), np.full(27, 2, np.float32), postnet)


def walks(steps: int, share: float, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rounded values and values that follow on their neighbours by `share` (0: on none)."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((40, steps, SIZE), dtype=np.float32)
    for t in range(1, steps):
        truth[:, t] = share * truth[:, t - 1] + np.sqrt(1 - share**2) * rng.normal(size=(40, SIZE))
    return [(np.round(one), one) for one in truth]


def error(pairs: list[tuple[np.ndarray, np.ndarray]], postnet: Postnet | None = None) -> float:
    better = [(postnet(said) if postnet else said, truth) for said, truth in pairs]
    return float(np.mean([np.square(said - truth).mean() for said, truth in better]))


def test_a_token_gets_what_it_and_its_neighbours_tell() -> None:
    """The formula, token by token and input by input; at the ends the outermost token twice."""
    tokens = np.random.default_rng(2).normal(size=(5, SIZE)).astype(np.float32)
    net = some()
    for t in range(5):
        heard = [
            x for p in range(t - NEIGHBOURS, t + NEIGHBOURS + 1) for x in tokens[min(max(p, 0), 4)]
        ]
        units = [
            max(0.0, sum(w * x for w, x in zip(row, heard, strict=True)) + b)
            for row, b in zip(net.inner, net.inner_bias, strict=True)
        ]
        wanted = [
            tokens[t, i]
            + sum(w * u for w, u in zip(net.outer[i], units, strict=True))
            + net.outer_bias[i]
            for i in range(SIZE)
        ]
        assert net(tokens)[t] == pytest.approx(wanted, abs=1e-4)
    assert net(tokens[:0]).shape == (0, SIZE)


def test_later_tokens_change_no_bit_of_earlier_ones() -> None:
    tokens = np.random.default_rng(3).normal(size=(40, TOKEN_FEATURES)).astype(np.float32)
    net = some(TOKEN_FEATURES)
    whole = net(tokens)
    for end in range(1, 40):
        assert (net(tokens[:end])[: end - NEIGHBOURS] == whole[: end - NEIGHBOURS]).all()


@pytest.mark.parametrize(("postnet", "waits"), [(True, 8), (False, 7)])
def test_pieces_of_a_stream_are_the_whole(postnet: bool, waits: int) -> None:
    """A postnet hears a token further, and so waits for one more."""
    made = codec(some(TOKEN_FEATURES) if postnet else None)
    codes = np.random.default_rng(4).integers(0, 16, 23)
    stream, pieces, first = made.speaking(codes[:0]), [], 0
    for heard in range(1, 24):
        pieces += stream.ready(codes[:heard], ended=heard == 23)
        first = first or (heard if pieces else 0)
    assert first == waits
    assert len(pieces) > 2
    assert (np.concatenate(pieces) == made.decode(codes)).all()


def test_it_is_stored_with_its_codec(tmp_path: Path) -> None:
    made, bare = codec(some(TOKEN_FEATURES)), codec(None)
    made.save(tmp_path / "made")
    bare.save(tmp_path / "bare")
    codes = np.arange(16)
    loaded = TinyCodec.load(tmp_path / "made")
    assert (loaded.decode_features(codes) == made.decode_features(codes)).all()
    assert not np.allclose(made.decode_features(codes), bare.decode_features(codes))
    assert TinyCodec.load(tmp_path / "bare").postnet is None
    assert (loaded.encode_features(bare.decode_features(codes)) == codes).all()


def test_a_codec_without_one_is_of_the_first_format(tmp_path: Path) -> None:
    """Versions that know no postnet read it, and refuse one with a postnet."""
    for made, version in ((codec(None), 1), (codec(some(TOKEN_FEATURES)), 2)):
        made.save(tmp_path / str(version))
        meta = json.loads((tmp_path / str(version) / "codec.json").read_text())
        assert meta["format_version"] == version


@pytest.mark.parametrize("damage", ["nan", "size", "gone", "all gone", "scalar"])
def test_a_damaged_one_is_refused(tmp_path: Path, damage: str) -> None:
    codec(some() if damage == "size" else some(TOKEN_FEATURES)).save(tmp_path)
    arrays = load_file(tmp_path / "codec.safetensors")
    if damage == "nan":
        arrays["postnet.outer_bias"][3] = np.nan
    elif damage == "gone":
        del arrays["postnet.outer_bias"]
    elif damage == "all gone":
        arrays = {name: array for name, array in arrays.items() if "postnet" not in name}
    elif damage == "scalar":
        arrays["postnet.inner_bias"] = np.array(1.0, np.float16)
    save_file(arrays, tmp_path / "codec.safetensors")
    with pytest.raises(ValueError, match=r"its postnet is damaged; give tiny:codec"):
        TinyCodec.load(tmp_path)


def test_it_learns_what_neighbours_tell_and_nothing_where_they_tell_nothing() -> None:
    """Held out: less than 0.9 of the error where values follow on their neighbours, else all of it.

    The control is white noise, of which a token's own rounded value says nothing more either.
    """
    slow = train_postnet(walks(60, 0.95, seed=0), steps=300, seed=0)
    assert error(walks(60, 0.95, seed=1), slow) < 0.9 * error(walks(60, 0.95, seed=1))
    white = train_postnet(walks(60, 0.0, seed=0), steps=300, seed=0)
    assert error(walks(60, 0.0, seed=1), white) > 0.95 * error(walks(60, 0.0, seed=1))


def test_a_seed_says_which_one() -> None:
    """Whatever torch drew before; and it is what storage keeps of it."""
    first = train_postnet(walks(60, 0.95, seed=0), steps=5, seed=1).arrays
    torch.rand(3)
    again = train_postnet(walks(60, 0.95, seed=0), steps=5, seed=1).arrays
    other = train_postnet(walks(60, 0.95, seed=0), steps=5, seed=2).arrays
    assert all((first[name] == again[name]).all() for name in first)
    assert all((first[name] != other[name]).any() for name in first)
    assert all((array == array.astype(np.float16)).all() for array in first.values())


def test_an_utterance_does_not_hear_the_next_one() -> None:
    """Utterances of one token have themselves for neighbours, whatever lies behind them."""
    alone = [
        (np.full((1, SIZE), v, np.float32), np.full((1, SIZE), -v, np.float32)) for v in (1, 2)
    ]
    heard = []

    def listen(self: nn.Sequential, given: torch.Tensor) -> torch.Tensor:
        heard.append(given.detach())
        return forward(self, given)

    forward = nn.Sequential.forward
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Sequential, "forward", listen)
        train_postnet(alone * 30, steps=3, seed=0)
    assert len(heard) == 3
    for given in heard:
        assert (given == given[:, :1]).all()


def test_a_residual_codec_learns_by_each_number_of_layers() -> None:
    rng = np.random.default_rng(5)
    books = rng.normal(size=(3, 8, TOKEN_FEATURES)).astype(np.float32)
    layered = ResidualTinyCodec(books, np.ones(27, np.float32))
    features = [rng.normal(size=(20, 27))]
    pairs = list(decoded_and_true(layered, features))
    codes = layered.encode_features(features[0])
    assert len(pairs) == 3
    for layers, (said, truth) in enumerate(pairs, start=1):
        assert (said == layered.look_up(codes[:layers]).astype(np.float32)).all()
        assert (truth == pairs[0][1]).all()
    assert with_postnet(layered, features, 0, seed=0) is layered
    assert with_postnet(layered, features, 2, seed=0).postnet is not None


@pytest.mark.parametrize(
    ("name", "kind"),
    [("codec", TinyCodec), ("codec_fine", TinyCodec), ("codec_residual", ResidualTinyCodec)],
)
def test_those_that_ship_come_nearer_to_recordings(
    name: str, kind: type[TinyCodec] | type[ResidualTinyCodec]
) -> None:
    """Of the list, which none of them has heard: at least a twentieth of the squared error less."""
    shipped, ground = kind.load(resolve(f"tiny:{name}")), resolve("tiny:testset")
    assert shipped.postnet
    errors = []
    for line in (ground / "list.jsonl").read_text().splitlines()[::60]:
        wave = soundfile.read(ground / json.loads(line)["reference_audio"], dtype="float32")[0]
        features = world.frame_features(world.analyse(wave))
        truth, codes = stack_frames(features, shipped.weights), shipped.encode_features(features)
        said = shipped.look_up(codes).astype(np.float32)
        errors.append([np.square(s - truth).mean() for s in (said, shipped.postnet(said))])
    without, mended = np.mean(errors, 0)
    assert mended < 0.95 * without
