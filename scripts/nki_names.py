"""Write the list of documented NKI names from the vendor's tagged stubs: ``nki_names.py GIT_DIR [--output FILE]``.

``GIT_DIR`` is the git directory of a clone of ``aws-neuron/aws-neuron-sdk`` that has the tags below. The stubs
(``nki/api/nki/*/__init__.py``) are parsed, never run. Names, parameters, defaults as source text and the versions that
have them are kept; no sentence of the documentation is. ``twintrack.nki.documented`` reads what this writes.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).resolve().parent.parent / "src" / "twintrack" / "nki" / "data" / "documented.json"
REPOSITORY = "aws-neuron/aws-neuron-sdk"
TAGS = {
    "2.26": "v2.26.0",
    "2.27": "v2.27.0",
    "2.28": "v2.28.0",
    "2.29": "v2.29.0",
    "2.30": "v2.30.0",
    "2.31": "v2.31.0",
    "2.32": "v2.32.0",
}
LEGACY = ("2.26",)
"""Versions whose stubs describe the older dialect, ``neuronxcc.nki``; they lie in another folder of the tree."""


@dataclass
class Entry:
    """One name: its forms, newest last, each with the versions that document it so, and its members."""

    forms: list[tuple[dict[str, Any], list[str]]] = field(default_factory=list)
    members: dict[str, Entry] = field(default_factory=dict)

    def add(self, form: dict[str, Any], version: str) -> None:
        """Note that ``version`` documents this form. What a stub leaves out (``...``) is no new form."""
        if self.forms and _same(self.forms[-1][0], form):
            last, versions = self.forms[-1]
            last.update(form)
            versions.append(version)
        else:
            self.forms.append((dict(form), [version]))

    def as_json(self) -> dict[str, Any]:
        """The entry as plain lists and dicts; empty parts are left out."""
        record: dict[str, Any] = {
            "forms": [{**form, "versions": versions} for form, versions in self.forms],
        }
        if self.members:
            record["members"] = {name: entry.as_json() for name, entry in sorted(self.members.items())}
        return record


def _same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether two forms differ in nothing but a value that only one of them states."""
    if "value" in before and "value" in after and before["value"] != after["value"]:
        return False
    return {k: v for k, v in before.items() if k != "value"} == {
        k: v for k, v in after.items() if k != "value"
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the tags, write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("git_dir", type=Path, help="git directory of a clone of " + REPOSITORY)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="file to write")
    options = parser.parse_args(arguments)
    document = read_repository(options.git_dir)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(as_text(document), encoding="utf-8")


def read_repository(git_dir: Path) -> dict[str, Any]:
    """The whole document for the tags of a git directory."""
    modules: dict[str, dict[str, Entry]] = {}
    commits = {}
    for version, tag in TAGS.items():
        commits[version] = _git(git_dir, "rev-parse", f"{tag}^{{commit}}").strip()
        for module, path in _stubs(git_dir, version, tag):
            source = _git(git_dir, "show", f"{tag}:{path}")
            add_module(modules.setdefault(module, {}), source, version)
    return {
        "source": {
            "repository": REPOSITORY,
            "tags": {v: {"tag": TAGS[v], "commit": commit} for v, commit in commits.items()},
        },
        "modules": {
            module: {name: entry.as_json() for name, entry in sorted(names.items())}
            for module, names in sorted(modules.items())
        },
    }


