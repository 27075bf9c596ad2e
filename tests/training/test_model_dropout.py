"""Keyed dropout: a pure function of key, site and place, statistically as good as it must be."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twintrack.training.dropout import KeyedDropout, dropout_key_names, keyed_uniform_bits, set_dropout_key

M = 0xFFFFFFFF


def bits(key, site, count):
    return keyed_uniform_bits(torch.tensor(key), torch.tensor(site), count)


def mix(value):
    """Reference in Python integers, which cannot overflow."""
    value ^= value >> 16
    value = value * 0x21F0AAAD & M
    value ^= value >> 15
    value = value * 0x735A2D97 & M
    return value ^ value >> 15


@given(st.integers(0, 2**63 - 1), st.integers(0, M))
def test_bits_are_those_of_exact_integer_arithmetic(key, site):
    first = mix(mix(mix(key & M) ^ key >> 32) ^ site)
    second = mix(first ^ 0x9E3779B9)
    expected = [mix(mix(index ^ first) + second & M) for index in range(9)]
    assert bits(key, site, 9).tolist() == expected


def test_mixing_is_a_permutation_in_its_low_range():
    """No two inputs may share an output; 2**20 neighbours are tried."""
    from twintrack.training.dropout import _mix

    values = torch.arange(2**20) * 4093 % 2**32
    mixed = _mix(values)
    assert len(torch.unique(mixed)) == len(torch.unique(values))
    assert int(mixed.min()) >= 0
    assert int(mixed.max()) <= M


@pytest.mark.parametrize("p", [0.05, 0.1, 0.5, 0.9])
def test_rate_of_zeros_is_p(p):
    """Within 5 standard deviations of a binomial over 2**18 elements, for three keys and sites."""
    for key, site in ((0, 1), (1, 2), (2**40 + 3, 210)):
        dropped = float((bits(key, site, 2**18) < round(p * 2**32)).float().mean())
        assert abs(dropped - p) < 5 * (p * (1 - p) / 2**18) ** 0.5


def test_bits_are_uniform():
    """Chi-square over 256 classes, of the high and of the low byte: 255 degrees, 0.01 % limit 347."""
    values = bits(3, 4, 2**18)
    for part in (values >> 24, values & 255):
        counts = torch.bincount(part, minlength=256).double()
        expected = 2**18 / 256
        assert float(((counts - expected) ** 2 / expected).sum()) < 347


def test_masks_of_keys_sites_and_neighbours_are_independent():
    """Correlation of +-1 masks within 5 / sqrt(n), between all pairs of 12 key-site combinations and of
    shifts."""
    count = 2**15
    pairs = [(key, site) for key in (0, 1, 2, 2**32) for site in (1, 2, 3)]
    signs = torch.stack([(bits(key, site, count) >= 2**31).float() * 2 - 1 for key, site in pairs])
    for shift in (0, 1, 2, 7, 64):
        correlation = signs @ signs.roll(shift, dims=1).T / count
        if shift == 0:
            correlation.fill_diagonal_(0.0)
        assert float(correlation.abs().max()) < 5 / count**0.5


def test_masks_are_no_rearrangements_of_each_other():
    """The flaw that one-word mixing has: mask(i) of one site equals mask(i ^ c) of another."""
    count = 1024
    one, two = set(bits(0, 1, count).tolist()), set(bits(0, 2, count).tolist())
    assert len(one & two) <= 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_forward_zeroes_and_scales(dtype):
    module = KeyedDropout(0.25, site=7).train()
    set_dropout_key(module, 11)
    x = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    kept = (bits(11, 7, x.numel()) >= 2**30).reshape(x.shape)
    assert torch.equal(module(x), torch.where(kept, x * (1 / 0.75), torch.zeros((), dtype=dtype)))
    assert 0 < int(kept.sum()) < x.numel()
    assert torch.equal(module.eval()(x), x)


def test_gradient_passes_where_elements_were_kept():
    module = KeyedDropout(0.5, site=1).train()
    x = torch.ones(64, requires_grad=True)
    y = module(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_the_key_alone_decides_and_the_global_generator_is_left_alone():
    module = KeyedDropout(0.5, site=1).train()
    x = torch.ones(256)
    state = torch.random.get_rng_state()
    outputs = {}
    for key in (1, 2, 1):
        set_dropout_key(module, key)
        outputs.setdefault(key, []).append(module(x))
    assert torch.equal(*outputs[1])
    assert not torch.equal(outputs[1][0], outputs[2][0])
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_mask_can_be_captured_with_the_key_as_an_input():
    """One graph serves every key: no constant of the mask is baked in."""
    module = KeyedDropout(0.5, site=1).train()
    exported = torch.export.export(module, (torch.ones(4, 8),)).module()
    for key in (5, 6):
        set_dropout_key(module, key)
        exported.key.fill_(key)
        assert torch.equal(exported(torch.ones(4, 8)), module(torch.ones(4, 8)))


def test_keys_are_named_set_everywhere_and_never_saved():
    model = torch.nn.Sequential(KeyedDropout(0.1, 1), torch.nn.Linear(2, 2), KeyedDropout(0.1, 2))
    assert dropout_key_names(model) == ("0.key", "2.key")
    set_dropout_key(model, 2**62)
    assert [int(model[i].key) for i in (0, 2)] == [2**62] * 2
    assert sorted(model.state_dict()) == ["1.bias", "1.weight"]
    for key in (-1, 2**63):
        with pytest.raises(ValueError, match="dropout key"):
            set_dropout_key(model, key)
    with pytest.raises(ValueError, match="dropout must lie"):
        KeyedDropout(1.0, 1)
