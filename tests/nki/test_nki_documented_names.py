"""Every name that the vendor documents for 2.27 to 2.32 exists here, with the documented parameters and defaults.

Signatures are compared with the newest form that is documented; a name that only older versions have, with its last.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect

import pytest

from twintrack.nki.documented import DocumentedName, Form, load
from twintrack.nki.earlier import earlier_arguments

NAMES = list(load().public("nki"))
CALLABLE = [name for name in NAMES if name.newest.kind == "function"]
CLASSES = [name for name in NAMES if name.newest.kind in ("class", "enum")]
_KINDS = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "usual",
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_ALIASES = {"nl": "nki.language", "nisa": "nki.isa", "nki": "nki"}


def _path(entry: DocumentedName) -> str:
    return entry.path


def _module_of(entry: DocumentedName):
    return importlib.import_module(
        "twintrack." + next(m for m in _modules() if entry.path.startswith(m + "."))
    )


def _modules() -> list[str]:
    return sorted(load().modules, key=len, reverse=True)


def _object(entry: DocumentedName):
    module = _module_of(entry)
    assert hasattr(module, entry.name), f"{entry.path} is documented in {entry.versions} and does not exist"
    return getattr(module, entry.name)


def _value(text: str, module):
    """The object that source text of a default names: a literal, or a name as the stubs spell it."""
    try:
        return ast.literal_eval(text)
    except ValueError:
        first, *rest = text.split(".")
        if not rest and hasattr(builtins, first):
            return getattr(builtins, first)
        language = importlib.import_module("twintrack.nki.language")
        found = (
            importlib.import_module("twintrack." + _ALIASES[first])
            if first in _ALIASES
            else getattr(module, first, None) or getattr(language, first)
        )
        for part in rest:
            found = getattr(found, part)
        return found


def _assert_signature(found: inspect.Signature, form: Form, module, where: str) -> None:
    documented = [(p.name, p.kind) for p in form.parameters or ()]
    ours = [(p.name, _KINDS[p.kind]) for p in found.parameters.values()]
    assert ours == documented, f"{where}: parameters {ours}, documented {documented}"
    for parameter in form.parameters or ():
        default = found.parameters[parameter.name].default
        if parameter.default is None:
            assert default is inspect.Parameter.empty, (
                f"{where}: '{parameter.name}' has no documented default"
            )
        elif parameter.default != "...":
            expected = _value(parameter.default, module)
            assert type(default) is type(expected), f"{where}: '{parameter.name}' = {parameter.default}"
            assert default == expected, (
                f"{where}: '{parameter.name}' = {default}, documented {parameter.default}"
            )


@pytest.mark.parametrize("entry", NAMES, ids=_path)
def test_every_documented_name_exists(entry):
    _object(entry)


@pytest.mark.parametrize("entry", CALLABLE, ids=_path)
def test_every_function_has_the_documented_parameters_and_defaults(entry):
    _assert_signature(inspect.signature(_object(entry)), entry.newest, _module_of(entry), entry.path)


@pytest.mark.parametrize("entry", CALLABLE, ids=_path)
def test_every_argument_that_any_of_these_versions_documents_is_taken(entry):
    function = _object(entry)
    taken = {*inspect.signature(function).parameters, *earlier_arguments(function)}
    older = {p.name: form.versions for form in entry.forms for p in form.parameters or ()}

    assert not {name: versions for name, versions in older.items() if name not in taken}


@pytest.mark.parametrize("entry", CLASSES, ids=_path)
def test_every_class_has_the_documented_members(entry):
    found = _object(entry)
    attributes = set(dir(found)) | set(getattr(found, "__annotations__", {}))
    missing = [member.path for member in entry.members.values() if member.name not in attributes]

    assert not missing, f"documented and missing: {missing}"
    for member in entry.members.values():
        form = member.newest
        if form.kind == "method" and not member.name.startswith("__"):
            signature = inspect.signature(getattr(found, member.name))
            _assert_signature(signature, form, _module_of(entry), member.path)
        elif form.kind == "member":
            stated = next((f.value for f in reversed(member.forms) if f.value is not None), None)
            assert stated is None or getattr(found, member.name).value == ast.literal_eval(stated), (
                member.path
            )


def test_tile_size_has_every_documented_constant():
    """Documented as a class up to 2.29 and as an instance of a private class since."""
    language = load().modules["nki.language"]
    documented = {*language["tile_size"].members, *language["_TileSize"].members}
    found = importlib.import_module("twintrack.nki.language").tile_size
    missing = [name for name in sorted(documented) if not name.startswith("_") and not hasattr(found, name)]

    assert not missing, f"nki.language.tile_size lacks {missing}"
