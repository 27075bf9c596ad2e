"""The rooms of the package: who may import whom, and what no room may do. Nothing runs; sources are read.

The order of the rooms comes from ``docs/architecture.md``, so the document and this test cannot drift apart.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "twintrack"
SOURCES = sorted(PACKAGE.rglob("*.py"))
RUN_BY_PEOPLE = [
    path for folder in ("benchmarks", "scripts", "examples") for path in sorted((ROOT / folder).rglob("*.py"))
]
ENTRY_POINT = "__main__"


def _rooms_of_the_document() -> list[str]:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    found = re.search(r"only from rooms above them in this list:\n\n((?:.+\n)+)", text)
    assert found, (
        "docs/architecture.md: keep the list of rooms after 'only from rooms above them in this list:'"
    )
    return re.findall(r"`(\w+)`", found.group(1))


ROOMS = _rooms_of_the_document()


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imported_rooms(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and room of every import of the package, absolute, relative or by ``import_module``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _room_of_module(node.lineno, alias.name, [])
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "<relative>"
            else:
                yield from _room_of_module(node.lineno, node.module or "", [a.name for a in node.names])
        elif isinstance(node, ast.Call) and _called(node).endswith("import_module") and node.args:
            first = node.args[0]
            if isinstance(first, ast.JoinedStr) and first.values:
                first = first.values[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield from _room_of_module(node.lineno, first.value, [])


def _room_of_module(line: int, module: str, names: list[str]) -> Iterator[tuple[int, str]]:
    parts = module.split(".")
    if parts[0] != "twintrack":
        return
    if len(parts) > 1:
        yield line, parts[1]
    else:
        yield from ((line, name) for name in names if name in ROOMS)


def _called(node: ast.Call) -> str:
    """Dotted name of what is called, such as ``torch.load``; empty where it is no plain name."""
    parts: list[str] = []
    function: ast.expr = node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    return ".".join([function.id, *reversed(parts)]) if isinstance(function, ast.Name) else ""


def _against_the_order(path: Path, tree: ast.AST) -> list[str]:
    room = _room(path)
    wrong = []
    for line, imported in _imported_rooms(tree):
        if imported == "<relative>":
            wrong.append(f"{_name(path)}:{line}: write the import as 'from twintrack.x import y'")
        elif imported not in ROOMS:
            wrong.append(f"{_name(path)}:{line}: '{imported}' is no room of docs/architecture.md")
        elif imported == "cli" and room not in ("cli", ENTRY_POINT):
            wrong.append(
                f"{_name(path)}:{line}: nothing imports 'cli'; move what you need to a room above it"
            )
        elif room in ROOMS and ROOMS.index(imported) > ROOMS.index(room):
            wrong.append(
                f"{_name(path)}:{line}: '{room}' may not import '{imported}', which is below it; move the "
                f"shared part up, or pass it in"
            )
    return wrong


def test_every_file_of_the_package_belongs_to_a_room():
    unknown = {_room(path) for path in SOURCES} - {*ROOMS, "__init__", ENTRY_POINT}

    assert not unknown, (
        f"add {sorted(unknown)} to the list of rooms in docs/architecture.md, where it belongs"
    )


def test_rooms_import_only_from_rooms_above_them():
    wrong = [line for path in SOURCES for line in _against_the_order(path, ast.parse(path.read_text()))]

    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("file", "code", "complaint"),
    [
        ("storage/disk.py", "from twintrack.training import loop", "'storage' may not import 'training'"),
        ("storage/disk.py", "import twintrack.events", "'storage' may not import 'events'"),
        ("storage/disk.py", "from twintrack import job", "'storage' may not import 'job'"),
        ("storage/disk.py", "def f():\n  import twintrack.pilot", "'storage' may not import 'pilot'"),
        ("pilot/a.py", "from twintrack.cli import main", "nothing imports 'cli'"),
        ("pilot/a.py", "from . import b", "write the import as"),
        ("pilot/a.py", "from twintrack.utils import x", "no room"),
        ("job/a.py", "import importlib\nimportlib.import_module('twintrack.pilot')", "'job' may not"),
        (
            "job/a.py",
            "from importlib import import_module\nimport_module(f'twintrack.pilot.{x}')",
            "'job' may",
        ),
    ],
)
def test_an_import_against_the_order_is_found(file, code, complaint):
    (found,) = _against_the_order(PACKAGE / file, ast.parse(code))

    assert complaint in found


@pytest.mark.parametrize(
    "code",
    [
        "from twintrack import __version__",
        "from twintrack.errors import JobError",
        "import torch.nn",
        "from torch import jax",
        "from twintrack.training.checkpoint import a",
    ],
)
def test_an_import_along_the_order_is_left_alone(code):
    assert _against_the_order(PACKAGE / "training/a.py", ast.parse(code)) == []


_MODULES_THAT_EXECUTE_DATA = {
    "pickle",
    "_pickle",
    "cPickle",
    "cloudpickle",
    "dill",
    "joblib",
    "shelve",
    "marshal",
}
_CALLS_THAT_EXECUTE_DATA = {
    "eval", "exec", "builtins.eval", "builtins.exec", "torch.load", "torch.save", "torch.jit.load",
    "torch.package.PackageImporter", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "pandas.read_pickle",
    "pd.read_pickle", "joblib.load",
}  # fmt: skip
_NAMES_THAT_EXECUTE_DATA = {
    "FileSystemWriter",
    "FileSystemReader",
}  # torch.distributed.checkpoint's own, pickled


def _executes_data(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            yield from ((node.lineno, n) for n in names if n.split(".")[0] in _MODULES_THAT_EXECUTE_DATA)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module.split(".")[0] in _MODULES_THAT_EXECUTE_DATA:
                yield node.lineno, module
            for alias in node.names:
                if (
                    f"{module}.{alias.name}" in _CALLS_THAT_EXECUTE_DATA
                    or alias.name in _NAMES_THAT_EXECUTE_DATA
                ):
                    yield node.lineno, f"{module}.{alias.name}"
        elif isinstance(node, ast.Attribute) and node.attr in _NAMES_THAT_EXECUTE_DATA:
            yield node.lineno, node.attr
        elif isinstance(node, ast.Call):
            if _called(node) in _CALLS_THAT_EXECUTE_DATA:
                yield node.lineno, _called(node)
            for keyword in node.keywords:
                allows = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
                if keyword.arg in ("allow_pickle", "trust_remote_code") and allows:
                    yield node.lineno, f"{keyword.arg}=True"


def test_nothing_read_from_disk_is_executed():
    wrong = [
        f"{_name(path)}:{line}: {what}"
        for path in [*SOURCES, *RUN_BY_PEOPLE]
        for line, what in _executes_data(ast.parse(path.read_text(encoding="utf-8")))
    ]

    assert not wrong, "use safetensors for tensors, JSON or TOML for the rest:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import loads",
        "import torch\ntorch.load(p, weights_only=True)",
        "from torch import load",
        "eval('1')",
        "import yaml\nyaml.load(s)",
        "from torch.distributed.checkpoint import FileSystemWriter",
        "dcp.FileSystemReader(p)",
        "np.load(p, allow_pickle=True)",
        "AutoModel.from_pretrained(p, trust_remote_code=True)",
    ],
)
def test_code_that_executes_data_is_found(code):
    assert list(_executes_data(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["model.eval()", "json.load(f)", "yaml.safe_load(s)", "np.load(p)", "re.compile(s)"]
)
def test_code_that_only_looks_like_it_is_left_alone(code):
    assert not list(_executes_data(ast.parse(code)))
