import pytest
import torch
from small_target import random_target

from speculative_tts.training.checkpoint import build_model
from speculative_tts.training.inherit import (
    check_layers,
    draft_names,
    inherit_config,
    inherit_tensors,
    trained_parameters,
)

IDS = torch.tensor([[27, 24, 28, 3, 7, 1]])


def parts(family: str, *, tied: bool):
    model = random_target(family, tied=tied)
    tensors = {k: v.clone() for k, v in model.state_dict().items()}
    if tied:
        del tensors["lm_head.weight"]  # as in a saved checkpoint
    return model, model.config.to_dict(), tensors


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_every_tensor_is_the_targets_of_its_layer(family, tied):
    _, config, tensors = parts(family, tied=tied)
    draft = inherit_tensors(config, tensors, [0, 2, 3])
    per_layer = sum(name.startswith("model.layers.0.") for name in tensors)
    assert len(draft) == len(tensors) - per_layer
    for name, tensor in draft.items():
        source = name.replace("layers.2.", "layers.3.").replace("layers.1.", "layers.2.")
        assert torch.equal(tensor, tensors[source]), name
    assert ("lm_head.weight" in draft) is not tied
    assert any(name.endswith("q_proj.bias") for name in draft) is (family == "qwen2")


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_all_layers_give_the_targets_logits(family, tied):
    model, config, tensors = parts(family, tied=tied)
    layers = [0, 1, 2, 3]
    inherited = inherit_tensors(config, tensors, layers)
    draft = build_model(inherit_config(config, layers), inherited, torch.float32)
    with torch.no_grad():
        assert torch.equal(draft(IDS).logits, model(IDS).logits)


def test_untied_draft_of_a_tied_target_starts_with_the_same_function():
    model, config, tensors = parts("llama", tied=True)
    layers = [0, 1, 2, 3]
    untied = inherit_config(config, layers, untie=True)
    draft = build_model(untied, inherit_tensors(config, tensors, layers, untie=True), torch.float32)
    assert not draft.config.tie_word_embeddings
    with torch.no_grad():
        torch.testing.assert_close(draft(IDS).logits, model(IDS).logits)


def test_dtype_is_kept():
    _, config, tensors = parts("qwen2", tied=False)
    half = {name: tensor.half() for name, tensor in tensors.items()}
    draft = inherit_tensors(config, half, [1])
    assert {tensor.dtype for tensor in draft.values()} == {torch.float16}


def test_sliding_windows_stay_with_their_layers():
    _, config, _ = parts("qwen2", tied=False)
    config = {k: v for k, v in config.items() if k != "layer_types"}
    config |= {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 3}
    assert inherit_config(config, [0, 3])["layer_types"] == ["full_attention", "sliding_attention"]


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "at least one"),
        ([0, 4], "layer 4 is not in the target, its layers are 0 to 3; give layers="),
        ([-1], "layer -1 is not in the target"),
        ([1, 1], "twice"),
        ([2, 0], "out of order; name them as"),
    ],
)
def test_bad_layers(layers, message):
    with pytest.raises(ValueError, match=message):
        check_layers(layers, 4)


def test_other_architectures_are_refused():
    with pytest.raises(ValueError, match="model_type 'gpt2' cannot be inherited"):
        inherit_config({"model_type": "gpt2", "num_hidden_layers": 2}, [0])


def test_paper_policy_trains_the_first_layers_and_the_head():
    _, _, tensors = parts("qwen2", tied=False)
    names = draft_names(tensors, [0, 2, 3])
    policy = {"train_layers": 1, "train_head": True, "train_embeddings": False}
    trained = trained_parameters(names, **policy)
    assert {*trained} == {n for n in names if n.startswith(("model.layers.0.", "lm_head."))}
    with_embeddings = trained_parameters(names, **policy | {"train_embeddings": True})
    assert set(with_embeddings) - set(trained) == {"model.embed_tokens.weight"}


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"train_layers": 3}, "train_layers 3 is not in 0 to 2"),
        ({"train_layers": 0, "train_head": False}, "nothing is trained"),
    ],
)
def test_bad_policies(policy, message):
    _, _, tensors = parts("qwen2", tied=False)
    full = {"train_layers": 1, "train_head": True, "train_embeddings": False} | policy
    with pytest.raises(ValueError, match=message):
        trained_parameters(draft_names(tensors, [0, 1]), **full)
