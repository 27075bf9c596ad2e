"""Chips, and the logical NeuronCores that a program sees on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twintrack.errors import CatalogueError, nearest
from twintrack.hardware.records import Record, figure
from twintrack.hardware.units import in_base_unit
from twintrack.quantity import Quantity

__all__ = ["Chip", "LogicalCore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalCore:
    """One logical NeuronCore: ``lnc`` physical cores that a program sees as one. All figures in base units.

    ``tensor_peak_flop_per_s`` holds dense peaks by number format: ``bf16``, ``fp32``, ``fp8`` and, on
    Trainium3, ``mxfp8``.
    """

    chip: str
    lnc: int
    cores: Quantity
    tensor_peak_flop_per_s: Mapping[str, Quantity]
    hbm_bandwidth_byte_per_s: Quantity
    hbm_capacity_byte: Quantity
    sbuf_byte: Quantity
    psum_byte: Quantity

    def tensor_peak(self, dtype: str) -> Quantity:
        """Dense peak of the tensor engine for ``dtype``, in FLOP/s.

        Raises:
            CatalogueError: if there is no such number format in the catalogue for this chip.
        """
        return _by_dtype(self.tensor_peak_flop_per_s, dtype, f"logical core of {self.chip}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip(Record):
    """One accelerator chip. Peaks are dense unless the field says sparse; ``core_`` is per physical core."""

    vendor: str
    architecture: str
    link: str
    lnc: tuple[int, ...] = ()
    """Logical NeuronCore configurations that the chip supports, the default last; empty for a GPU."""

    cores: Quantity | None = field(default=None, metadata=figure("cores", "NeuronCores"))
    tensor_bf16_tflops: Quantity = field(metadata=figure("TFLOPS", "peak BF16, dense"))
    tensor_fp8_tflops: Quantity = field(metadata=figure("TFLOPS", "peak FP8, dense"))
    tensor_mxfp8_tflops: Quantity | None = field(default=None, metadata=figure("TFLOPS", "peak MXFP8, dense"))
    tensor_fp32_tflops: Quantity = field(metadata=figure("TFLOPS", "peak FP32"))
    tensor_sparse_tflops: Quantity | None = field(
        default=None, metadata=figure("TFLOPS", "peak 16-bit, structured sparse")
    )
    hbm_capacity_gib: Quantity = field(metadata=figure("GiB", "HBM capacity"))
    hbm_bandwidth_tb_per_s: Quantity = field(metadata=figure("TB/s", "HBM bandwidth"))
    hbm_stacks: Quantity | None = field(default=None, metadata=figure("stacks", "HBM stacks"))
    link_bandwidth_gb_per_s: Quantity = field(metadata=figure("GB/s", "chip-to-chip link, total"))
    power_w: Quantity = field(metadata=figure("W", "chip power"))
    core_tensor_bf16_tflops: Quantity | None = field(
        default=None, metadata=figure("TFLOPS", "core: TensorE BF16, dense")
    )
    core_tensor_fp8_tflops: Quantity | None = field(
        default=None, metadata=figure("TFLOPS", "core: TensorE FP8, dense")
    )
    core_tensor_mxfp8_tflops: Quantity | None = field(
        default=None, metadata=figure("TFLOPS", "core: TensorE MXFP8, dense")
    )
    core_tensor_fp32_tflops: Quantity | None = field(
        default=None, metadata=figure("TFLOPS", "core: TensorE FP32")
    )
    core_vector_fp32_tflops: Quantity | None = field(
        default=None, metadata=figure("TFLOPS", "core: VectorE FP32")
    )
    core_scalar_fp32_tflops: Quantity | None = field(
        default=None, metadata=figure("TFLOPS", "core: ScalarE FP32")
    )
    tensor_clock_ghz: Quantity | None = field(default=None, metadata=figure("GHz", "core: TensorE clock"))
    vector_clock_ghz: Quantity | None = field(default=None, metadata=figure("GHz", "core: VectorE clock"))
    scalar_clock_ghz: Quantity | None = field(default=None, metadata=figure("GHz", "core: ScalarE clock"))
    gpsimd_clock_ghz: Quantity | None = field(default=None, metadata=figure("GHz", "core: GpSimdE clock"))
    sbuf_per_core_mib: Quantity | None = field(default=None, metadata=figure("MiB", "core: SBUF"))
    psum_per_core_mib: Quantity | None = field(default=None, metadata=figure("MiB", "core: PSUM"))
    dma_per_core_gb_per_s: Quantity | None = field(
        default=None, metadata=figure("GB/s", "core: DMA, 16 engines")
    )
    dma_bandwidth_tb_per_s: Quantity | None = field(default=None, metadata=figure("TB/s", "DMA bandwidth"))
    dma_engines: Quantity | None = field(default=None, metadata=figure("engines", "DMA engines of the cores"))
    cc_cores: Quantity | None = field(default=None, metadata=figure("cores", "CC-cores"))

    def peak_flop_per_s(self, dtype: str) -> Quantity:
        """Dense peak of the whole chip in FLOP/s: cores times core peak on Trainium, as published on a GPU.

        On Trainium the sum over the cores is below the chip page's figure; the disagreement is recorded.

        Raises:
            CatalogueError: if there is no such number format in the catalogue for this chip.
        """
        if self.cores is None:
            peaks = {
                "bf16": self.tensor_bf16_tflops,
                "fp8": self.tensor_fp8_tflops,
                "fp32": self.tensor_fp32_tflops,
            }
            peak = in_base_unit(_by_dtype(peaks, dtype, self.title))
            return peak.under(f"per {self.title} chip, {peak.conditions or 'dense'}")
        core = _by_dtype(self._core_peaks(), dtype, self.title)
        conditions = f"per {self.title} chip, {core.conditions or 'dense'}"
        return _times(int(self.cores.require()), core, f"core_tensor_{dtype}_tflops", conditions)

    def logical_core(self, lnc: int) -> LogicalCore:
        """The logical NeuronCore made of ``lnc`` physical cores.

        HBM figures are the chip's divided by its cores: an equal share of what the cores use together.

        Raises:
            CatalogueError: if the chip has no NeuronCores or does not support this configuration.
        """
        if self.cores is None or lnc not in self.lnc:
            allowed = ", ".join(map(str, self.lnc)) or "none: it has no NeuronCores"
            raise CatalogueError(
                f"a logical NeuronCore configuration of {self.title} ({allowed})",
                found=f"LNC {lnc}",
                where=self.name,
                remedy="choose one of those" if self.lnc else "choose a Trainium chip",
            )
        scope = f"per logical NeuronCore, LNC {lnc}"

        def whole(core: Quantity, name: str) -> Quantity:
            text = f"{scope}, {core.conditions}" if core.conditions else scope
            return _times(lnc, core, name, text)

        sbuf, psum = self.sbuf_per_core_mib, self.psum_per_core_mib
        if sbuf is None or psum is None:
            raise ValueError(f"{self.name} has cores but no SBUF or PSUM figure")
        return LogicalCore(
            chip=self.name,
            lnc=lnc,
            cores=Quantity.derived(lnc, "cores", f"LNC {lnc}", [self.cores], conditions=scope),
            tensor_peak_flop_per_s={
                dtype: whole(core, f"core_tensor_{dtype}_tflops")
                for dtype, core in self._core_peaks().items()
            },
            hbm_bandwidth_byte_per_s=self._share(self.hbm_bandwidth_tb_per_s, lnc, scope),
            hbm_capacity_byte=self._share(self.hbm_capacity_gib, lnc, scope),
            sbuf_byte=whole(sbuf, "sbuf_per_core_mib"),
            psum_byte=whole(psum, "psum_per_core_mib"),
        )

    def _core_peaks(self) -> dict[str, Quantity]:
        peaks = {
            "bf16": self.core_tensor_bf16_tflops,
            "fp32": self.core_tensor_fp32_tflops,
            "fp8": self.core_tensor_fp8_tflops,
            "mxfp8": self.core_tensor_mxfp8_tflops,
        }
        return {dtype: peak for dtype, peak in peaks.items() if peak is not None}

    def _share(self, chip_figure: Quantity, lnc: int, scope: str) -> Quantity:
        """``lnc`` cores' equal share of a figure of the chip, in its base unit."""
        cores, base = self.cores, in_base_unit(chip_figure)
        if cores is None or base.value is None or cores.value is None:
            return Quantity.unknown(base.unit, f"the figure of the {self.title} chip is unknown")
        value = base.value * lnc / cores.value
        formula = f"{lnc} x {chip_figure.value:g} {chip_figure.unit} per chip / {cores.value} cores"
        share = int(value) if value == int(value) else value
        return Quantity.derived(share, base.unit, formula, [chip_figure, cores], conditions=scope)


def _times(count: int, each: Quantity, name: str, conditions: str) -> Quantity:
    """``count`` times the core's figure ``name``, in its base unit; one times it is the figure itself."""
    base = in_base_unit(each)
    if count == 1 or base.value is None:
        return base.under(conditions)
    formula = f"{count} cores x {each.value:g} {each.unit} ({name})"
    return Quantity.derived(base.value * count, base.unit, formula, [each], conditions=conditions)


def _by_dtype(peaks: Mapping[str, Quantity], dtype: str, where: str) -> Quantity:
    if dtype not in peaks:
        known = ", ".join(sorted(peaks))
        raise CatalogueError(
            f"a number format with a peak ({known})",
            found=repr(dtype),
            where=where,
            remedy=nearest(dtype, peaks) or "choose one of those",
        )
    return peaks[dtype]
