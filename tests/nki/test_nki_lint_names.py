"""Names that an SDK version does not document, however a file comes by them."""

import pytest

from twintrack.errors import UserError
from twintrack.nki.documented import load
from twintrack.nki.lint.names import undocumented_names


def found(source, sdk="2.32"):
    return [(one.line, one.found) for one in undocumented_names(source, "k.py", sdk=sdk)]


NEWER = "nki.language.exp, which is documented in 2.29 to 2.32 and not in 2.27"


@pytest.mark.parametrize(
    "source",
    [
        "import nki.language as nl\nnl.exp",
        "from nki import language as nl\nnl.exp",
        "import nki\nnki.language.exp",
        "import nki as n\nn.language.exp",
        "import nki.language\nnki.language.exp",
        "from nki import language\nlanguage.exp",
        "import os\nfrom nki.language import exp",
    ],
)
def test_a_name_is_found_however_it_is_imported(source):
    assert found(source, "2.27") == [(2, NEWER)]
    assert found(source, "2.32") == []


def test_a_name_is_told_once_where_it_first_stands_with_its_function():
    source = "import nki.language as nl\ndef f(x):\n    return nl.exp(nl.exp(x))\ndef g(): nl.exp\n"
    (one,) = undocumented_names(source, "k.py", sdk="2.27")
    assert (one.line, one.column, one.function) == (3, 12, "f")


def test_a_name_that_no_version_has_is_told_with_the_nearest():
    (one,) = found("import nki.isa as nisa\nnisa.tensor_tensr(1)")
    assert one == (2, "nki.isa.tensor_tensr, which no version documents (did you mean 'tensor_tensor'?)")


def test_members_of_enumerations_are_looked_at():
    source = "import nki.isa as nisa\nnisa.engine.vector\nnisa.engine.vektor\nnisa.engine.vector.name"
    assert [line for line, _ in found(source)] == [3]


def test_what_is_not_from_nki_is_left_alone():
    assert (
        found("import numpy as nl\nnl.exp2\nx.y.z\nimport nkipy\nnkipy.q\nfrom . import nki\nnki.language.q")
        == []
    )


def test_the_older_dialect_is_looked_at_for_its_version_only():
    source = "import neuronxcc.nki.language as nl\nnl.load\nnl.nowhere"
    assert [line for line, _ in found(source, "2.26")] == [3]
    assert found(source, "2.29") == []


@pytest.mark.parametrize("version", load().versions)
def test_every_documented_name_is_taken_by_its_own_versions_and_by_no_other(version):
    names = [one for module in ("nki.isa", "nki.language") for one in load().modules[module].values()]
    source = "import nki\n" + "\n".join(one.path for one in names)
    missing = {what.partition(",")[0] for _, what in found(source, version)}
    assert missing == {one.path for one in names if version not in one.versions}


def test_an_unknown_version_and_what_is_no_python_are_refused():
    with pytest.raises(UserError, match=r"required an SDK version among 2\.26"):
        found("", "9.9")
    with pytest.raises(UserError, match=r"k\.py:1: required Python"):
        found("def f(:")
