"""Profile the example kernels, and write what their pages say about it.

    python examples/kernels/profiles.py                    # print the sections of all pages
    python examples/kernels/profiles.py softmax            # of the page with this kernel
    python examples/kernels/profiles.py --write            # and put them into the pages, with their pictures

Every kernel is timed on trn2 at the size that ``run.py`` shows, bfloat16. A picture is the engine timeline of the page
that ``twintrack kernel profile --out`` writes, drawn by Chromium. Of a collective, rank 0 is timed. The steps of the
matrix multiplication are timed once more at the size of a published measurement. --write with no name remakes all.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from matmul_steps import STEPS, profile_step, steps_section
from pages import sentence, table_text, write_sections
from run import FOLDER, inputs_of
from table import EXAMPLES, Example, example

from twintrack.neuroncore.isa.instruction import Instruction
from twintrack.neuroncore.memory.generation import GENERATIONS
from twintrack.neuroncore.timing.binding import LIMIT_NAMES
from twintrack.neuroncore.timing.export import write_profile
from twintrack.neuroncore.timing.parameters import parameters_of
from twintrack.neuroncore.timing.profile import Profile
from twintrack.neuroncore.timing.summary import Run, profile_of
from twintrack.neuroncore.timing.trace import Trace
from twintrack.neuroncore.timing.views import error_text, unpublished_text
from twintrack.nki.arrays import Shape
from twintrack.nki.files import load_kernel
from twintrack.nki.kernel import Kernel, Options
from twintrack.nki.launch import launch_ranks
from twintrack.nki.profiling import profile
from twintrack.report.format import quantity_text
from twintrack.storage import LocalFileSystem

__all__ = ["command_of", "main", "picture_of", "profile_example", "section_of"]

CHIP = "trn2"
DTYPE = "bfloat16"
_HELPING = 3

_NEARER: Mapping[str, int] = MappingProxyType(
    {"flash_attention_forward": 4, "flash_attention_backward": 2, "selective_scan": 3}
)
"""How often a picture is zoomed into by 2, around the middle of the kernel, where all of it would be too fine."""
_WIDTH = 900
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def _shapes(one: Example) -> list[dict[str, Shape]]:
    given = inputs_of(one, DTYPE, one.shown)
    return [{name: Shape(value.shape, value.dtype.name) for name, value in rank.items()} for rank in given]


def _kernel(one: Example) -> Kernel:
    return load_kernel(f"{FOLDER / one.folder / 'kernel.py'}:{one.name}")


def profile_example(one: Example) -> Profile:
    """The kernel at the size that ``run.py`` shows; of a collective, rank 0."""
    if one.ranks > 1:
        return _first_rank(one)
    (given,) = _shapes(one)
    return profile(_kernel(one), chip=CHIP, lnc=one.cores, settings=given)


def _first_rank(one: Example) -> Profile:
    """What rank 0 issues while all ranks run."""
    trace = Trace(parameters_of(CHIP))

    def keep(lane: int, ins: Instruction) -> None:
        if lane == 0:
            trace.keep(0, ins)

    options = Options(GENERATIONS[CHIP], sink=keep, values=False)
    kernel = _kernel(one)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((), dict(given)) for given in _shapes(one)]
    first, *_ = launch_ranks(kernel.function, (), calls, options, ranks_per_node=one.ranks)
    found = profile_of(Run(one.name, (trace,), first.memory, options.generation))
    note = (
        f"rank 0 of {one.ranks}; a collective is timed as a DMA of this rank's bytes: the wait for other ranks and the "
        "links between them are left out"
    )
    return replace(found, notes=(note, *found.notes))


def command_of(one: Example) -> str:
    """The general command that gives the same profile, and its page; empty for a collective, which needs all ranks."""
    if one.ranks > 1:
        return ""
    (given,) = _shapes(one)
    parts = [f"twintrack kernel profile examples/kernels/{one.folder}/kernel.py:{one.name}"]
    parts += [f"--shape {name}={_shape(value)}" for name, value in given.items()]
    parts += [f"--chip {CHIP}"] + ([f"--lnc {one.cores}"] if one.cores > 1 else []) + ["--out profile/"]
    return " ".join(parts)


def _shape(value: Shape) -> str:
    return f"{'x'.join(map(str, value.dims))}:{value.dtype}"


def _uses(found: Profile) -> str:
    names = [LIMIT_NAMES[name].removesuffix(" Engine") for name in found.engines]
    uses = [*found.engines.values(), found.dma]
    counts = [one.instructions for one in found.engines.values()] + [found.dma.transfers]
    active = [
        f"{one.active_seconds * 1e6:,.1f} µs" if count else "-"
        for one, count in zip(uses, counts, strict=True)
    ]
    share = [f"{one.share:.0%}" if count else "-" for one, count in zip(uses, counts, strict=True)]
    rows = [
        ("active", *active),
        ("share of the time", *share),
        ("instructions", *(f"{count:,}" for count in counts)),
    ]
    return table_text(("", *names, "DMA"), rows)


def _helps(found: Profile) -> str:
    rows = [
        (one.text, f"{one.seconds * 1e6:,.1f} µs", f"{one.saved:.0%}") for one in found.what_if[:_HELPING]
    ]
    return table_text(("what would help most", "time", "saved"), rows)


def section_of(one: Example, found: Profile) -> str:
    """What a page says of one kernel, Markdown: its time, what binds it, engines, what would help, picture."""
    sizes = ", ".join(f"{name}={value:,}" for name, value in one.shown.items())
    time = quantity_text(found.time)
    lines = [
        f"`{one.name}`, {DTYPE}, {sizes}, {found.where}: **{time}**, simulated.",
        f"{sentence(found.binding.why)} {sentence(error_text(found))}",
        *(sentence(note) for note in found.notes),
    ]
    if one.cores > 1:
        lines.append("Times of engines and of DMA are sums over both cores, shares are of both cores' time.")
    if text := unpublished_text(found):
        lines.append(sentence(text))
    parts = ["\n".join(lines), _uses(found), _helps(found)]
    if command := command_of(one):
        parts.insert(1, f"    {command}")
    parts.append(f"![Engine timeline of {one.name}]({picture_of(one).name})")
    return "\n\n".join(parts)


def picture_of(one: Example) -> Path:
    """Where its picture is."""
    alone = sum(other.folder == one.folder for other in EXAMPLES) == 1
    return FOLDER / one.folder / ("profile.png" if alone else f"profile_{one.name}.png")


@contextmanager
def _browser() -> Iterator[Any]:
    """Chromium.

    Raises:
        FileNotFoundError: if there is none.
    """
    from playwright.sync_api import sync_playwright

    path = next((found for name in _CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        raise FileNotFoundError("no Chromium: install the package chromium, or leave out --write")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def _draw(browser: Any, one: Example, found: Profile) -> None:
    """Write the timeline of the profile's page as a picture."""
    with TemporaryDirectory() as folder:
        page_path, *_ = write_profile(found, Path(folder), LocalFileSystem())
        page = browser.new_page(viewport={"width": _WIDTH, "height": 900}, color_scheme="light")
        page.goto(page_path.as_uri())
        canvas = page.locator(".tracks canvas")
        canvas.wait_for()
        for _ in range(_NEARER.get(one.name, 0)):
            canvas.press("+")
        canvas.evaluate("canvas => canvas.blur()")
        canvas.screenshot(path=picture_of(one))
        page.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0, or 2 where a picture cannot be drawn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", nargs="?", choices=[one.name for one in EXAMPLES])
    parser.add_argument("--write", action="store_true", help="into the pages, with pictures")
    given = parser.parse_args(arguments)
    asked = {one.folder for one in ([example(given.name)] if given.name else EXAMPLES)}
    made: dict[str, list[str]] = {}
    profiles = [(one, profile_example(one)) for one in EXAMPLES if one.folder in asked]
    for one, found in profiles:
        made.setdefault(one.folder, []).append(section_of(one, found))
    if STEPS[0].folder in made:
        steps = [profile_step(one, CHIP, what_if=True) for one in STEPS]
        older = [profile_step(one, "trn1", what_if=False) for one in STEPS]
        made[STEPS[0].folder].insert(0, steps_section(steps, older))
    if not given.write:
        print("\n\n".join(section for sections in made.values() for section in sections))
        return 0
    for folder, sections in made.items():
        write_sections(FOLDER / folder / "README.md", sections)
    try:
        with _browser() as browser:
            for one, found in profiles:
                _draw(browser, one, found)
    except FileNotFoundError as error:
        print(f"profiles.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
