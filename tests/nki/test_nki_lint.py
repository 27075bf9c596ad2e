"""What the lint looks at, what it leaves alone, and how it says what it found."""

from __future__ import annotations

import functools
import importlib.util
import textwrap
from pathlib import Path

import pytest

from twintrack.errors import UserError
from twintrack.nki.lint import RULES, check_function, check_source

IMPORTS = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n"


def _rules(text, **more):
    return [finding.rule.name for finding in check_source(textwrap.dedent(text), "kernel.py", **more)]


def test_a_finding_is_one_line_with_all_four_parts_and_the_rule():
    (finding,) = check_source(IMPORTS + "@nki.jit\ndef k(a):\n    é = a; return é is a\n", "dir/kernel.py")

    assert str(finding) == (
        "dir/kernel.py:6:19: in k: required '==' or '!=', found 'é is a'; compare values; identity means nothing "
        "while tracing [identity-operator]"
    )


def test_every_rule_says_where_it_is_documented():
    for name, rule in RULES.items():
        assert rule.name == name
        assert rule.document.startswith("nki/")
        assert rule.document.endswith(".rst")
        assert rule.since in rule.source
        assert rule.section in rule.source


def test_the_page_lists_the_rules_as_they_are():
    page = (Path(__file__).resolve().parents[2] / "docs" / "nki-lint.md").read_text(encoding="utf-8")
    rows = [
        f"| `{r.name}` | {r.required} | {r.since} | `{r.document.removeprefix('nki/')}`, {r.section} |"
        for r in RULES.values()
    ]

    assert [row for row in rows if row.replace("*", "\\*") not in page.splitlines()] == []


def test_code_outside_of_kernels_is_pythons_own():
    assert (
        _rules(IMPORTS + "def host(a):\n    return a is None, {1}\n\n@nki.jit\ndef k(a):\n    return a\n")
        == []
    )


def test_kernels_of_the_older_dialect_have_another_compiler():
    old = "import neuronxcc.nki as nki\n@nki.jit\ndef k(a, *, b=[1]):\n    return a is b\n"

    assert _rules(old) == []
    assert _rules(old.replace("import neuronxcc.nki as nki", "from neuronxcc import nki")) == []


@pytest.mark.parametrize(
    "start",
    [
        "import nki\n@nki.jit\n",
        "import nki as n\n@n.jit()\n",
        "from nki import jit\n@jit\n",
        "from nki import jit as compiled\n@compiled(mode='auto')\n",
    ],
)
def test_a_decorated_kernel_is_known_by_whatever_name(start):
    assert _rules(start + "def k(a):\n    return a is None\n") == ["identity-operator"]


@pytest.mark.parametrize("wrap", ["nki.jit(k)(1)", "nki.simulate(k)(1)"])
def test_a_plain_function_given_to_nki_is_a_kernel(wrap):
    assert _rules(f"import nki\ndef k(a):\n    return a is None\n{wrap}\n") == ["identity-operator"]


def test_a_function_can_be_named_a_kernel():
    text = "def k(a):\n    return a is None\n"

    assert _rules(text) == []
    assert _rules(text, kernels=["k"]) == ["identity-operator"]


def test_helpers_are_followed_through_calls_arguments_and_methods():
    text = """
        import nki
        from nki.language import NKIObject
        def far(a):
            return a is None
        def near(a):
            return far(a)
        def passed(a):
            return a is None
        class C(NKIObject):
            def used(self):
                return self is None
            def unused(self):
                return self is None
        @nki.jit
        def k(a):
            near(a)
            apply(a, passed)
            C().used()
        """

    found = check_source(textwrap.dedent(text), "kernel.py")

    assert [finding.function for finding in found] == ["far", "passed", "C.used"]


def test_a_name_that_a_kernel_binds_itself_is_no_function_of_the_file():
    text = "import nki\ndef fn(a):\n    return a is None\n@nki.jit\ndef k(a, fn):\n    return fn(a)\n"

    assert _rules(text) == []


def test_a_nested_function_hides_one_of_the_file():
    text = """
        import nki
        def body(a):
            return a is None
        @nki.jit
        def k(a):
            def body(b):
                return b
            return body(a)
        """

    assert _rules(text) == []


def test_functions_defined_in_a_kernel_and_kernels_defined_in_a_function_are_looked_at():
    text = """
        import nki
        def test_it():
            @nki.jit
            def k(a):
                def inner(b):
                    return b is None
                return inner(a)
        """

    assert _rules(text) == ["identity-operator"]


def test_defaults_annotations_and_decorators_are_evaluated_by_python():
    text = """
        import nki
        @nki.jit
        def k(a, flag=(1 is None), *args):
            b: {1} = a
            def inner(c={2}):
                return c
            return inner()
        """

    assert _rules(text) == []


def test_an_import_that_may_be_either_dialect_is_not_called_the_older_one():
    text = """
        import nki
        try:
            import nki.isa as nisa
        except ImportError:
            import neuronxcc.nki.isa as nisa
        @nki.jit
        def k(a):
            return nisa.tensor_copy(a, a)
        """

    assert _rules(text) == []


