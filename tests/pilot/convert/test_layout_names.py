"""Keys and shapes: those of PEFT and transformers themselves, and every way that they have been got wrong."""

from __future__ import annotations

import math

import pytest
import torch
from layout_cases import EVERY_LINEAR, LORA, config_of, random_tensors
from peft import get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import load_file
from transformers import LlamaConfig

from tiny_llama import tiny_model
from twintrack.errors import ModelError
from twintrack.job.records import Lora
from twintrack.pilot.convert.layouts import (
    check_keys,
    drop_tied_head,
    expected_keys,
    expected_names,
    from_peft,
    hub_key,
    key_problems,
    own_name,
    peft_key,
    place_of,
    to_hub,
    to_peft,
    with_groups,
)
from twintrack.training.adapter import adapt

Q_A = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


def _shapes(tensors) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


@pytest.mark.parametrize(
    ("targets", "tied"),
    [(("q_proj", "v_proj"), True), (EVERY_LINEAR, False), (("down_proj", "lm_head"), False)],
)
def test_expected_keys_are_those_that_peft_itself_writes(targets, tied):
    lora = Lora(targets=targets, rank=3)
    adapted = adapt(tiny_model(tied=tied), lora, seed=0)
    theirs = get_peft_model_state_dict(adapted.model, save_embedding_layers=False)
    parameters = dict(adapted.model.named_parameters())

    expected = expected_keys(adapted.model.config, lora)

    assert expected == _shapes(theirs)
    ours = {name: parameters[name] for name in adapted.trainable}
    assert expected_names(adapted.model.config, lora) == _shapes(ours)
    assert _shapes(to_peft(ours)) == _shapes(theirs)
    check_keys(theirs, expected, where="adapter")


@pytest.mark.parametrize("tied", [False, True])
def test_expected_keys_of_a_whole_model_are_those_that_transformers_writes(tmp_path, tied):
    model = tiny_model(tied=tied)
    model.save_pretrained(tmp_path)

    expected = expected_keys(model.config, None)

    assert expected == _shapes(load_file(tmp_path / "model.safetensors"))
    check_keys(to_hub(dict(model.named_parameters())), expected, where="model")


@pytest.mark.parametrize(
    ("hidden", "inner", "layers", "heads", "parameters"),
    [(4096, 14336, 32, 32, 8_030_261_248), (8192, 28672, 80, 64, 70_553_706_496)],
)
def test_llama_3_1_has_as_many_parameters_as_published(hidden, inner, layers, heads, parameters):
    """The counts of the model cards' safetensors; no weight is made."""
    config = LlamaConfig(
        vocab_size=128_256,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
    )

    assert sum(math.prod(shape) for shape in expected_keys(config, None).values()) == parameters


def test_our_names_and_pefts_keys_are_each_others_inverse():
    names = expected_names(config_of(), LORA)
    tensors = random_tensors(names)

    assert [own_name(peft_key(name)) for name in names] == list(names)
    assert from_peft(to_peft(tensors)).keys() == tensors.keys()
    assert all(place_of(peft_key(name)) == place_of(name) for name in names)


def test_a_parameter_inside_the_wrapped_model_has_the_hubs_key_of_its_base():
    adapted = adapt(tiny_model(), Lora(targets=("q_proj", "lm_head")), seed=0)
    base = {hub_key(name) for name, _ in adapted.model.named_parameters() if ".lora_" not in name}

    assert base == expected_keys(adapted.model.config, None).keys()


@pytest.mark.parametrize(
    "name", [Q_A, "model.layers.0.self_attn.q_proj.lora_A.default.weight", "model.norm.weight", ""]
)
def test_what_is_not_an_adapter_of_ours_has_no_peft_key(name):
    with pytest.raises(ModelError, match="lora_A"):
        peft_key(name)


@pytest.mark.parametrize(
    "key", [Q_A.replace("weight", "default.weight"), Q_A.removeprefix("base_model."), "x"]
)
def test_what_peft_would_not_write_has_no_name_of_ours(key):
    with pytest.raises(ModelError, match="lora_A"):
        own_name(key)


@pytest.mark.parametrize("name", [Q_A, "weights/model.norm.weight", "visual.norm.weight"])
def test_what_is_not_the_base_models_has_no_key_of_the_hub(name):
    with pytest.raises(ModelError, match="own parameter"):
        hub_key(name)


BAD_KEYS = {
    "the wrapper's prefix lost": (lambda k: k.removeprefix("base_model.model."), "without the prefix"),
    "one level of the prefix lost": (
        lambda k: k.removeprefix("base_model."),
        "without the prefix 'base_model'",
    ),
    "the base's own level lost": (
        lambda k: k.replace(".model.layers", ".layers"),
        "without the level 'model'",
    ),
    "wrapped twice": (lambda k: "base_model.model." + k, "too many"),
    "a prefix of data parallel training": (lambda k: "module." + k, "prefix 'module' too many"),
    "the adapter's name kept": (lambda k: k.replace("A.weight", "A.default.weight"), "'default' too many"),
    "a level for the base layer": (
        lambda k: k.replace("q_proj.", "q_proj.base_layer."),
        "'base_layer' too many",
    ),
    "the block's level lost": (lambda k: k.replace(".self_attn", ""), "without the level 'self_attn'"),
    "the block of another architecture": (
        lambda k: k.replace("self_attn", "attention"),
        "instead of 'self_attn'",
    ),
    "another spelling": (lambda k: k.replace("q_proj", "qproj"), "'qproj' instead of 'q_proj'"),
    "no weight at the end": (lambda k: k.removesuffix(".weight"), "without the level 'weight'"),
}


