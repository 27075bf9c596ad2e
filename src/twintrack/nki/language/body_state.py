"""What the body of a loop can see besides NKI: the values that decide what its Python does.

Two iterations that begin with the same such state, and use the loop's index alike, do the same. The state is that of
every name in the body's code: locals, closures, globals, and whatever they lead to (containers, attributes of
objects, functions that are called and the names in them). What cannot be looked into, such as an iterator or a file,
makes it unknown.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from twintrack.neuroncore.isa.instruction import Register
from twintrack.neuroncore.memory.buffer import Buffer
from twintrack.neuroncore.memory.view import View
from twintrack.nki.language.traced_index import TracedIndex

__all__ = ["Unknown", "body_names", "seen", "steps_through"]

_KNOWN = """
    twintrack nki neuronxcc numpy ml_dtypes math operator functools itertools typing typing_extensions enum dataclasses
    collections numbers types abc contextlib builtins __future__
"""
_KNOWN_MODULES = frozenset(_KNOWN.split())
"""Of which no function keeps a state that a kernel can see; but for those below."""
_STATEFUL = frozenset({"numpy.random"})
_READING = """
    type id eval exec globals locals vars dir getattr setattr delattr open input compile breakpoint __import__
"""
_READERS = frozenset(_READING.split())
"""Built-in functions with which code reaches what its names do not tell."""
_PLAIN = (int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
_MOST = 50_000
"""Values that are looked at."""
_MOST_BYTES = 1 << 24


class Unknown(Exception):
    """Something whose state cannot be seen; the message says what."""


def steps_through(frame: FrameType) -> tuple[int, int] | None:
    """Where the body of the ``for`` statement lies that asks for an iterator now; ``None`` if none does so itself.

    Args:
        frame: that called ``__iter__``: by a ``for`` that goes through the iterator itself, not by ``zip`` or
            ``enumerate``, which count in a way that nobody can see.

    Returns:
        The first and one past the last byte of its code.
    """
    code = frame.f_code
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None  # the body runs in other frames too
    found = [one for one in dis.get_instructions(code) if one.offset >= frame.f_lasti]
    found = [one for one in found[:4] if one.opname not in ("EXTENDED_ARG", "CACHE")]
    if [one.opname for one in found[:2]] != ["GET_ITER", "FOR_ITER"]:
        return None
    if code.co_exceptiontable:
        return 0, len(code.co_code)  # handlers lie elsewhere
    return found[1].offset, int(found[1].argval)


def body_names(code: CodeType, span: tuple[int, int] | None = None) -> frozenset[str]:
    """Names in code, also in that of functions that it makes.

    Args:
        code: of a function.
        span: first and one past the last byte; all of it where ``None``.

    Raises:
        Unknown: if it imports a module that may keep a state.
    """
    found: set[str] = set()
    for one in dis.get_instructions(code):
        if span is not None and not span[0] <= one.offset < span[1]:
            continue
        value = one.argval
        if one.opname == "IMPORT_NAME" and not _is_known(str(value)):
            raise Unknown(f"it imports {value}")
        if isinstance(value, CodeType):
            found |= body_names(value)
        elif one.opname != "LOAD_CONST" and isinstance(value, str):
            found.add(value)
        elif one.opname != "LOAD_CONST" and isinstance(value, tuple):
            found.update(name for name in value if isinstance(name, str))
    return frozenset(found)


def _is_known(module: str) -> bool:
    return module.partition(".")[0] in _KNOWN_MODULES and module not in _STATEFUL


def seen(frame: FrameType, names: frozenset[str], outer: frozenset[int]) -> list[Any]:
    """The state that a loop's body can see, in a form that is equal where the states are.

    Args:
        frame: that runs the loop.
        names: in the body.
        outer: ``id`` of the buffers made before the loop; others count by what they are, as each iteration makes its
            own.

    Raises:
        Unknown: if a part of it cannot be seen.
    """
    look = _Look(outer)
    look.names(names, frame.f_globals, frame.f_locals)
    look.modules()
    return look.found


class _Look:
    """One look at the state."""

    def __init__(self, outer: frozenset[int]) -> None:
        self.found: list[Any] = []
        self._outer = outer
        self._met: dict[int, int] = {}
        self._kept: list[Any] = []
        self._modules: dict[int, tuple[ModuleType, set[str]]] = {}
        self._named: dict[str, None] = {}

    def names(
        self, names: frozenset[str], scope: Mapping[str, Any], local: Mapping[str, Any] | None = None
    ) -> None:
        """What the names of a piece of code mean."""
        for name in sorted(names):
            self._named[name] = None
            inner = local is not None and name in local
            if inner:
                assert local is not None  # noqa: S101 - it has the name
                self.found.append(name)
                self.value(local[name])
            if name in scope:
                self.found.append(name)
                self.value(scope[name])
            elif not inner and name in _READERS and hasattr(builtins, name):
                raise Unknown(f"it calls {name}")

    def modules(self) -> None:
        """What names mean as attributes of the modules that were met."""
        looked = True
        while looked:
            looked = False
            for module, done in tuple(self._modules.values()):
                for name in [one for one in tuple(self._named) if one not in done]:
                    done.add(name)
                    if name in vars(module):
                        self._attribute(module, name)
                        looked = True

    def _attribute(self, module: ModuleType, name: str) -> None:
        value = vars(module)[name]
        if not _is_known(module.__name__) or isinstance(value, ModuleType):
            self.found.append(name)
            self.value(value)

    def value(self, one: Any) -> None:
        """Add a value, and what it leads to."""
        kind = type(one)
        if kind is bool or kind in _PLAIN:
            self.found.append((kind, one))
            return
        if kind is TracedIndex:
            self.found.append(("index", one.coef, one.const, one.watch.loop))
            return
        if id(one) in self._met:
            self.found.append(("met", self._met[id(one)]))
            return
        self._met[id(one)] = len(self._met)
        self._kept.append(one)
        if len(self._met) > _MOST:
            raise Unknown(f"it reaches more than {_MOST:,} values")
        for kinds, look in _LOOKS:
            if isinstance(one, kinds):
                self.found.append(kind)
                look(self, one)
                return
        self._object(one)

    # kinds

    def _view(self, one: View) -> None:
        buffer = one.storage.buffer
        self.found.append((one.shape, one.strides, one.offset, one.dtype, one.dynamic is None))
        self.value(buffer)

    def _buffer(self, one: Buffer) -> None:
        known = id(one) in self._outer
        self.found.append(id(one) if known else (one.shape, one.dtype, one.region, one.lineno))

    def _register(self, one: Register) -> None:
        self.found.append((one.value, one.written))

    def _sequence(self, one: list[Any] | tuple[Any, ...]) -> None:
        self.found.append(len(one))
        for each in one:
            self.value(each)
        self._attributes(one)

    def _dictionary(self, one: dict[Any, Any]) -> None:
        self.found.append(len(one))
        for key, each in one.items():
            self.value(key)
            self.value(each)
        self._attributes(one)

    def _set(self, one: set[Any] | frozenset[Any]) -> None:
        if not all(type(each) in (int, float, str, bytes, bool) for each in one):
            raise Unknown("it reaches a set of objects")
        self.found.append(frozenset(one))
        self._attributes(one)

    def _span(self, one: range | slice) -> None:
        for each in (one.start, one.stop, one.step):
            self.value(each)

    def _array(self, one: np.ndarray[Any, Any]) -> None:
        if one.dtype.hasobject or one.nbytes > _MOST_BYTES:
            raise Unknown("it reaches an array of objects, or one of more than 16 MiB")
        self.found.append((one.dtype.str, one.shape, one.tobytes()))

    def _number(self, one: np.generic) -> None:
        self.found.append((one.dtype.str, one.tobytes()))

    def _module(self, one: ModuleType) -> None:
        name = one.__name__
        root = name.partition(".")[0]
        if name in _STATEFUL or (root in sys.stdlib_module_names and not _is_known(name)):
            raise Unknown(f"it uses module {name}")
        self._modules[id(one)] = (one, set())

    def _function(self, one: FunctionType) -> None:
        self.found.append(id(one.__code__))
        if _is_known(str(one.__module__)):
            return
        self.names(body_names(one.__code__), one.__globals__)
        for each in (one.__closure__ or (), one.__defaults__, one.__kwdefaults__, vars(one)):
            self.value(each)

    def _cell(self, one: CellType) -> None:
        try:
            self.value(one.cell_contents)
        except ValueError:  # not assigned yet
            self.found.append("empty")

    def _bound(self, one: MethodType) -> None:
        self.value(one.__func__)
        self.value(one.__self__)

    def _builtin(self, one: BuiltinFunctionType) -> None:
        owner = one.__self__
        if owner is not None and not isinstance(owner, ModuleType):
            self.found.append(one.__name__)
            self.value(owner)
            return
        name = str(one.__module__ or getattr(owner, "__name__", ""))
        if not _is_known(name) or (name == "builtins" and one.__name__ in _READERS):
            raise Unknown(f"it calls {one.__name__} of module {name}")
        self.found.append(id(one))

    def _partial(self, one: functools.partial[Any]) -> None:
        for each in (one.func, one.args, one.keywords):
            self.value(each)

    def _type(self, one: type) -> None:
        self.found.append(id(one))
        if one is type:
            raise Unknown("it calls type")
        if _is_known(str(one.__module__)) or issubclass(one, Enum):
            return
        for name, each in vars(one).items():
            if not name.startswith("__") or isinstance(each, FunctionType):
                self.value(each)
        for each in (*one.__bases__, type(one)):
            if each is not type:
                self.value(each)

    def _wrapper(self, one: Any) -> None:
        self.value(one.__func__)

    def _property(self, one: property) -> None:
        for each in (one.fget, one.fset, one.fdel):
            self.value(each)

    def _fixed(self, one: Any) -> None:
        self.found.append(id(one))

    def _object(self, one: Any) -> None:
        """An object of a class: what it is made of, and the functions of its class."""
        kind = type(one)
        module = str(kind.__module__)
        self.found.append(kind)
        if module.startswith("twintrack.neuroncore"):
            self.found.append(id(one))  # types, chips, cores: nothing that the body's own Python changes
            return
        wrapped = getattr(one, "__wrapped__", None)
        if wrapped is not None:
            self.value(wrapped)
            return
        if not kind.__flags__ & _HEAP_TYPE or (_is_known(module) and not module.startswith("twintrack")):
            raise Unknown(f"it uses an object of type {module}.{kind.__qualname__}")
        self.value(kind)
        self._attributes(one)

    def _attributes(self, one: Any) -> None:
        for name, each in _attributes_of(one):
            self.found.append(name)
            self.value(each)


_HEAP_TYPE = 1 << 9
"""Flag of types that Python code made: others may hold what cannot be seen."""


def _attributes_of(one: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(one, "__dict__", {}).items()
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(one, name):
                yield name, getattr(one, name)


_LOOKS: tuple[tuple[Any, Callable[[_Look, Any], None]], ...] = (
    (View, _Look._view),
    (Buffer, _Look._buffer),
    (Register, _Look._register),
    (Enum, _Look._fixed),
    (np.ndarray, _Look._array),
    (np.generic, _Look._number),
    (np.dtype, _Look._fixed),
    ((list, tuple), _Look._sequence),
    (dict, _Look._dictionary),
    ((set, frozenset), _Look._set),
    ((range, slice), _Look._span),
    (ModuleType, _Look._module),
    (FunctionType, _Look._function),
    (CellType, _Look._cell),
    (MethodType, _Look._bound),
    (BuiltinFunctionType, _Look._builtin),
    (functools.partial, _Look._partial),
    (type, _Look._type),
    ((staticmethod, classmethod), _Look._wrapper),
    (property, _Look._property),
    ((np.ufunc, CodeType), _Look._fixed),
)
