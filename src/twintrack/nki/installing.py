"""Put our modules where kernels look for theirs: ``import nki`` and ``import neuronxcc.nki``.

``install()`` puts a finder in front of ``sys.meta_path`` that answers for every name below ``nki`` and ``neuronxcc``,
from the table ``MODULES``; ``uninstall()`` takes it away and puts back what was in ``sys.modules``. Together with the
registration of a torch device this is the only state that outlives a call; it lives in ``sys.meta_path`` and
``sys.modules``, where Python keeps it anyway.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

from twintrack.errors import UserError, nearest

__all__ = [
    "MODULES",
    "SIMULATOR_VARIABLE",
    "Target",
    "install",
    "installed",
    "is_installed",
    "simulator_requested",
    "uninstall",
]

SIMULATOR_VARIABLE = "NKI_SIMULATOR"
"""Environment variable that, set to 1, makes jitted kernels run on the simulator (nki/guides/nki_simulator.rst)."""


class Target(NamedTuple):
    """What an imported name means here.

    Attributes:
        module: our module; empty for a package that only holds others.
        shared: True: the name is that very module. False: a module of its own that looks names up in ours, for paths
            that re-export names which live elsewhere in our tree.
    """

    module: str
    shared: bool = True


MODULES: Mapping[str, Target] = MappingProxyType(
    {
        "nki": Target("twintrack.nki"),
        "nki.language": Target("twintrack.nki.language"),
        "nki.isa": Target("twintrack.nki.isa"),
        "nki.isa.constants": Target("twintrack.nki.isa.constants"),
        "nki.collectives": Target("twintrack.nki.collectives"),
        "nki.typing": Target("twintrack.nki.typing"),
        "nki.meta": Target("twintrack.nki.typing", shared=False),
        "nki.compiler": Target("twintrack.nki.compiler"),
        "nki.simulator": Target("twintrack.nki", shared=False),
        "neuronxcc": Target(""),
        "neuronxcc.nki": Target("twintrack.nki.legacy"),
        "neuronxcc.nki.language": Target("twintrack.nki.legacy.language"),
        "neuronxcc.nki.isa": Target("twintrack.nki.legacy.isa"),
        "neuronxcc.nki.isa.constants": Target("twintrack.nki.legacy.isa", shared=False),
        "neuronxcc.nki.isa.neuron_isa": Target("twintrack.nki.legacy.isa", shared=False),
        "neuronxcc.nki.typing": Target("twintrack.nki.legacy.typing"),
        "neuronxcc.nki.compiler": Target("twintrack.nki.legacy.compiler"),
        "neuronxcc.nki.compiler.sbuf": Target("twintrack.nki.legacy.compiler.sbuf"),
        "neuronxcc.nki.compiler.psum": Target("twintrack.nki.legacy.compiler.psum"),
    }
)
"""Imported name to our module: the documented modules, and the paths that public kernels import besides."""

_DISTRIBUTIONS = MappingProxyType({"nki": "nki", "neuronxcc": "neuronx-cc"})
"""Top-level module to the distribution that brings the real one."""


class _Finder(MetaPathFinder):
    """Answers for the names of the table; refuses all others below the same packages.

    Without the refusal Python would look for them in the folder of our own modules, and load files of ours a second
    time under another name.
    """

    def __init__(self, table: Mapping[str, Target]) -> None:
        self.table = table
        self.tops = frozenset(name.partition(".")[0] for name in table)
        self.hidden: dict[str, ModuleType] = {}

    def answers_for(self, name: str) -> bool:
        return name.partition(".")[0] in self.tops

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if not self.answers_for(fullname):
            return None
        if fullname not in self.table:
            like = nearest(fullname, self.table)
            raise ModuleNotFoundError(
                f"No module named '{fullname}' in the software NeuronCore{'; ' if like else ''}{like}",
                name=fullname,
            )
        return ModuleSpec(fullname, _Loader(self.table[fullname]), origin="twintrack", is_package=True)


class _Loader(Loader):
    """Puts what a target means into ``sys.modules`` in place of the empty module that Python made."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if self.target.module and not self.target.shared:
            return _View(spec.name, importlib.import_module(self.target.module))
        return None

    def exec_module(self, module: ModuleType) -> None:
        if self.target.module and self.target.shared:
            sys.modules[module.__name__] = importlib.import_module(self.target.module)


class _View(ModuleType):
    """A module whose public names are those of another."""

    def __init__(self, name: str, of: ModuleType) -> None:
        super().__init__(name, f"The names of {of.__name__}.")
        self.__dict__["_of"] = of

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        return getattr(self.__dict__["_of"], name)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *(name for name in dir(self._of) if not name.startswith("_"))})


def install() -> None:
    """Make ``import nki`` and ``import neuronxcc.nki`` find the modules of this package. Twice is once.

    Modules of these names that are already loaded, such as a test's stand-in, are set aside until ``uninstall()``.

    Raises:
        UserError: a real ``nki`` or ``neuronxcc`` is installed. It is looked for and never imported.
    """
    if _current() is not None:
        return
    finder = _Finder(MODULES)
    for name in [name for name in sys.modules if finder.answers_for(name)]:
        finder.hidden[name] = sys.modules.pop(name)
    try:
        for top in sorted(finder.tops):
            _refuse_a_real(top)
    except UserError:
        sys.modules.update(finder.hidden)
        raise
    sys.meta_path.insert(0, finder)


def uninstall() -> None:
    """Undo ``install()``: take the finder away, drop the modules it answered with, put back those set aside.

    Our own modules stay loaded under their own names, and objects that a caller imported keep working.
    """
    finder = _current()
    if finder is None:
        return
    sys.meta_path.remove(finder)
    loaded = {name: sys.modules[name] for name in list(sys.modules) if finder.answers_for(name)}
    for name, module in loaded.items():
        # Python binds every imported submodule to its parent, and a view's parent is a module of ours
        above, _, last = name.rpartition(".")
        parent = loaded.get(above)
        if parent is not None and isinstance(module, _View) and vars(parent).get(last) is module:
            delattr(parent, last)
        del sys.modules[name]
    sys.modules.update(finder.hidden)


@contextmanager
def installed() -> Iterator[None]:
    """Have the names installed inside a ``with`` block; afterwards all is as it was, nested or not."""
    before = is_installed()
    install()
    try:
        yield
    finally:
        if not before:
            uninstall()


def is_installed() -> bool:
    """Whether ``install()`` is in force."""
    return _current() is not None


@contextmanager
def simulator_requested(environment: MutableMapping[str, str] | None = None) -> Iterator[None]:
    """Have ``NKI_SIMULATOR=1`` in an environment (that of the process) inside a ``with`` block."""
    variables = os.environ if environment is None else environment
    before = variables.get(SIMULATOR_VARIABLE)
    variables[SIMULATOR_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            variables.pop(SIMULATOR_VARIABLE, None)
        else:
            variables[SIMULATOR_VARIABLE] = before


def _current() -> _Finder | None:
    return next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)


def _refuse_a_real(top: str) -> None:
    """Refuse where a package of this name can be imported. A bare folder of that name is none."""
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return
    distribution = _DISTRIBUTIONS[top]
    try:
        found = f"{distribution} {importlib.metadata.version(distribution)} in {spec.origin}"
    except importlib.metadata.PackageNotFoundError:
        found = f"a module '{top}' in {spec.origin}"
    raise UserError(
        f"no package '{top}' beside the software one",
        found=found,
        where="twintrack.nki.install()",
        remedy=f"use nki.simulate of that package, or an environment without {distribution}",
    )
