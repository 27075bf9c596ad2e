"""The lines that keys are said to stand on are those that they stand on."""

from __future__ import annotations

import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st

from twintrack.job.locate import key_lines

# name in TOML, and what it means
_NAMES = [
    ("plain", "plain"),
    ("a-b_9", "a-b_9"),
    ("42", "42"),
    ('"with space"', "with space"),
    ('"dot.dot"', "dot.dot"),
    ("'[brackets]'", "[brackets]"),
    (r'"quote \" # = \u00e9"', 'quote " # = é'),
    ('""', ""),
    ("'\\'", "\\"),
]

# value in TOML, and the lines below its first one on which entries inside it begin
_VALUES: list[tuple[str, dict[tuple, int]]] = [
    ("1", {}),
    ("-1.5e-3 ", {}),
    ("1979-05-27 07:32:00Z", {}),
    ("true # = [not a key]", {}),
    (r'"a \" # ] } b"', {}),
    ("'C:\\dir\\'", {}),
    ('""', {}),
    ('""""""', {}),
    ('"""""two before\nand two after"""""', {}),
    ('"""\nx = 1\n[no.table]\n\\""" \\\n  "" end"""', {}),
    ("'''\nx = 1\n''still\n'''''", {}),
    ("[]", {}),
    ("[ 1,2, ]", {(0,): 0, (1,): 0}),
    ("[ # c ]\n 'a]', # ,\n\n [ [], 3 ]\n , \"\"\"\n]\"\"\", ]",
     {(0,): 1, (1,): 3, (1, 0): 3, (1, 1): 3, (2,): 4}),
    ("{}", {}),
    ("{ a = 1, b.c = [ 2,\n {d = '}'} ] }",
     {("a",): 0, ("b",): 0, ("b", "c"): 0, ("b", "c", 0): 0, ("b", "c", 1): 1, ("b", "c", 1, "d"): 1}),
]  # fmt: skip


class _Document:
    """A TOML text in the making, and the lines at which its keys were put."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.expected: dict[tuple, int] = {}

    def note(self, path: tuple) -> None:
        self.expected.setdefault(path, len(self.lines) + 1)

    def put(self, text: str) -> None:
        self.lines += text.split("\n")

    def pairs(self, table: tuple, entries: list) -> None:
        for number, (names, (value, inside), dotted) in enumerate(entries):
            first, second = names
            keys = [(f"k{number}", f"k{number}"), first, second] if dotted else [(f"k{number}", f"k{number}")]
            path = table
            for _, meant in keys:
                path = (*path, meant)
                self.note(path)
            for inner, below in inside.items():
                self.expected[(*path, *inner)] = len(self.lines) + 1 + below
            self.put(" . ".join(written for written, _ in keys) + f" = {value}")


_ENTRIES = st.lists(
    st.tuples(
        st.tuples(st.sampled_from(_NAMES), st.sampled_from(_NAMES)), st.sampled_from(_VALUES), st.booleans()
    ),
    max_size=4,
)


@st.composite
def _documents(draw) -> _Document:
    document = _Document()
    document.pairs((), draw(_ENTRIES))
    lists: dict[tuple, int] = {}
    for number in range(draw(st.integers(0, 4))):
        document.put(draw(st.sampled_from(["", "# [comment]\n", "  \t", "\n\n"])))
        written, meant = draw(st.sampled_from(_NAMES))
        if draw(st.booleans()):
            document.note((f"t{number}",))
            path: tuple = (f"t{number}", meant)
            document.note(path)
            document.put(f"[ t{number} . {written} ] # c")
        else:
            base = ("list", meant)
            document.note(("list",))
            document.note(base)
            path = (*base, lists.setdefault(base, 0))
            lists[base] += 1
            document.note(path)
            document.put(f"[[list.{written}]]")
            document.pairs(path, draw(_ENTRIES))
            path = (*path, "under")
            document.note(path)
            document.put(f"[list.{written}.under]")
        document.pairs(path, draw(_ENTRIES))
    return document


def _every_path(value: object, path: tuple = ()) -> set[tuple]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path} | {found for name, item in inner for found in _every_path(item, (*path, name))}


@settings(deadline=None)
@given(_documents(), st.booleans())
def test_every_key_is_found_on_its_line(document, windows):
    """Against the lines at which the text was put together, in every notation that TOML has."""
    text = "\n".join(document.lines)
    if windows:
        text = text.replace("\n", "\r\n")

    found = key_lines(text)

    assert dict(found) == document.expected
    assert set(found) | {()} == _every_path(tomllib.loads(text))


def test_a_table_opened_twice_has_its_first_line():
    assert key_lines("[a.b]\nc = 1\n[a]\nd = 2\n") == {
        ("a",): 1,
        ("a", "b"): 1,
        ("a", "b", "c"): 2,
        ("a", "d"): 4,
    }
