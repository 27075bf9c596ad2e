"""Causal flash attention, forward (Dao et al., 2022): scores of 128 queries and 512 keys at a time, never all of them.

    q, k, v [heads, positions, width] -> attention [heads, positions, width], log of the row sums [heads, positions]

For a tile of queries the kernel walks over the keys up to the diagonal with an online softmax:

    Tensor  scores [128 queries, 512 keys] = q k^T            contraction over width, one PSUM bank
    GpSimd  mask of the last 128 keys, on the diagonal only
    Vector  maximum so far
    Scalar  weights = exp(scale * scores - scale * maximum), and their sum in the same pass
    Tensor  weights transposed, 128 x 128, for the keys must lie on partitions now
    Tensor  part [128 queries, width] = weights v             contraction over keys, added up in PSUM
    Vector  sums = sums * correction + part

Keys stay transposed in SBUF for a head, [width, positions], and values as [128, positions / 128, width]. Scores beyond
the diagonal are not computed. The maximum, the sum and the result are float32.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl

TILE = 128  # queries per tile, and keys per transposed tile
KEYS = 512  # keys per block: one PSUM bank of float32 scores


@nki.jit
def flash_attention_forward(
    q: nl.NkiTensor, k: nl.NkiTensor, v: nl.NkiTensor
) -> tuple[nl.NkiTensor, nl.NkiTensor]:
    """Positions are a multiple of 128, the width is at most 128."""
    heads, positions, width = q.shape
    out = nl.ndarray((heads, positions, width), dtype=q.dtype, buffer=nl.shared_hbm)
    log_sums = nl.ndarray((heads, positions), dtype=nl.float32, buffer=nl.shared_hbm)
    for head in range(heads):
        keys = transposed(load_rows(k[head]))
        values = load_rows(v[head])
        for start in range(0, positions, TILE):
            query = transposed(load_rows(q[head, nl.ds(start, TILE), :]))
            result, largest, total = attend(query, keys, values, start, width**-0.5)
            store(
                out[head, nl.ds(start, TILE), :], log_sums[head, nl.ds(start, TILE)], result, largest, total
            )
    return out, log_sums


def load_rows(rows: nl.NkiTensor) -> nl.NkiTensor:
    """[positions, width] as [128, positions / 128, width], by one DMA."""
    positions, width = rows.shape
    tiles = positions // TILE
    loaded = nl.ndarray((TILE, tiles, width), dtype=rows.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=loaded, src=rows.reshape_dim(0, (tiles, TILE)).permute((1, 0, 2)))
    return loaded


def transposed(rows: nl.NkiTensor) -> nl.NkiTensor:
    """[128, tiles, width] as [width, tiles * 128], on the Tensor Engine."""
    tiles, width = rows.shape[1], rows.shape[2]
    result = nl.ndarray((width, tiles * TILE), dtype=rows.dtype, buffer=nl.sbuf)
    for at in range(tiles):
        turned = nl.ndarray((width, TILE), dtype=rows.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=rows[:, at, :], engine=nisa.engine.tensor)
        nisa.tensor_copy(dst=result[:, nl.ds(at * TILE, TILE)], src=turned)
    return result


def attend(
    query: nl.NkiTensor, keys: nl.NkiTensor, values: nl.NkiTensor, start: int, scale: float
) -> tuple[nl.NkiTensor, nl.NkiTensor, nl.NkiTensor]:
    """The sums of one tile of queries over all keys up to it, the maximum of their scores, the sum of weights."""
    result = nl.ndarray((TILE, values.shape[2]), dtype=nl.float32, buffer=nl.sbuf)
    largest = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    for first in range(0, start + TILE, KEYS):
        count = min(KEYS, start + TILE - first)
        scores = masked_scores(query, keys[:, nl.ds(first, count)], diagonal=first + count == start + TILE)
        weights = nl.ndarray(scores.shape, dtype=values.dtype, buffer=nl.sbuf)
        block_total, correction = soften(scores, largest, weights, scale, first == 0)
        part = weighted(weights, values, first // TILE)
        if first == 0:
            nisa.tensor_copy(dst=result, src=part)
            nisa.tensor_copy(dst=total, src=block_total)
        else:
            add_corrected(result, correction, part)
            add_corrected(total, correction, block_total)
    return result, largest, total


def masked_scores(query: nl.NkiTensor, keys: nl.NkiTensor, diagonal: bool) -> nl.NkiTensor:
    """Scores of a block; where it ends at the diagonal, keys after the query count as minus infinity."""
    count = keys.shape[1]
    scores = nl.ndarray((TILE, count), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=query, moving=keys)
    if not diagonal:
        return scores
    masked = nl.ndarray((TILE, count), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=masked, src=scores)
    last = masked[:, nl.ds(count - TILE, TILE)]
    nisa.affine_select(
        dst=last,
        pattern=[[-1, TILE]],
        channel_multiplier=1,
        on_true_tile=last,
        on_false_value=-1e30,
        cmp_op=nl.greater_equal,  # query (the partition) >= key (the column)
    )
    return masked


def soften(
    scores: nl.NkiTensor, largest: nl.NkiTensor, weights: nl.NkiTensor, scale: float, first: bool
) -> tuple[nl.NkiTensor, nl.NkiTensor]:
    """Set the weights of a block and the new maximum; their sum, and what earlier sums are multiplied by."""
    previous = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    correction = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    bias = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    if first:
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=scores, axis=1)
    else:
        nisa.tensor_copy(dst=previous, src=largest)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=scores, axis=1)
        nisa.tensor_tensor(dst=largest, data1=largest, data2=previous, op=nl.maximum)
    nisa.tensor_scalar(dst=bias, data=largest, op0=nl.multiply, operand0=-scale)
    nisa.activation(
        dst=weights,
        op=nl.exp,
        data=scores,
        scale=scale,
        bias=bias,
        reduce_op=nl.add,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    if not first:
        nisa.activation(dst=correction, op=nl.exp, data=previous, scale=scale, bias=bias)
    return total, correction


def weighted(weights: nl.NkiTensor, values: nl.NkiTensor, first: int) -> nl.NkiTensor:
    """[128 queries, width]: weights times values, 128 keys at a time, added up in PSUM."""
    part = nl.ndarray((TILE, values.shape[2]), dtype=nl.float32, buffer=nl.psum)
    for at in range(weights.shape[1] // TILE):
        turned = nl.ndarray((TILE, TILE), dtype=weights.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=weights[:, nl.ds(at * TILE, TILE)], engine=nisa.engine.tensor)
        by_key = nl.ndarray((TILE, TILE), dtype=weights.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=by_key, src=turned)
        nisa.nc_matmul(dst=part, stationary=by_key, moving=values[:, first + at, :], accumulate=at > 0)
    return part


def add_corrected(sums: nl.NkiTensor, correction: nl.NkiTensor, part: nl.NkiTensor) -> None:
    """``sums = sums * correction + part`` in one instruction."""
    nisa.scalar_tensor_tensor(
        dst=sums, data=sums, op0=nl.multiply, operand0=correction, op1=nl.add, operand1=part
    )


def store(
    out: nl.NkiTensor,
    log_sums: nl.NkiTensor,
    result: nl.NkiTensor,
    largest: nl.NkiTensor,
    total: nl.NkiTensor,
) -> None:
    """``result / total`` and ``scale * largest + log(total)``."""
    scale = result.shape[1] ** -0.5
    inverse = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    rounded = nl.ndarray(result.shape, dtype=out.dtype, buffer=nl.sbuf)
    nisa.reciprocal(dst=inverse, data=total)
    nisa.tensor_scalar(dst=rounded, data=result, op0=nl.multiply, operand0=inverse)
    nisa.dma_copy(dst=out, src=rounded)

    logs = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=logs, op=nl.log, data=total)
    nisa.scalar_tensor_tensor(
        dst=logs, data=largest, op0=nl.multiply, operand0=scale, op1=nl.add, operand1=logs
    )
    nisa.dma_copy(dst=log_sums.reshape((TILE, 1)), src=logs)