def test_python_that_the_documentation_shows_in_kernels_is_left_alone():
    """Constructs of the language guide, written anew: lists, dictionaries, loops, classes, callables, f-strings."""
    text = """
        import nki
        import nki.isa as nisa
        import nki.language as nl
        from dataclasses import dataclass
        from enum import Enum
        from nki.language import NKIObject

        LIMITS = (128, 512)
        NAMES = {"relu": nl.relu}

        class Kind(Enum):
            plain = 1
            scaled = 2

        @dataclass
        class Config(NKIObject):
            width: int
            scaled: bool = False

            def __post_init__(self):
                self.total = self.width * 2

            def flip(self):
                self.scaled = not self.scaled

        class Derived(Config):
            pass

        def choose(name):
            if name == "relu":
                return relu
            return NAMES[name]

        def relu(dst, src):
            nisa.activation(dst=dst, data=src, op=nl.relu)

        @nki.jit
        def kernel(a, n, kind=Kind.plain, config: Config = None, *rest, **more):
            print(f"{a.shape} of {a.dtype}")
            assert a.shape[0] <= nl.tile_size.pmax, "too many"
            counts = [1, 2, 3]
            counts.append(4.1)
            table = dict()
            table["a"] = counts[1:]
            table[kind.name] = 1
            for key, value in table.items():
                print(key, value)
            x = 0
            while x < 10:
                x += 1
            config = Derived(4)
            config.flip()
            if kind == Kind.scaled or kind != Kind.plain:
                choose("relu")(dst=a, src=a)
            total = nl.zeros((1, 1), dtype=nl.int32)
            for i in nl.dynamic_range(0, n, 2):
                nisa.dma_copy(dst=total, src=a.ap([[1, 1], [1, 1]], scalar_offset=i))
            with nl.no_reorder():
                for j in nl.affine_range(4):
                    nisa.tensor_copy(a[j * 32:(j + 1) * 32], a[0:32])
            squares = [i * i for i in range(4)]
            biggest = max(squares, key=lambda v: -v)
            return a[0:min(LIMITS[0], biggest)]
        """

    assert [str(finding) for finding in check_source(textwrap.dedent(text), "kernel.py")] == []


def test_findings_stand_in_the_order_of_the_file_and_only_once():
    text = """
        import nki
        def helper(a):
            return a is None
        @nki.jit
        def one(a):
            return helper(a), {1}
        @nki.jit
        def two(a):
            return helper(a)
        """

    assert _rules(text) == ["identity-operator", "value-type"]


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("def k(:\n", {}, "kernel.py:1: required Python, found invalid syntax; mend the syntax"),
        (
            "def kernel(a): ...\n",
            {"kernels": ["kernle"]},
            "kernel.py: required a function 'kernle', found none of that name; did you mean 'kernel'?",
        ),
        ("", {"sdk": "newest"}, "sdk: required an SDK version such as 2.32, found 'newest'; name one"),
    ],
)
def test_a_wrong_call_is_one_line(text, more, message):
    text = text or IMPORTS + "@nki.jit\ndef k(a): return a is None\n"
    with pytest.raises(UserError) as refused:
        check_source(text, "kernel.py", **more)

    assert str(refused.value) == message


def _load(path, text):
    path.write_text(textwrap.dedent(text))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KERNELS = """
    import functools
    def wrapped(function):
        @functools.wraps(function)
        def call(*arguments):
            return function(*arguments)
        return call
    def helper(a):
        return a is None
    @wrapped
    def good(a):
        return a == None
    @wrapped
    def bad(a):
        return helper(a)
    def bad_again(a):
        return {1}
"""


def test_one_function_is_checked_with_its_helpers_and_without_its_neighbours(tmp_path):
    module = _load(tmp_path / "kernels_one.py", KERNELS)

    assert check_function(module.good) == ()
    (finding,) = check_function(module.bad)
    assert (finding.file, finding.line, finding.function) == ("kernels_one.py", 9, "helper")
    assert [f.rule.name for f in check_function(module.bad_again)] == ["value-type"]


def test_a_function_without_source_is_refused_in_one_line():
    with pytest.raises(
        UserError, match="required a function whose source can be read, found an object of type"
    ):
        check_function(functools.partial(print))
    space: dict = {}
    exec("def typed(a): return a", space)  # noqa: S102  # as at a prompt
    with pytest.raises(
        UserError, match="typed: required a function whose source can be read, found <string>"
    ):
        check_function(space["typed"])


def test_a_file_that_changed_since_it_was_loaded_is_refused(tmp_path):
    module = _load(tmp_path / "kernels_two.py", KERNELS)
    (tmp_path / "kernels_two.py").write_text("# all gone\n")

    with pytest.raises(UserError, match=r"required the function 'good' at line \d+, found another text"):
        check_function(module.good)
