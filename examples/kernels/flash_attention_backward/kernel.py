"""Causal flash attention, backward: weights are computed again from the row sums, block by block.

    q, k, v, out, grad [heads, positions, width], log_sums [heads, positions] -> gradients of q, k and v

With P the weights, the formulas (Dao et al., 2022) and how the Tensor Engine, which contracts over partitions, takes
them for 128 queries and up to 512 keys:

    P  = exp(scale * q k^T - log_sums)       contraction over width: q and k transposed
    dV = P^T grad                            contraction over queries: P as it lies, no transpose
    dP = grad v^T                            contraction over width: grad and v transposed
    dS = P * (dP - delta)                    Vector, one instruction; delta = sum of grad * out per row
    dK = dS^T q                              contraction over queries: dS as it lies
    dQ = dS k                                contraction over keys: dS transposed, 128 x 128 at a time

Blocks of keys are the outer loop: dK and dV of a block add up in two PSUM banks over all queries, dQ of every query
waits in SBUF, in float32. The scale is applied once, on the way out.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl

TILE = 128  # queries per tile, and keys per tile of a block
KEYS = 4  # tiles of keys per block: 512 float32 scores fill a PSUM bank


@nki.jit
def flash_attention_backward(
    q: nl.NkiTensor,
    k: nl.NkiTensor,
    v: nl.NkiTensor,
    grad: nl.NkiTensor,
    out: nl.NkiTensor,
    log_sums: nl.NkiTensor,
) -> tuple[nl.NkiTensor, nl.NkiTensor, nl.NkiTensor]:
    """Positions are a multiple of 128, the width is at most 128."""
    grad_q = nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm)
    grad_k = nl.ndarray(k.shape, dtype=k.dtype, buffer=nl.shared_hbm)
    grad_v = nl.ndarray(v.shape, dtype=v.dtype, buffer=nl.shared_hbm)
    for head in range(q.shape[0]):
        backward_of_head(
            load_rows(q[head]),
            load_rows(k[head]),
            load_rows(v[head]),
            load_rows(grad[head]),
            load_rows(out[head]),
            load_columns(log_sums[head]),
            grad_q[head],
            grad_k[head],
            grad_v[head],
        )
    return grad_q, grad_k, grad_v


def backward_of_head(
    q: nl.NkiTensor,
    k: nl.NkiTensor,
    v: nl.NkiTensor,
    grad: nl.NkiTensor,
    out: nl.NkiTensor,
    log_sums: nl.NkiTensor,
    grad_q: nl.NkiTensor,
    grad_k: nl.NkiTensor,
    grad_v: nl.NkiTensor,
) -> None:
    """Everything of one head; tensors in SBUF are [128, tiles, width], gradients [positions, width] in HBM."""
    tiles, width = q.shape[1], q.shape[2]
    scale = width**-0.5
    q_t, k_t, v_t, grad_t = transposed(q), transposed(k), transposed(v), transposed(grad)
    bias, delta = negated(log_sums), row_products(grad, out)
    sums_q = nl.ndarray((TILE, tiles, width), dtype=nl.float32, buffer=nl.sbuf)
    for first in range(0, tiles, KEYS):
        block = min(KEYS, tiles - first)
        sums_k = nl.ndarray((TILE, block, width), dtype=nl.float32, buffer=nl.psum)
        sums_v = nl.ndarray((TILE, block, width), dtype=nl.float32, buffer=nl.psum)
        for at in range(first, tiles):
            count = min(block, at + 1 - first)  # tiles of keys up to the diagonal
            keys = nl.ds(first * TILE, count * TILE)
            row = nl.ds(at * TILE, TILE)
            diagonal = first + count == at + 1
            weights = weights_of(q_t[:, row], k_t[:, keys], bias[:, nl.ds(at, 1)], scale, diagonal)
            grad_scores = grad_scores_of(weights, grad_t[:, row], v_t[:, keys], delta[:, nl.ds(at, 1)])
            for key in range(count):
                columns = nl.ds(key * TILE, TILE)
                more = at > first + key  # an earlier tile of queries has set these sums
                nisa.nc_matmul(
                    dst=sums_v[:, key, :],
                    stationary=weights[:, columns],
                    moving=grad[:, at, :],
                    accumulate=more,
                )
                nisa.nc_matmul(
                    dst=sums_k[:, key, :],
                    stationary=grad_scores[:, columns],
                    moving=q[:, at, :],
                    accumulate=more,
                )
            add_grad_q(sums_q[:, at, :], grad_scores, k[:, nl.ds(first, count), :], first == 0)
        store_rows(grad_v[nl.ds(first * TILE, block * TILE), :], sums_v, 1.0)
        store_rows(grad_k[nl.ds(first * TILE, block * TILE), :], sums_k, scale)
    store_rows(grad_q, sums_q, scale)


def weights_of(
    q_t: nl.NkiTensor, k_t: nl.NkiTensor, bias: nl.NkiTensor, scale: float, diagonal: bool
) -> nl.NkiTensor:
    """``exp(scale * q k^T - log_sums)`` of 128 queries and a block of keys, 0 after the diagonal."""
    count = k_t.shape[1]
    scores = nl.ndarray((TILE, count), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=q_t, moving=k_t)
    weights = nl.ndarray((TILE, count), dtype=q_t.dtype, buffer=nl.sbuf)
    nisa.activation(dst=weights, op=nl.exp, data=scores, scale=scale, bias=bias)
    if diagonal:
        last = weights[:, nl.ds(count - TILE, TILE)]
        nisa.affine_select(
            dst=last,
            pattern=[[-1, TILE]],
            channel_multiplier=1,
            on_true_tile=last,
            on_false_value=0.0,
            cmp_op=nl.greater_equal,  # query (the partition) >= key (the column)
        )
    return weights


def grad_scores_of(
    weights: nl.NkiTensor, grad_t: nl.NkiTensor, v_t: nl.NkiTensor, delta: nl.NkiTensor
) -> nl.NkiTensor:
    """``weights * (grad v^T - delta)``, without the scale."""
    grad_weights = nl.ndarray(weights.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=grad_weights, stationary=grad_t, moving=v_t)
    result = nl.ndarray(weights.shape, dtype=weights.dtype, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=result, data=grad_weights, op0=nl.subtract, operand0=delta, op1=nl.multiply, operand1=weights
    )
    return result


def add_grad_q(sums: nl.NkiTensor, grad_scores: nl.NkiTensor, k: nl.NkiTensor, first: bool) -> None:
    """Add ``grad_scores k`` of a block of keys to the sums of 128 queries; the first block sets them."""
    part = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.psum)
    for key in range(k.shape[1]):
        turned = nl.ndarray((TILE, TILE), dtype=grad_scores.dtype, buffer=nl.psum)
        by_key = nl.ndarray((TILE, TILE), dtype=grad_scores.dtype, buffer=nl.sbuf)
        nisa.nc_transpose(dst=turned, data=grad_scores[:, nl.ds(key * TILE, TILE)], engine=nisa.engine.tensor)
        nisa.tensor_copy(dst=by_key, src=turned)
        nisa.nc_matmul(dst=part, stationary=by_key, moving=k[:, key, :], accumulate=key > 0)
    if first:
        nisa.tensor_copy(dst=sums, src=part)
    else:
        nisa.tensor_tensor(dst=sums, data1=sums, data2=part, op=nl.add)


def row_products(grad: nl.NkiTensor, out: nl.NkiTensor) -> nl.NkiTensor:
    """``sum(grad * out)`` of every query as [128, tiles]: two instructions for a head."""
    products = nl.ndarray(grad.shape, dtype=nl.float32, buffer=nl.sbuf)
    sums = nl.ndarray((TILE, grad.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=products, data1=grad, data2=out, op=nl.multiply)
    nisa.tensor_reduce(dst=sums, op=nl.add, data=products, axis=2)
    return sums


def negated(values: nl.NkiTensor) -> nl.NkiTensor:
    """``-values``, which the Scalar Engine adds as its bias."""
    result = nl.ndarray(values.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=values, op0=nl.multiply, operand0=-1.0)
    return result


def load_rows(rows: nl.NkiTensor) -> nl.NkiTensor:
    """[positions, width] as [128, positions / 128, width], by one DMA."""
    tiles, width = rows.shape[0] // TILE, rows.shape[1]
    loaded = nl.ndarray((TILE, tiles, width), dtype=rows.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=loaded, src=rows.reshape_dim(0, (tiles, TILE)).permute((1, 0, 2)))
    return loaded


def load_columns(values: nl.NkiTensor) -> nl.NkiTensor:
    """[positions] as [128, positions / 128]."""
    tiles = values.shape[0] // TILE
    loaded = nl.ndarray((TILE, tiles), dtype=values.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=loaded, src=values.reshape_dim(0, (tiles, TILE)).permute((1, 0)))
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


def store_rows(rows: nl.NkiTensor, sums: nl.NkiTensor, scale: float) -> None:
    """Sums [128, tiles, width] times the scale, rounded, to [positions, width] in HBM."""
    tiles = sums.shape[1]
    rounded = nl.ndarray(sums.shape, dtype=rows.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=rounded, data=sums, op0=nl.multiply, operand0=scale)
    nisa.dma_copy(dst=rows.reshape_dim(0, (tiles, TILE)).permute((1, 0, 2)), src=rounded)
