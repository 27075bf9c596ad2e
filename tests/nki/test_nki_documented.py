"""The list of documented names: read faithfully, and made from stubs by parsing alone."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from twintrack.nki.documented import Parameter, load, parse

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "nki_names.py"
OLD = '''
"""A sentence of documentation."""
from enum import Enum
import nki.language as nl
DType = str
int8 = 'int8'
class mode(Enum):
    """Modes."""
    none = 0
    "No mode."
    fast = 1
class Tile(Base):
    size: int = ...
    @property
    def width(self): ...
    def view(self, shape, *, copy=False): ...
def move(dst, src, op=nl.add, /, flag=None, *rest, engine=engine.unknown, **more):
    raise SystemExit("stubs are parsed, never run")
def gone(x): ...
'''
NEW = """
int8: DType = ...
class mode(Enum):
    none = ...
    fast = ...
    slow = 2
def move(dst, src): ...
"""


def _script():
    spec = importlib.util.spec_from_file_location("nki_names", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def small():
    """Names of two versions of a small stub, through the script's own text and our reader."""
    script = _script()
    names: dict = {}
    script.add_module(names, OLD, "2.27")
    script.add_module(names, NEW, "2.28")
    document = {
        "source": {"repository": "a/b", "tags": {v: {"tag": f"v{v}.0"} for v in ("2.27", "2.28")}},
        "modules": {"nki.isa": {name: entry.as_json() for name, entry in names.items()}},
    }
    return parse(json.loads(script.as_text(document)))


def test_a_parameter_keeps_kind_and_default_as_text(small):
    assert small.modules["nki.isa"]["move"].form_in("2.27").parameters == (
        Parameter("dst", "positional"),
        Parameter("src", "positional"),
        Parameter("op", "positional", "nl.add"),
        Parameter("flag", "usual", "None"),
        Parameter("rest", "*"),
        Parameter("engine", "keyword", "engine.unknown"),
        Parameter("more", "**"),
    )


def test_a_changed_signature_is_a_new_form_and_the_newest_is_last(small):
    move = small.modules["nki.isa"]["move"]

    assert [form.versions for form in move.forms] == [("2.27",), ("2.28",)]
    assert move.newest.parameters == (Parameter("dst"), Parameter("src"))
    assert move.versions == ("2.27", "2.28")


def test_a_name_that_a_version_dropped_is_not_documented_there(small):
    gone = small.modules["nki.isa"]["gone"]

    assert gone.versions == ("2.27",)
    assert gone.form_in("2.28") is None


def test_members_of_enums_and_classes_have_their_kind(small):
    names = small.modules["nki.isa"]
    kinds = {member.path: member.newest.kind for name in names.values() for member in name.members.values()}

    assert kinds == {
        "nki.isa.mode.none": "member",
        "nki.isa.mode.fast": "member",
        "nki.isa.mode.slow": "member",
        "nki.isa.Tile.size": "attribute",
        "nki.isa.Tile.width": "property",
        "nki.isa.Tile.view": "method",
    }
    assert names["mode"].newest.kind == "enum"
    assert names["Tile"].newest.bases == ("Base",)


def test_a_value_that_one_version_states_holds_where_another_leaves_it_out(small):
    names = small.modules["nki.isa"]

    assert [(form.value, form.versions) for form in names["int8"].forms] == [("'int8'", ("2.27", "2.28"))]
    assert names["mode"].members["fast"].newest.value == "1"
    assert names["mode"].members["slow"].versions == ("2.28",)


def test_imports_and_helpers_of_annotations_are_no_names(small):
    assert set(small.modules["nki.isa"]) == {"int8", "mode", "Tile", "move", "gone"}


def test_private_names_are_left_out_of_the_public_ones():
    names = parse(
        {
            "source": {"repository": "a/b", "tags": {}},
            "modules": {
                "nki": {"jit": {"forms": [{"kind": "function", "parameters": [], "versions": ["2.27"]}]}},
                "nki.language": {"_Size": {"forms": [{"kind": "class", "versions": ["2.30"]}]}},
                "nkix": {"other": {"forms": [{"kind": "class", "versions": ["2.30"]}]}},
            },
        }
    )

    assert [name.path for name in names.public("nki")] == ["nki.jit"]


