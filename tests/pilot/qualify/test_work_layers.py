"""Work of a model from its first two layers, against full captures, PyTorch's own FLOP counter and a closed form."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig

from small_pilot import small_job
from tiny_llama import tiny_config, tiny_model
from twintrack.compiler.cost import measure_work
from twintrack.errors import ModelError
from twintrack.pilot.qualify.capture import flops_per_token, model_work, outline
from twintrack.torch.capture import capture
from twintrack.torch.trees import flatten
from twintrack.training.adapter import adapt
from twintrack.training.dropout import dropout_key_names
from twintrack.training.step import Step

LAYERS = 4
CASES = {
    "lora": {"targets": ["q_proj", "down_proj"], "rank": 4},
    "lora of every kind, dropout": {
        "targets": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        "rank": 8,
        "dropout": 0.1,
    },
    "lora on the head": {"targets": ["lm_head"], "rank": 4},
    "full, tied": None,
}


def a_job(lora, **changes):
    data = {"files": ["data.jsonl"], "sequence_length": 16}
    return small_job(data=data, lora=lora, batch={"micro": 3, "accumulation": 2}, **changes)


def whole(job, *, tied=False, layers=LAYERS, dtype=torch.bfloat16):
    """Step and arguments of the whole model, with all its weights."""
    model = tiny_model(tied=tied, layers=layers)
    model.set_attn_implementation("eager")
    adapted = adapt(model, job.lora, seed=job.seed, dtype=dtype)
    adapted.model.train(bool(dropout_key_names(adapted.model)))
    tensors = dict([*adapted.model.named_parameters(), *adapted.model.named_buffers()])
    learned = set(adapted.trainable)
    weights = {name: tensor.detach() for name, tensor in tensors.items() if name in learned}
    frozen = {name: tensor.detach() for name, tensor in tensors.items() if name not in learned}
    ids = torch.ones(job.batch.micro, job.data.sequence_length, dtype=torch.int64)
    batch = dict.fromkeys(("input_ids", "labels", "position_ids", "segment_ids"), ids)
    return Step(adapted.model, job.optimizer, dtype), (weights, frozen, batch, torch.tensor(1.0))


@pytest.fixture(scope="module", params=CASES)
def case(request):
    job, tied = a_job(CASES[request.param]), "tied" in request.param
    step, arguments = whole(job, tied=tied)
    return job, step, arguments, model_work(tiny_config(tied=tied, layers=LAYERS), job)


def test_two_layers_tell_the_work_of_all(case):
    """FLOPs, executions and bytes of every operator: equal, not close."""
    _, step, arguments, found = case
    for work, function, taken in (
        (found.gradients, step.gradients, arguments),
        (found.evaluate, _evaluating(step), arguments[:3]),
    ):
        full = measure_work(capture(work.function, function, taken, layers=step.layers))
        assert (work.flops, work.matmul_flops) == (full.total_flops, full.matmul_flops)
        assert (work.operator_bytes, work.count) == (full.operator_bytes, full.operators)
        assert {one.name: one.count for one in work.operators} == dict(full.counts)
        assert {one.name: one.flops for one in work.operators if one.flops} == dict(full.flops)
        assert {one.name: one.bytes for one in work.operators if one.bytes} == dict(full.bytes)
        assert sum(one.bytes for one in work.operators) == work.operator_bytes


def _evaluating(step):
    def run(*arguments):
        step.model.eval()
        return step.evaluate(*arguments)

    return run


def test_flops_are_those_that_pytorch_counts(case):
    """Reference: ``torch.utils.flop_counter`` over the whole model's own step."""
    job, step, arguments, found = case
    with FlopCounterMode(display=False) as counter:
        step.gradients(*arguments)
    assert found.gradients.matmul_flops == counter.get_total_flops()
    positions = job.batch.micro * job.data.sequence_length
    assert found.flops_per_token.value == counter.get_total_flops() / positions


class _Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


def test_operators_are_those_of_the_whole_model_run_for_real(case):
    """Counted on tensors that hold numbers, in all layers."""
    _, step, arguments, found = case
    step.model.train(bool(dropout_key_names(step.model)))
    with _Seen() as seen:
        step.gradients(*arguments)
    assert dict(found.operators.counts) == {k: v for k, v in seen.counts.items() if k.startswith("aten.")}
    assert not found.operators.host


def test_one_layer_and_two_need_no_line():
    for layers in (1, 2):
        job = a_job(CASES["lora"])
        step, arguments = whole(job, layers=layers)
        full = measure_work(capture("gradients", step.gradients, arguments, layers=step.layers))
        found = model_work(tiny_config(layers=layers), job).gradients
        assert (found.flops, found.operator_bytes, found.count) == (
            full.total_flops,
            full.operator_bytes,
            full.operators,
        )


def llama(size):
    hidden, middle, layers, heads = {"8B": (4096, 14336, 32, 32), "70B": (8192, 28672, 80, 64)}[size]
    return LlamaConfig(
        vocab_size=128256,
        hidden_size=hidden,
        intermediate_size=middle,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        max_position_embeddings=131072,
    )


@pytest.mark.parametrize("size", ["8B", "70B"])
def test_large_models_spend_what_the_closed_form_says(size):
    """Full fine-tuning: 6 per matrix parameter and 12 * layers * width * T for attention (arXiv 2204.02311, app. B)."""
    config, job = llama(size), small_job(lora=None, data={"files": ["x.jsonl"], "sequence_length": 8192})
    hidden, kv = config.hidden_size, config.hidden_size // config.num_attention_heads * 8
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * config.intermediate_size
    matrices = config.num_hidden_layers * layer + config.vocab_size * hidden
    expected = 6 * matrices + 12 * config.num_hidden_layers * hidden * 8192
    assert flops_per_token(config, job).value == pytest.approx(expected, rel=1e-6)


def test_an_outline_of_a_large_model_takes_no_memory():
    few = outline(llama("70B"), small_job(lora=None), 2)
    for function in ("gradients", "accumulate", "update", "evaluate", "next_tokens"):
        for path, tensor in flatten(list(few.arguments(function))):
            assert isinstance(tensor, FakeTensor) or tensor.numel() == 1, path
    assert all(parameter.is_meta for parameter in few.step.model.parameters())


def test_the_rows_and_the_type_of_the_job_count():
    config = tiny_config(layers=3)
    job = a_job(None)
    wide, narrow = model_work(config, job, compute="fp32"), model_work(config, job)
    assert wide.gradients.matmul_flops == narrow.gradients.matmul_flops
    assert wide.gradients.operator_bytes > narrow.gradients.operator_bytes
    assert (narrow.gradients.rows, narrow.gradients.length) == (3, 16)
    assert narrow.evaluation_flops_per_token.value < narrow.flops_per_token.value
    assert config.num_hidden_layers == 3


def test_an_adapter_that_fits_no_module_is_refused():
    with pytest.raises(ModelError, match="w_proj"):
        flops_per_token(tiny_config(), a_job({"targets": ["w_proj"], "rank": 4}))
