"""Top-k router of a mixture of experts: which experts a token goes to, how much of each, and how many tokens each gets.

    x_t [width, tokens], weight [width, experts] -> weights [tokens, k] float32, experts [tokens, k] uint32,
                                                    tokens per expert [1, experts] float32

128 tokens at a time, one per partition:

    Tensor  logits [128, experts]                contraction over width, float32 in PSUM
    Vector  the 8 largest of each row, sorted    one instruction (max8)
    Vector  their columns                        one instruction (nc_find_index8)
    Scalar  exp(logit - largest) of the first k, with their sum
    Vector  mask: logit >= k-th largest
    Tensor  ones^T mask, added up in PSUM over all tokens: tokens per expert

Nothing leaves the chip between the product and the decision.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl

TILE = 128  # tokens per tile, and rows of the contraction
BEST = 8  # values that max8 and nc_find_index8 give


@nki.jit
def top_k_router(
    x_t: nl.NkiTensor, weight: nl.NkiTensor, k: int = 2
) -> tuple[nl.NkiTensor, nl.NkiTensor, nl.NkiTensor]:
    """Width and tokens are multiples of 128, ``k`` is at most 8, experts 8 to 512."""
    tokens, experts = x_t.shape[1], weight.shape[1]
    weights = nl.ndarray((tokens, k), dtype=nl.float32, buffer=nl.shared_hbm)
    chosen = nl.ndarray((tokens, k), dtype=nl.uint32, buffer=nl.shared_hbm)
    counts = nl.ndarray((1, experts), dtype=nl.float32, buffer=nl.shared_hbm)

    columns = load_rows(weight)
    ones = nl.ndarray((TILE, 1), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    sums = nl.ndarray((1, experts), dtype=nl.float32, buffer=nl.psum)
    for start in range(0, tokens, TILE):
        rows = nl.ds(start, TILE)
        logits = logits_of(load_rows(x_t[:, rows]), columns)
        best = nl.ndarray((TILE, BEST), dtype=nl.float32, buffer=nl.sbuf)
        index = nl.ndarray((TILE, BEST), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.max8(dst=best, src=logits)
        nisa.nc_find_index8(dst=index, data=logits, vals=best)
        nisa.dma_copy(dst=chosen[rows, :], src=index[:, 0:k])
        nisa.dma_copy(dst=weights[rows, :], src=softmax(best[:, 0:k]))

        mask = nl.ndarray((TILE, experts), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=mask, data=logits, op0=nl.greater_equal, operand0=best[:, k - 1 : k])
        nisa.nc_matmul(dst=sums, stationary=ones, moving=mask, accumulate=start > 0)
    total = nl.ndarray((1, experts), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=sums)
    nisa.dma_copy(dst=counts, src=total)
    return weights, chosen, counts


def load_rows(source: nl.NkiTensor) -> nl.NkiTensor:
    """[rows, width] as [128, rows / 128, width], by one DMA."""
    tiles, width = source.shape[0] // TILE, source.shape[1]
    loaded = nl.ndarray((TILE, tiles, width), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=loaded, src=source.reshape_dim(0, (tiles, TILE)).permute((1, 0, 2)))
    return loaded


def logits_of(x_t: nl.NkiTensor, weight: nl.NkiTensor) -> nl.NkiTensor:
    """[128 tokens, experts] float32, in SBUF, as several instructions read them."""
    experts = weight.shape[2]
    sums = nl.ndarray((TILE, experts), dtype=nl.float32, buffer=nl.psum)
    for at in range(weight.shape[1]):
        nisa.nc_matmul(dst=sums, stationary=x_t[:, at, :], moving=weight[:, at, :], accumulate=at > 0)
    logits = nl.ndarray((TILE, experts), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=logits, src=sums)
    return logits


def softmax(best: nl.NkiTensor) -> nl.NkiTensor:
    """Of values sorted from the largest."""
    negated = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    powers = nl.ndarray(best.shape, dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=negated, data=best[:, 0:1], op0=nl.multiply, operand0=-1.0)
    nisa.activation(
        dst=powers,
        op=nl.exp,
        data=best,
        bias=negated,
        reduce_op=nl.add,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=powers, data=powers, op0=nl.multiply, operand0=total)
    return powers
