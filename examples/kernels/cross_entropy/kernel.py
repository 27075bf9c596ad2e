"""Cross-entropy over a large vocabulary, loss and gradient, in chunks of columns: a row of logits need not fit in SBUF.

    logits [tokens, vocabulary], targets [tokens] int32 -> loss [tokens] float32, gradient [tokens, vocabulary]

128 tokens at a time, one per partition, and two passes over their chunks:

    pass 1   maximum so far; exp(logits - maximum) with its sum in the same pass; sum = sum * correction + new
    between  log_sum = maximum + log(sum);  loss = log_sum - logits[target]
    pass 2   gradient = exp(logits - log_sum) - (column == target)

The logit of the target is fetched by an indirect DMA of one element per token, at index token * vocabulary + target in
the flat logits: no pass over the vocabulary for it. ``column == target`` is the first operation of the instruction that
subtracts: one row of column numbers, made once, compared with the target less the chunk's first column.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def cross_entropy(
    logits: nl.NkiTensor, targets: nl.NkiTensor, chunk: int = 2048
) -> tuple[nl.NkiTensor, nl.NkiTensor]:
    """Tokens times vocabulary is below 2^31; the last chunk and the last tile of tokens may be short."""
    tokens, vocabulary = logits.shape
    pmax = nl.tile_size.pmax
    losses = nl.ndarray((tokens,), dtype=nl.float32, buffer=nl.shared_hbm)
    gradient = nl.ndarray((tokens, vocabulary), dtype=logits.dtype, buffer=nl.shared_hbm)
    columns = nl.ndarray((pmax, min(chunk, vocabulary)), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=columns, pattern=[[1, columns.shape[1]]])
    for start in range(0, tokens, pmax):
        rows = nl.ds(start, min(pmax, tokens - start))
        target = load_targets(targets[rows])
        log_sum = log_sums_of(logits[rows, :], chunk)
        loss = nl.ndarray((target.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=loss, data1=log_sum, data2=logits_of(logits, target, start), op=nl.subtract)
        nisa.dma_copy(dst=losses[rows].reshape((target.shape[0], 1)), src=loss)
        store_gradient(gradient[rows, :], logits[rows, :], target, log_sum, columns)
    return losses, gradient


def load_targets(targets: nl.NkiTensor) -> nl.NkiTensor:
    """One target per partition."""
    target = nl.ndarray((targets.shape[0], 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=target, src=targets.reshape(target.shape))
    return target


def load_chunk(logits: nl.NkiTensor, first: int, width: int) -> nl.NkiTensor:
    """Columns of the rows of a tile."""
    values = nl.ndarray((logits.shape[0], width), dtype=logits.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=values, src=logits[:, nl.ds(first, width)])
    return values


def log_sums_of(logits: nl.NkiTensor, chunk: int) -> nl.NkiTensor:
    """``log(sum(exp(row)))`` of each row [P, 1], by an online softmax over its chunks."""
    size, vocabulary = logits.shape
    negated_max = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    for first in range(0, vocabulary, chunk):
        values = load_chunk(logits, first, min(chunk, vocabulary - first))
        if first == 0:
            nisa.tensor_reduce(dst=negated_max, op=nl.maximum, data=values, axis=1, negate=True)
            add_powers(total, values, negated_max)
        else:
            add_chunk(total, negated_max, values)
    log_sum = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=log_sum, op=nl.log, data=total)
    nisa.tensor_tensor(dst=log_sum, data1=log_sum, data2=negated_max, op=nl.subtract)
    return log_sum


def add_chunk(total: nl.NkiTensor, negated_max: nl.NkiTensor, values: nl.NkiTensor) -> None:
    """One more chunk: the maximum may grow, and with it what the sum so far is multiplied by."""
    size = values.shape[0]
    previous = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    correction = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    added = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=previous, src=negated_max)
    nisa.tensor_reduce(dst=negated_max, op=nl.maximum, data=values, axis=1, negate=True)
    nisa.tensor_tensor(dst=negated_max, data1=negated_max, data2=previous, op=nl.minimum)
    nisa.activation(dst=correction, op=nl.exp, data=previous, scale=-1.0, bias=negated_max)
    add_powers(added, values, negated_max)
    nisa.scalar_tensor_tensor(
        dst=total, data=total, op0=nl.multiply, operand0=correction, op1=nl.add, operand1=added
    )


def add_powers(total: nl.NkiTensor, values: nl.NkiTensor, negated_max: nl.NkiTensor) -> None:
    """``total = sum(exp(values - maximum))``; the powers themselves are scratch."""
    powers = nl.ndarray(values.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.activation(
        dst=powers,
        op=nl.exp,
        data=values,
        bias=negated_max,
        reduce_op=nl.add,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )


def logits_of(logits: nl.NkiTensor, target: nl.NkiTensor, start: int) -> nl.NkiTensor:
    """The logit of each row's target [P, 1], gathered from HBM; indices in exact int32."""
    size, (tokens, vocabulary) = target.shape[0], logits.shape
    index = nl.ndarray((size, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=index, pattern=[[0, 1]], offset=start * vocabulary, channel_multiplier=vocabulary)
    nisa.tensor_tensor(dst=index, data1=index, data2=target, op=nl.add, engine=nisa.engine.gpsimd)
    found = nl.ndarray((size, 1), dtype=logits.dtype, buffer=nl.sbuf)
    flat = logits.reshape((tokens * vocabulary, 1))
    nisa.dma_copy(dst=found, src=flat.vector_select(0, index))
    return found


def store_gradient(
    gradient: nl.NkiTensor,
    logits: nl.NkiTensor,
    target: nl.NkiTensor,
    log_sum: nl.NkiTensor,
    columns: nl.NkiTensor,
) -> None:
    """``exp(logits - log_sum) - (column == target)``, chunk by chunk."""
    size, vocabulary = logits.shape
    chunk = columns.shape[1]
    bias = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=bias, data=log_sum, op0=nl.multiply, operand0=-1.0)
    for first in range(0, vocabulary, chunk):
        values = load_chunk(logits, first, min(chunk, vocabulary - first))
        shares = nl.ndarray(values.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=shares, op=nl.exp, data=values, bias=bias)
        column = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=column, data=target, op0=nl.subtract, operand0=first)
        nisa.scalar_tensor_tensor(
            dst=values,
            data=columns[0:size, 0 : values.shape[1]],
            op0=nl.equal,
            operand0=column,
            op1=nl.subtract,
            operand1=shares,
            reverse1=True,
        )
        nisa.dma_copy(dst=gradient[:, nl.ds(first, values.shape[1])], src=values)