def _git(git_dir: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", f"--git-dir={git_dir}", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"nki_names: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _stubs(git_dir: Path, version: str, tag: str) -> Iterator[tuple[str, str]]:
    """Module name and path in the tree of every stub of a version."""
    legacy = version in LEGACY
    folder = "general/nki/api/nki" if legacy else "nki/api/nki"
    paths = _git(git_dir, "ls-tree", "-r", "--name-only", tag, "--", folder).splitlines()
    stubs = [path for path in paths if path.endswith(".py")]
    if not stubs:
        raise SystemExit(f"nki_names: {tag} has no stubs in {folder}")
    for path in stubs:
        inner = path.removeprefix(folder).removesuffix(".py").removesuffix("/__init__").strip("/")
        yield ".".join(filter(None, ["neuronxcc.nki" if legacy else "nki", inner.replace("/", ".")])), path


def add_module(names: dict[str, Entry], source: str, version: str) -> None:
    """Add what one version of one stub defines to the names of its module."""
    body = ast.parse(source).body
    enums = {node.name for node in body if isinstance(node, ast.ClassDef) and _is_enum(node)}
    for node in body:
        for name, form in _defined(node, enums):
            entry = names.setdefault(name, Entry())
            entry.add(form, version)
            if isinstance(node, ast.ClassDef):
                _add_members(entry, node, version)


def _add_members(entry: Entry, node: ast.ClassDef, version: str) -> None:
    for part in node.body:
        for name, form in _defined(part, set()):
            if form["kind"] == "constant":
                form["kind"] = "member" if _is_enum(node) else "attribute"
            elif form["kind"] == "function":
                form["kind"] = "property" if _is_property(part) else "method"
            if form["kind"] == "property":
                del form["parameters"]
            entry.members.setdefault(name, Entry()).add(form, version)


def _defined(node: ast.stmt, enums: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names that a statement defines, each with its form."""
    if isinstance(node, ast.FunctionDef):
        yield node.name, {"kind": "function", "parameters": list(_parameters(node.args))}
    elif isinstance(node, ast.ClassDef):
        bases = [ast.unparse(base) for base in node.bases]
        yield node.name, {"kind": "enum" if node.name in enums else "class", "bases": bases}
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = {} if node.value is None or _is_dots(node.value) else {"value": ast.unparse(node.value)}
        for target in targets:
            if isinstance(target, ast.Name) and not _is_alias_of_typing(node):
                yield target.id, {"kind": "constant", **value}


def _is_enum(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).split(".")[-1] == "Enum" for base in node.bases)


def _is_property(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        ast.unparse(d) == "property" for d in node.decorator_list
    )


def _is_dots(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _is_alias_of_typing(node: ast.Assign | ast.AnnAssign) -> bool:
    """``DType = str`` helps the stub's annotations; it is no name of the interface."""
    return isinstance(node.value, ast.Name) and node.value.id == "str"


def _parameters(arguments: ast.arguments) -> Iterator[dict[str, str]]:
    """Parameters in order: name, default as source text where there is one, kind where it is not the usual one."""
    usual = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(usual) - len(arguments.defaults)), *arguments.defaults]
    for argument, default in zip(usual, defaults, strict=True):
        kind = "positional" if argument in arguments.posonlyargs else ""
        yield _parameter(argument, default, kind)
    if arguments.vararg:
        yield _parameter(arguments.vararg, None, "*")
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, default, "keyword")
    if arguments.kwarg:
        yield _parameter(arguments.kwarg, None, "**")


def _parameter(argument: ast.arg, default: ast.expr | None, kind: str) -> dict[str, str]:
    record = {"name": argument.arg}
    if kind:
        record["kind"] = kind
    if default is not None:
        record["default"] = ast.unparse(default)
    return record


def as_text(document: dict[str, Any]) -> str:
    """JSON with one name a line, so that a new version of the documentation reads well as a difference."""

    def block(items: Iterable[tuple[str, str]], indent: str) -> str:
        return ",\n".join(f"{indent}{json.dumps(key)}: {value}" for key, value in items)

    modules = (
        (module, "{\n" + block(((n, json.dumps(e)) for n, e in names.items()), "   ") + "\n  }")
        for module, names in document["modules"].items()
    )
    source = json.dumps(document["source"], indent=1).replace("\n", "\n ")
    return f'{{\n "source": {source},\n "modules": {{\n{block(modules, "  ")}\n }}\n}}\n'


if __name__ == "__main__":
    main()
