"""A core for tests of single instructions: tiles with given elements in, elements and what was written out.

Tiles can be views into larger buffers, so that shapes, strides and offsets are those of a slice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager

import ml_dtypes
import numpy as np

from twintrack.neuroncore.convert import round_to
from twintrack.neuroncore.emulator.core import Core
from twintrack.neuroncore.memory.dtypes import DTYPES
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.neuroncore.memory.storage import Storage
from twintrack.neuroncore.memory.view import View
from twintrack.nki.context import running
from twintrack.nki.language.creation import ndarray

LAYOUTS = ("plain", "strided", "inside", "low")
NUMBERS = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "int32": np.int32,
    "uint32": np.uint32,
    "int16": np.int16,
    "uint16": np.uint16,
    "int8": np.int8,
    "uint8": np.uint8,
}


@contextmanager
def core_of(chip="trn2", **options):
    """A core on which instructions can be issued until the block ends."""
    core = Core(GENERATIONS[chip], **options)
    with running(core):
        yield core


def blank(shape, dtype, region="sbuf", layout="plain"):
    """A tile nothing is written to: whole, every other element, a part of a row, or at partition 64."""
    shape = tuple(shape)
    if layout == "plain":
        return ndarray(shape, dtype, region)
    if layout == "strided":
        return ndarray((*shape[:-1], 2 * shape[-1]), dtype, region)[..., 1::2]
    if layout == "inside":
        return ndarray((*shape[:-1], shape[-1] + 3), dtype, region)[..., 2 : 2 + shape[-1]]
    start = 64 if shape[0] <= 64 else 0
    return ndarray((start + shape[0], *shape[1:]), dtype, region)[start : start + shape[0]]


def tile(core, values, dtype=None, region="sbuf", layout="plain"):
    """A tile that holds these numbers, rounded to its type."""
    values = np.asarray(values)
    made = blank(values.shape, dtype or str(values.dtype), region, layout)
    if core.values:
        made.array()[...] = round_to(values, made.dtype)
    core.wrote(made)
    return made


def numbers(tensor):
    """Its elements as float64 (exact for every type)."""
    return tensor.array().astype(np.float64)


def bits(array):
    """The bits of elements, so that NaN equal themselves."""
    array = np.ascontiguousarray(array)
    return array.view(f"u{array.dtype.itemsize}")


def is_written(tensor):
    """Whether all of it counts as written."""
    return tensor.storage.written.covers(tensor.pattern())


def only_inside(tensor):
    """Whether all of it counts as written, and nothing of its buffer around it was written or changed."""
    storage = tensor.storage
    inside = tensor.size * tensor.dtype.bytes
    kept = storage.data.copy()
    View(Storage(storage.buffer, kept, storage.written), *_place(tensor)).array().view("u1")[...] = 0
    fresh = Storage.empty(storage.buffer, values=True).data
    View(Storage(storage.buffer, fresh, storage.written), *_place(tensor)).array().view("u1")[...] = 0
    marked = storage.buffer.bytes - storage.written.missing_bytes
    return is_written(tensor) and marked == inside and np.array_equal(kept, fresh)


def _place(tensor):
    return tensor.dtype, (*tensor.shape, 1), (*tensor.strides, 1), tensor.offset


def written_mask(tensor):
    """For every element whether it counts as written."""
    mask = np.zeros(tensor.shape, bool)
    for at in np.ndindex(*tensor.shape):
        one = tensor[tuple(slice(i, i + 1) for i in at)]
        mask[at] = one.storage.written.covers(one.pattern())
    return mask


def message(raised: Callable[[], object]) -> str:
    """The text of the error that the call raises."""
    from twintrack.errors import KernelError

    try:
        raised()
    except KernelError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def dtype(name):
    """The element type of this name."""
    return DTYPES[name]
