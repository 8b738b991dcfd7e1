"""Files of VALL-E: checkpoints and folders read and written, and what is none."""

import pathlib
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from valle_golden import SMALL, small_valle, write_checkpoint

from speculative_tts.models.families.valle.checkpoint import Valle, load_valle, save_valle
from speculative_tts.models.families.valle.config import ValleConfig
from speculative_tts.models.families.valle.lm import ValleLM
from speculative_tts.models.prompt import Prompt
from speculative_tts.state_dicts import read_state_dict

pytestmark = pytest.mark.usefixtures("kernels")


def test_checkpoints_are_read_and_written(tmp_path: Path) -> None:
    valle = small_valle()
    write_checkpoint(tmp_path / "epoch-1.pt", valle)
    assert read_state_dict(tmp_path / "epoch-1.pt")[1]["exp_dir"] == pathlib.PosixPath("exp")
    loaded = load_valle(tmp_path / "epoch-1.pt")
    save_valle(loaded, tmp_path / "folder")
    for other in (loaded, load_valle(tmp_path / "folder")):
        assert other.config == valle.config
        assert all(t.equal(other.state()[name]) for name, t in valle.state().items())
    stored = (tmp_path / "folder" / "model.safetensors").stat().st_size
    assert (
        stored
        < 1.05 * 4 * sum(p.numel() for model in (valle.ar, valle.nar) for p in model.parameters())
        + 20_000
    )


def test_options_given_win_over_a_folders_own(tmp_path: Path) -> None:
    """A folder's options once won silently: a sweep over prefix modes ran one of them."""
    save_valle(small_valle(), tmp_path)
    assert load_valle(tmp_path).config.prefix_mode == 1
    given = load_valle(tmp_path, heads=4, prefix_mode=0).config
    assert (given.heads, given.prefix_mode) == (4, 0)
    with pytest.raises(ValueError, match=r"config.json: prefix_mode 3 is unknown"):
        load_valle(tmp_path, prefix_mode=3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "config.json is not a JSON object"),
        ("[]", r"config.json is not a JSON object but \[\]"),
        ('{"model_type": "valle", "dim": "wide"}', 'config.json: dim is "wide"; give 1 or more'),
        ('{"model_type": "valle", "norm_first": 1}', "norm_first is 1; give true or false"),
    ],
)
def test_a_config_that_is_none_is_told(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        load_valle(tmp_path)


@pytest.mark.parametrize("stage", [0, 1])
def test_heads_are_tied_only_if_all_are(stage: int) -> None:
    """One comparison for all once dropped a later head that had weights of its own."""
    valle = small_valle(replace(SMALL, quantizers=4))
    state = valle.state()
    assert ValleConfig.from_state(state, heads=2).share_embedding
    own = torch.randn(state[f"nar_predict_layers.{stage}.weight"].shape)
    state[f"nar_predict_layers.{stage}.weight"] = own
    loaded = Valle.from_state(state, heads=2)
    assert not loaded.config.share_embedding
    assert all(tensor.equal(state[name]) for name, tensor in loaded.state().items())


def test_tensors_that_do_not_fit_are_listed_in_one_line(tmp_path: Path) -> None:
    valle = small_valle()
    state = {f"module.{name}": tensor for name, tensor in valle.state().items()}
    for gone in ("ar_decoder.layers.0.linear1.bias", "nar_decoder.norm.norm.weight"):
        del state[f"module.{gone}"]
    state |= {"module.ar_language_embedding.weight": torch.zeros(3)}
    state["module.ar_text_position.alpha"] = torch.zeros(2)
    torch.save({"model": state, "nhead": 2}, tmp_path / "odd.pt")
    message = (
        "does not fit: missing ar_decoder.layers.0.linear1.bias, nar_decoder.norm.norm.weight; "
        r"unknown ar_language_embedding.weight; ar_text_position.alpha is \(2,\) instead of \(1,\);"
    )
    with pytest.raises(ValueError, match=message) as caught:
        load_valle(tmp_path / "odd.pt")
    assert "\n" not in str(caught.value)


class Harmful:
    """Would run code when unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("unpickled",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"model": {"ar_predict_layer.weight": torch.zeros(1)}, "nhead": 2},
            "has no tensor ar_text_embedding.*, ar_audio_embedding.*, nar_text_embedding",
        ),
        ({"model": {"a": 3}}, "holds no state dict"),
        ([1, 2], "holds a list; a state dict is needed"),
        ({"model": Harmful()}, r"is not readable as a checkpoint \(it holds a print\); it may"),
    ],
)
def test_files_that_are_no_checkpoint(
    tmp_path: Path, content: object, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(content, tmp_path / "a.pt", pickle_module=pickle)
    with pytest.raises(ValueError, match=message):
        load_valle(tmp_path / "a.pt")
    assert capsys.readouterr().out == ""


def test_what_must_be_given_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a.pt", small_valle(), heads=None)
    with pytest.raises(ValueError, match="does not say how many heads it has; give heads"):
        load_valle(tmp_path / "a.pt")
    with pytest.raises(ValueError, match="3 heads do not divide 16 dimensions"):
        load_valle(tmp_path / "a.pt", heads=3)
    lm = ValleLM(small_valle().ar)
    with pytest.raises(ValueError, match="the prompt has no codes"):
        lm.merged([1, 2], [])
    with pytest.raises(ValueError, match=r"text ids must lie in \[0, 9\)"):
        lm.merged([1, 9], [3])
    with pytest.raises(ValueError, match="make its folder with sst-import-valle"):
        lm.prompt_ids(Prompt("one"))
