"""Kernels of one thing each, for tests of profiles."""

from __future__ import annotations

from twintrack.nki import isa as nisa
from twintrack.nki import language as nl


def pure_dma(x, out):
    """Tiles of 1 MiB, in and out again: rows of 8 KiB."""
    width = 4096
    for at in range(0, x.shape[1], width):
        tile = nl.ndarray((128, width), nl.bfloat16)
        nisa.dma_copy(tile, x[:, at : at + width])
        nisa.dma_copy(out[:, at : at + width], tile)
    return out


def pure_matmul(out, count=400):
    """Products of resident operands."""
    left, right = nl.ndarray((128, 128), nl.bfloat16), nl.ndarray((128, 512), nl.bfloat16)
    nisa.memset(left, 0)
    nisa.memset(right, 0)
    sums = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
    for _ in range(count):
        nisa.nc_matmul(sums, left, right, accumulate=False)
    tile = nl.ndarray((128, 512), nl.float32)
    nisa.tensor_copy(tile, sums)
    nisa.dma_copy(out, tile)
    return out


def pure_vector(out, count=100):
    """Wide additions of resident operands."""
    one, other = nl.ndarray((128, 8192), nl.float32), nl.ndarray((128, 8192), nl.float32)
    nisa.memset(one, 0)
    nisa.memset(other, 0)
    for _ in range(count):
        nisa.tensor_tensor(one, one, other, op=nl.add)
    nisa.dma_copy(out, one[:, :512])
    return out


def small_transfers(out, count=64):
    """Many transfers of 128 rows of 32 bytes, one queue."""
    for at in range(count):
        tile = nl.ndarray((128, 8), nl.float32)
        nisa.memset(tile, 0)
        nisa.dma_copy(out[:, at * 8 : at * 8 + 8], tile)
    return out


def two_cores(x, long_core=0, barriers=2):
    """The cores take turns at long work; each goes on with what the other stored before the barrier."""
    out = nl.ndarray((256, 512), nl.float32, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    tile = nl.ndarray((128, 512), nl.float32)
    nisa.memset(tile, 0)
    for turn in range(barriers):
        if core == (long_core + turn) % 2:
            for _ in range(20):
                nisa.tensor_tensor(tile, tile, tile, op=nl.add)
        nisa.dma_copy(out[core * 128 : core * 128 + 128, :], tile)
        nisa.core_barrier(out, cores=(0, 1))
        other = (1 - core) * 128
        nisa.dma_copy(tile, out[other : other + 128, :])
    return out


def crossed_pipes(x):
    """Core 0 exchanges by pipe 0 and then 1, core 1 the other way; core 1 works before pipe 0."""
    out = nl.ndarray((256, 512), nl.float32, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    mine = nl.ndarray((128, 512), nl.float32)
    late = nl.ndarray((128, 512), nl.float32)
    nisa.memset(mine, 0)
    nisa.memset(late, 0)
    for pipe in (core, 1 - core):
        source = late if pipe == 0 else mine
        if core == 1 and pipe == 0:
            for _ in range(20):
                nisa.tensor_tensor(late, late, late, op=nl.add)
        received = nl.ndarray((128, 512), nl.float32)
        nisa.sendrecv(src=source, dst=received, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=pipe)
    nisa.dma_copy(out[core * 128 : core * 128 + 128, :], received)
    return out


def both_load(x):
    """Both cores load at once; nothing else."""
    out = nl.ndarray((256, 512), nl.bfloat16, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    for at in range(16):
        tile = nl.ndarray((128, 4096), nl.bfloat16)
        nisa.dma_copy(tile, x[core * 128 : core * 128 + 128, at * 4096 : (at + 1) * 4096])
    nisa.dma_copy(out[core * 128 : core * 128 + 128, :], tile[:, :512])
    return out


def empty(x):
    """Issues nothing."""
    return x


def broken(x):
    """Reads a tile that nothing wrote."""
    tile = nl.ndarray((128, 512), nl.float32)
    nisa.dma_copy(x, tile)
    return x
