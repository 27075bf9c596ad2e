"""Whatever stands in a job file, it becomes a job or one line."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from job_strategies import MINIMAL

from twintrack.errors import JobError
from twintrack.job.load import LoadedJob, load_job
from twintrack.job.write import job_toml, starter_job
from twintrack.storage import LocalFileSystem

_TEXTS = [MINIMAL, job_toml(starter_job())]
_PIECES = [
    "[", "]", "[[", "]]", "{", "}", "=", ".", ",", '"', "'", '"""', "'''", "\\", "#",
    "\n", "\r", "\0", "\x1b",
    "\ufeff", "\u2028", "true", "nan", "-inf", "1e999", "0x" + "f" * 40, "2026-01-31", "07:30:00", "{}", "-1",
    "[]", "name", "steps", "tracks", "[tracks]\n", "[[tracks]]\n", "[[stops]]\n", "a.b.c = 1\n", '"" = 1\n',
    'x = """\n', "use = [['cpu']]\n", "[" * 40,
]  # fmt: skip
_EDITS = st.lists(
    st.tuples(
        st.floats(0, 1), st.integers(0, 12), st.sampled_from(_PIECES) | st.text(max_size=3) | st.just("")
    ),
    min_size=1,
    max_size=5,
)


class _MemoryFileSystem(LocalFileSystem):
    """One file, which is not on the disk."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def size(self, path: Path) -> int:
        return len(self.data)

    def read_bytes(self, path: Path) -> bytes:
        return self.data


def _loads_or_is_refused(data: bytes) -> None:
    try:
        outcome: LoadedJob | str = load_job(Path("job.toml"), fs=_MemoryFileSystem(data))
    except JobError as error:
        outcome = str(error)

    if isinstance(outcome, str):
        assert outcome.startswith("job.toml")
        assert len(outcome.splitlines()) == 1
        assert outcome.isprintable()
    else:
        assert isinstance(outcome, LoadedJob)


@settings(deadline=None, max_examples=250)
@given(st.sampled_from(_TEXTS), _EDITS)
def test_an_edited_job_file_is_a_job_or_one_line(text, edits):
    """Pieces of it removed, and pieces of TOML put in, anywhere."""
    for place, removed, piece in edits:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + removed :]

    _loads_or_is_refused(text.encode("utf-8", "surrogatepass"))


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=60), st.floats(0, 1))
def test_bytes_put_into_a_job_file_are_a_job_or_one_line(noise, place):
    data = MINIMAL.encode()
    at = int(place * len(data))

    _loads_or_is_refused(data[:at] + noise + data[at:])


_VALUES = st.recursive(
    st.sampled_from(
        ["true", "-1", "0", "1.5", "nan", "inf", "1e308", "''", "'cpu'", "2026-01-31", "07:30:00", "9" * 30]
    ),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | inner.map(lambda item: f"{{step = {item}, use = {item}}}")
    ),
    max_leaves=4,
)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 100), _VALUES)
def test_any_value_at_any_key_is_a_job_or_one_line(which, value):
    """Values of every kind in the place of those of the starter, defaults included."""
    lines = _TEXTS[1].split("\n")
    keys = [number for number, line in enumerate(lines) if " = " in line and not line.startswith("# ")]
    number = keys[which % len(keys)]
    lines[number] = f"{lines[number].lstrip('#').partition(' = ')[0]} = {value}"

    _loads_or_is_refused("\n".join(lines).encode())