@pytest.mark.parametrize(
    "form",
    [
        {"kind": "gadget", "versions": []},
        {"kind": "function", "versions": [], "parameters": [{"name": "x", "kind": "?"}]},
    ],
)
def test_an_unknown_kind_is_refused(form):
    with pytest.raises(ValueError, match=r"nki\.x.* is no kind of"):
        parse({"source": {"repository": "a/b", "tags": {}}, "modules": {"nki": {"x": {"forms": [form]}}}})


def test_the_script_reads_tags_of_a_git_directory(tmp_path, monkeypatch):
    script = _script()
    monkeypatch.setattr(script, "TAGS", {"2.26": "v2.26.0", "2.27": "v2.27.0"})
    git = [
        "git",
        "-C",
        str(tmp_path),
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "commit.gpgsign=false",
    ]

    def run(*arguments):
        subprocess.run([*git, *arguments], check=True, capture_output=True)

    run("init", "-q")
    for tag, path, text in (
        ("v2.26.0", "general/nki/api/nki/compiler/sbuf.py", "def mod_alloc(*, base): ..."),
        ("v2.27.0", "nki/api/nki/isa/__init__.py", "def move(dst): ..."),
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True)
        file.write_text(text)
        run("add", "-A")
        run("commit", "-q", "-m", tag)
        run("tag", tag)

    script.main([str(tmp_path / ".git"), "--output", str(tmp_path / "out" / "names.json")])
    names = parse(json.loads((tmp_path / "out" / "names.json").read_text()))

    assert names.versions == ("2.26", "2.27")
    assert names.modules["neuronxcc.nki.compiler.sbuf"]["mod_alloc"].versions == ("2.26",)
    assert names.modules["nki.isa"]["move"].versions == ("2.27",)


def test_a_missing_tag_ends_the_script_in_one_line(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)

    with pytest.raises(SystemExit, match=r"^nki_names: git rev-parse v2\.26\.0"):
        _script().main([str(tmp_path / ".git"), "--output", str(tmp_path / "names.json")])


def test_the_packaged_list_has_the_versions_and_modules_that_are_promised():
    names = load()

    assert names.versions == ("2.26", "2.27", "2.28", "2.29", "2.30", "2.31", "2.32")
    assert {"nki", "nki.language", "nki.isa", "nki.collectives", "neuronxcc.nki"} <= set(names.modules)


def test_facts_of_the_release_notes_are_in_the_packaged_list():
    """The vendor's release notes tell, apart from the stubs, what each version brought or took away."""
    modules = load().modules

    assert modules["nki.isa"]["topk"].versions == ("2.32",)
    assert modules["nki.collectives"]["all_gather_v"].versions == ("2.32",)
    assert modules["nki.isa"]["activate2"].versions[0] == "2.30"
    assert "2.30" not in modules["nki.isa"]["tensor_copy_dynamic_src"].versions
    assert [p.name for p in modules["nki.isa"]["register_move"].form_in("2.28").parameters] == ["dst", "imm"]
    assert [p.name for p in modules["nki.isa"]["register_move"].newest.parameters] == ["dst", "src"]
    before = [p.name for p in modules["nki.isa"]["dma_compute"].form_in("2.28").parameters]
    assert before[:4] == ["dst", "srcs", "scales", "reduce_op"]
    assert [p.name for p in modules["nki.isa"]["dma_compute"].newest.parameters][:3] == [
        "dst",
        "srcs",
        "reduce_op",
    ]


def test_versions_of_every_name_are_in_order_and_never_twice():
    names = load()
    order = {version: place for place, version in enumerate(names.versions)}

    for module in names.modules.values():
        for entry in [*module.values(), *(m for e in module.values() for m in e.members.values())]:
            places = [order[version] for version in entry.versions]
            assert places == sorted(set(places)), entry.path