@pytest.mark.parametrize("spoil", BAD_KEYS, ids=str)
def test_a_key_that_loaders_would_pass_over_is_refused_and_the_right_one_named(spoil):
    expected = expected_keys(config_of(), LORA)
    change, said = BAD_KEYS[spoil]
    tensors = random_tensors(expected)
    tensors[change(Q_A)] = tensors.pop(Q_A)

    with pytest.raises(ModelError) as caught:
        check_keys(tensors, expected, where="adapter_model.safetensors")

    assert caught.value.required == f"the key {Q_A}"
    assert change(Q_A) in caught.value.found
    assert said in caught.value.found
    problems = list(key_problems(tensors, expected))
    assert [(problem.key, problem.nearest) for problem in problems] == [
        (change(Q_A), Q_A),
        (Q_A, change(Q_A)),
    ]


def test_peft_itself_loads_an_adapter_with_a_wrong_prefix_and_says_nothing():
    """Why a wrong key must be a failure here: the loader's answer is a list that nobody reads."""
    lora = Lora(targets=("q_proj",), rank=2)
    model = adapt(tiny_model(), lora, seed=0).model
    expected = expected_keys(model.config, lora)
    tensors = random_tensors(expected)
    wrong = {key.removeprefix("base_model.model."): tensor for key, tensor in tensors.items()}

    set_peft_model_state_dict(model, wrong)

    learned = get_peft_model_state_dict(model)
    assert not any(torch.equal(learned[key], tensors[key]) for key in expected)
    with pytest.raises(ModelError, match="8 keys are wrong"):
        check_keys(wrong, expected, where="adapter")


BAD_TENSORS = {
    "a tensor without elements": (lambda t: t.new_empty(0), "without elements"),
    "rows without elements, as ZeRO-3 leaves them": (
        lambda t: t.new_empty(0, t.shape[1]),
        "without elements",
    ),
    "transposed": (lambda t: t.T, r"shape \[16, 2\]"),
    "padded": (lambda t: torch.cat([t, t]), r"shape \[4, 16\]"),
    "flattened": (lambda t: t.reshape(-1), r"shape \[32\]"),
    "another type": (lambda t: t.half(), "float16"),
    "doubled precision": (lambda t: t.double(), "float64"),
}


@pytest.mark.parametrize("spoil", BAD_TENSORS, ids=str)
def test_a_tensor_of_another_shape_or_type_is_refused(spoil):
    expected = expected_keys(config_of(), LORA)
    change, said = BAD_TENSORS[spoil]
    tensors = random_tensors(expected)
    tensors[Q_A] = change(tensors[Q_A])

    with pytest.raises(ModelError, match=said) as caught:
        check_keys(tensors, expected, where="adapter")

    assert Q_A in caught.value.required
    assert len(list(key_problems(tensors, expected))) == 1


def test_a_type_that_is_allowed_passes():
    expected = expected_keys(config_of(), LORA)
    tensors = {key: tensor.bfloat16() for key, tensor in random_tensors(expected).items()}

    check_keys(tensors, expected, where="adapter", dtypes=frozenset({torch.bfloat16}))
    with pytest.raises(ModelError, match="bfloat16"):
        check_keys(tensors, expected, where="adapter")


def test_a_missing_key_and_a_spare_one_are_refused():
    expected = expected_keys(config_of(), LORA)
    tensors = random_tensors(expected)
    with pytest.raises(ModelError, match=f"required the key {Q_A}, found none"):
        check_keys({key: t for key, t in tensors.items() if key != Q_A}, expected, where="adapter")
    with pytest.raises(ModelError, match=r"unknown key step"):
        check_keys(tensors | {"step": torch.zeros(1)}, expected, where="adapter")
    with pytest.raises(ModelError, match="found none"):
        check_keys({}, expected, where="adapter")


def test_a_tied_head_is_dropped_only_where_it_is_the_embedding():
    config = config_of(tied=True)
    weights = random_tensors(expected_keys(config, None))
    table = weights["model.embed_tokens.weight"]

    same = drop_tied_head(weights | {"lm_head.weight": table.clone()}, config, where="model")
    assert same.keys() == weights.keys()
    assert drop_tied_head(weights, config, where="model").keys() == weights.keys()
    with pytest.raises(ModelError, match=r"lm_head\.weight equal to"):
        drop_tied_head(weights | {"lm_head.weight": table + 1e-6}, config, where="model")
    with pytest.raises(ModelError, match=r"no model\.embed_tokens"):
        drop_tied_head({"lm_head.weight": table}, config, where="model")
    untied = {"lm_head.weight": table}
    assert drop_tied_head(untied, config_of(), where="model") == untied


@pytest.mark.parametrize(("target", "tied"), [("q_porj", False), ("lm_head", True), ("embed_tokens", False)])
def test_a_target_without_a_linear_module_of_its_own_is_refused(target, tied):
    with pytest.raises(ModelError, match=rf"lora\.targets.*'{target}'"):
        expected_keys(config_of(tied=tied), Lora(targets=("q_proj", target)))


def test_a_training_state_expects_every_group():
    names = expected_names(config_of(), LORA)

    assert with_groups(names, "master") == {f"master/{name}": shape for name, shape in names.items()}
    assert len(with_groups(names)) == 4 * len(names)
