"""One step of AdamW over a flat tensor, fused: each element of the optimizer's state crosses HBM once each way.

    parameters, grad [size] (bfloat16 as a rule), master, first, second [size] float32, step [3] float32

The float32 master copy is what is updated; the parameters are its rounding, written in the same pass. All five tensors
are updated in place, but for the gradient. ``step`` holds the numbers that change from step to step, [learning rate /
(1 - beta1^t), 1 / (1 - beta2^t), 1 - learning rate * weight decay]: passed as values they would be part of the kernel
and each step would compile a new one. A DMA puts them in every partition, and they are operands like any [P, 1] tile.

The flat tensor is seen as [128, size / 128] and walked in columns. For a tile:

    Vector  first  = beta1 * first  + (1 - beta1) * grad
    Scalar  square of sqrt(1 - beta2) * grad
    Vector  second = beta2 * second + that
    Scalar  sqrt(second / (1 - beta2^t))
    Vector  + epsilon, reciprocal, times step size and first, subtracted from decay * master
    Scalar  the parameters: the master, rounded
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def adam(
    parameters: nl.NkiTensor,
    grad: nl.NkiTensor,
    master: nl.NkiTensor,
    first: nl.NkiTensor,
    second: nl.NkiTensor,
    step: nl.NkiTensor,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    columns: int = 2048,
) -> tuple[nl.NkiTensor, nl.NkiTensor, nl.NkiTensor, nl.NkiTensor]:
    """The size is a multiple of 128; a tile has ``columns`` of them per partition, the last may have fewer."""
    pmax = nl.tile_size.pmax
    width = parameters.shape[0] // pmax
    numbers = nl.ndarray((pmax, 3), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=numbers, src=step.reshape((1, 3)).broadcast(0, pmax))
    for start in range(0, width, columns):
        count = min(columns, width - start)
        gradient = load(grad, start, count)
        weights, moment, square = (
            load(master, start, count),
            load(first, start, count),
            load(second, start, count),
        )
        update_moments(moment, square, gradient, beta1, beta2)
        update_master(weights, moment, square, numbers, epsilon)
        rounded = nl.ndarray(weights.shape, dtype=parameters.dtype, buffer=nl.sbuf)
        nisa.activation(dst=rounded, op=nl.copy, data=weights)
        store(parameters, start, rounded)
        store(master, start, weights)
        store(first, start, moment)
        store(second, start, square)
    return parameters, master, first, second


def update_moments(
    moment: nl.NkiTensor, square: nl.NkiTensor, gradient: nl.NkiTensor, beta1: float, beta2: float
) -> None:
    """Both moving averages, in place."""
    share = nl.ndarray(moment.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=share, data=gradient, op0=nl.multiply, operand0=1.0 - beta1)
    nisa.scalar_tensor_tensor(
        dst=moment, data=moment, op0=nl.multiply, operand0=beta1, op1=nl.add, operand1=share
    )
    squared = nl.ndarray(square.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=squared, op=nl.square, data=gradient, scale=(1.0 - beta2) ** 0.5)
    nisa.scalar_tensor_tensor(
        dst=square, data=square, op0=nl.multiply, operand0=beta2, op1=nl.add, operand1=squared
    )


def update_master(
    weights: nl.NkiTensor, moment: nl.NkiTensor, square: nl.NkiTensor, numbers: nl.NkiTensor, epsilon: float
) -> None:
    """``weights = decay * weights - size * moment / (sqrt(square * correction) + epsilon)``, in place."""
    size, correction, decay = numbers[:, 0:1], numbers[:, 1:2], numbers[:, 2:3]
    divisor = nl.ndarray(weights.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=divisor, op=nl.sqrt, data=square, scale=correction)
    nisa.tensor_scalar(dst=divisor, data=divisor, op0=nl.add, operand0=epsilon)
    nisa.reciprocal(dst=divisor, data=divisor)
    update = nl.ndarray(weights.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=update, data=moment, op0=nl.multiply, operand0=size, op1=nl.multiply, operand1=divisor
    )
    nisa.scalar_tensor_tensor(
        dst=weights, data=weights, op0=nl.multiply, operand0=decay, op1=nl.subtract, operand1=update
    )


def load(flat: nl.NkiTensor, start: int, count: int) -> nl.NkiTensor:
    """Columns of a flat tensor seen as [128, size / 128]."""
    pmax = nl.tile_size.pmax
    source = flat.reshape((pmax, flat.shape[0] // pmax))[:, nl.ds(start, count)]
    tile = nl.ndarray(source.shape, dtype=flat.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def store(flat: nl.NkiTensor, start: int, tile: nl.NkiTensor) -> None:
    """The reverse of ``load``."""
    pmax = nl.tile_size.pmax
    target = flat.reshape((pmax, flat.shape[0] // pmax))[:, nl.ds(start, tile.shape[1])]
    nisa.dma_copy(dst=target, src=tile)
