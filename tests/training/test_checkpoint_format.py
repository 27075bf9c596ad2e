"""Our streaming writer makes files that the safetensors library reads, and the same ones every time."""

import json
import math

import pytest
import safetensors.torch
import torch
from checkpoint_cases import assert_same_bits, bits, contents, make_checkpointer, make_state
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twintrack.training.checkpoint import TrainingState
from twintrack.training.checkpoint.format import DTYPES, plan_files, safetensors_chunks
from twintrack.training.checkpoint.state import Snapshot

SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)


@st.composite
def any_tensor(draw: st.DrawFn) -> torch.Tensor:
    """Any type and shape, contiguous or not, with arbitrary bits (NaN payloads too)."""
    dtype = draw(st.sampled_from(list(DTYPES)))
    shape = draw(SHAPES)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    count = int(torch.Size(shape).numel())
    raw = torch.randint(0, 256, (count * dtype.itemsize,), generator=generator, dtype=torch.uint8)
    tensor = (raw % 2).bool() if dtype is torch.bool else raw.view(dtype)
    tensor = tensor.reshape(shape)
    if draw(st.booleans()) and tensor.dim() > 1:
        tensor = tensor.transpose(0, -1)
    if draw(st.booleans()) and tensor.dim() > 0:
        tensor = tensor[::2]
    if draw(st.booleans()):
        tensor = tensor.unsqueeze(0).expand(2, *tensor.shape)
    return tensor


NAMES = st.builds(
    "{}/{}".format, st.sampled_from(["weights", "rng"]), st.text(st.characters(codec="utf-8"), min_size=1)
)


@given(st.dictionaries(NAMES, any_tensor(), max_size=6))
@settings(max_examples=60, deadline=None)
def test_the_safetensors_library_reads_back_every_bit(tensors):
    for plan in plan_files(tensors):
        data = b"".join(safetensors_chunks(tensors, plan.tensors))
        header_bytes = int.from_bytes(data[:8], "little")
        assert header_bytes % 8 == 0
        read = safetensors.torch.load(data)
        assert set(read) == set(plan.tensors)
        header = json.loads(data[8 : 8 + header_bytes])
        for name, tensor in read.items():
            assert (tensor.dtype, tensor.shape) == (tensors[name].dtype, tensors[name].shape)
            assert bits(tensor) == bits(tensors[name])
            assert header[name]["data_offsets"][0] % tensor.element_size() == 0


@given(
    st.dictionaries(NAMES, st.integers(0, 40), max_size=12),
    st.integers(1, 100),
    st.randoms(use_true_random=False),
)
def test_files_hold_each_tensor_once_within_the_limit_whatever_the_order(sizes, limit, random):
    tensors = {name: torch.zeros(size, dtype=torch.uint8) for name, size in sizes.items()}
    files = plan_files(tensors, limit)
    assert sorted(name for file in files for name in file.tensors) == sorted(tensors)
    for file in files:
        assert {name.partition("/")[0] for name in file.tensors} == {file.group}
        assert len(file.tensors) == 1 or sum(sizes[name] for name in file.tensors) <= limit
    shuffled = list(tensors.items())
    random.shuffle(shuffled)
    assert plan_files(dict(shuffled), limit) == files


def test_a_contiguous_tensor_on_the_host_is_written_without_a_copy():
    tensor = torch.arange(1000, dtype=torch.float32)
    header, data = safetensors_chunks({"master/x": tensor}, ("master/x",))
    assert len(header) < 200
    tensor[0] = 7.0
    assert bytes(data[:4]) == bytes(torch.tensor(7.0).reshape(1).view(torch.uint8).tolist())


def test_the_same_state_gives_the_same_files_to_the_byte(tmp_path):
    state = make_state(10)
    backwards = TrainingState(10, dict(reversed(state.tensors.items())), dict(reversed(state.values.items())))
    for name, one in (("a", state), ("b", backwards)):
        with make_checkpointer(tmp_path / name, shard_bytes=100) as checkpointer:
            checkpointer.save(one)
    first, second = contents(tmp_path / "a"), contents(tmp_path / "b")
    manifests = [name for name in first if name.endswith("manifest.json")]
    assert len(first) > 6
    assert {name: data for name, data in first.items() if name not in manifests} == {
        name: data for name, data in second.items() if name not in manifests
    }
    assert json.loads(first[manifests[0]])["files"] == json.loads(second[manifests[0]])["files"]


@given(st.dictionaries(NAMES, any_tensor(), max_size=5), st.integers(1, 64))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_state_comes_back_to_the_bit(tmp_path_factory, tensors, shard_bytes):
    state = TrainingState(3, tensors, {"text": "é\n", "numbers": [0.1, -(2**70), True, None, {"x": []}]})
    folder = tmp_path_factory.mktemp("any")
    with make_checkpointer(folder, shard_bytes=shard_bytes) as checkpointer:
        checkpointer.save(state)
        loaded = checkpointer.load(3)
    assert_same_bits(loaded.state, state)
    assert loaded.bytes_read == sum(map(len, contents(folder).values()))


def flat(value: object) -> list[float]:
    """One number per float in a value: itself where it is not finite, else 0."""
    if isinstance(value, list):
        return [number for item in value for number in flat(item)]
    return [value if isinstance(value, float) and not math.isfinite(value) else 0.0]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
@settings(max_examples=40)
def test_values_survive_json_exactly_or_are_refused(value):
    state = TrainingState(1, {}, {"value": value})
    if math.isfinite(sum(flat(value))):
        assert json.loads(Snapshot.of(state).document) == {"step": 1, "values": {"value": value}}
    else:
        with pytest.raises(ValueError, match=r"values\.value.*: a finite number is required"):
            Snapshot.of(state)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("master/x", torch.zeros(1, dtype=torch.bfloat16), "float32 is required, found torch.bfloat16"),
        ("moment2/x", torch.zeros(1, dtype=torch.float64), "float32 is required"),
        ("weights/x", torch.zeros(1, dtype=torch.complex64), "a type that safetensors has"),
        ("weights/x", torch.zeros(1, device="meta"), "a dense tensor with data"),
        ("weights/x", torch.zeros(2, 2).to_sparse(), "a dense tensor with data"),
        ("x", torch.zeros(1), "GROUP/NAME"),
        ("../x", torch.zeros(1), "GROUP/NAME"),
        ("weights/", torch.zeros(1), "GROUP/NAME"),
    ],
)
def test_a_state_refuses_what_no_checkpoint_holds(name, tensor, message):
    with pytest.raises(ValueError, match=message):
        TrainingState(1, {name: tensor}, {})


@pytest.mark.parametrize("values", [{1: 2}, {"a": {2: 3}}, {"a": [object()]}, {"a": torch.zeros(1)}])
def test_values_that_json_would_change_are_refused_before_anything_is_written(tmp_path, values):
    checkpointer = make_checkpointer(tmp_path / "run")
    with pytest.raises(ValueError, match="required, found"):
        checkpointer.save(TrainingState(1, {}, values))
    checkpointer.finish()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("step", [-1, 100_000_001])
def test_a_step_out_of_range_is_refused(step):
    with pytest.raises(ValueError, match="a step from 0"):
        TrainingState(step, {}, {})


def test_the_bytes_of_a_state_are_those_of_its_tensors():
    assert make_state(1).bytes == 30 * (2 + 4 + 4 + 4) + 40
