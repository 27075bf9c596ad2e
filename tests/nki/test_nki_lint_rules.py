"""Each rule of the lint finds its mistake at its place, and says nothing of the corrected twin."""

from __future__ import annotations

import textwrap

import pytest

from twintrack.nki.lint import RULES, check_source

HEAD = """\
import enum
import os
import random
from dataclasses import dataclass
from enum import Enum
from typing import List, NamedTuple
import neuronxcc.nki.isa as old
import nki
import nki.isa as nisa
import nki.language as nl
from nki.language import NKIObject, dynamic_range
"""

# rule, broken source, what stands at the place of the finding, corrected twin
TWINS = [
    ("identity-operator", """
        @nki.jit
        def kernel(a, flag=None):
            if flag is None:
                return a
     """, "flag is None", """
        @nki.jit
        def kernel(a, flag=None):
            if flag == None:
                return a
     """),
    ("identity-operator", """
        def helper(flag):
            assert flag is not True
        @nki.jit
        def kernel(a):
            helper(a)
     """, "flag is not True", """
        def helper(flag):
            assert flag != True
        @nki.jit
        def kernel(a):
            helper(a)
     """),
    ("keyword-only-separator", """
        @nki.jit
        def kernel(a, *, scale=1.0):
            return a
     """, "scale=1.0", """
        @nki.jit
        def kernel(a, scale=1.0):
            return a
     """),
    ("list-argument", """
        @nki.jit
        def kernel(a, stride=[1, 1]):
            return a
     """, "[1, 1]", """
        @nki.jit
        def kernel(a, stride=(1, 1)):
            return a
     """),
    ("list-argument", """
        @nki.jit
        def kernel(a, tiles: list[int]):
            return a
     """, "tiles: list", """
        @nki.jit
        def kernel(a, tiles: tuple[int, ...]):
            return a
     """),
    ("list-argument", """
        @nki.jit
        def kernel(a, tiles: List):
            return a
     """, "tiles: List", """
        @nki.jit
        def kernel(a, tiles):
            return a
     """),
    ("class-base", """
        @dataclass
        class Tile:
            size: int
        @nki.jit
        def kernel(a):
            return Tile(4)
     """, "class Tile", """
        @dataclass
        class Tile(NKIObject):
            size: int
        @nki.jit
        def kernel(a):
            return Tile(4)
     """),
    ("class-base", """
        class Mixin:
            pass
        class Tile(nl.NKIObject, Mixin):
            pass
        @nki.jit
        def kernel(a, tile: Tile):
            return a
     """, "class Tile", """
        class Tile(nl.NKIObject):
            pass
        @nki.jit
        def kernel(a, tile: Tile):
            return a
     """),
    ("class-base", """
        class Pair(NamedTuple):
            x: int
        @nki.jit
        def kernel(a):
            return Pair(1)
     """, "class Pair", """
        class Pair(Enum):
            x = 1
        @nki.jit
        def kernel(a):
            return Pair(1)
     """),
    ("enum-operator", """
        class Mode(Enum):
            slow = 0
            fast = 1
        @nki.jit
        def kernel(a, mode):
            if mode >= Mode.fast:
                return a
     """, "mode >= Mode.fast", """
        class Mode(Enum):
            slow = 0
            fast = 1
        @nki.jit
        def kernel(a, mode):
            if mode == Mode.fast:
                return a
     """),
    ("enum-operator", """
        class Mode(enum.Enum):
            slow = 0
        @nki.jit
        def kernel(a):
            return Mode.slow + 1
     """, "Mode.slow + 1", """
        class Mode(enum.Enum):
            slow = 0
        @nki.jit
        def kernel(a):
            return Mode.slow.value + 1
     """),
    ("dict-key", """
        @nki.jit
        def kernel(a):
            return {'a': 1, 2: a}
     """, "2: a", """
        @nki.jit
        def kernel(a):
            return {'a': 1, '2': a}
     """),
    ("dict-key", """
        @nki.jit
        def kernel(a):
            tiles = {}
            for i in nl.static_range(4):
                tiles[i] = a
     """, "i] = a", """
        @nki.jit
        def kernel(a):
            tiles = []
            for i in nl.static_range(4):
                tiles[i] = a
     """),
    ("dict-key", """
        @nki.jit
        def kernel(a):
            return {i: a for i in range(4)}
     """, "i: a", """
        @nki.jit
        def kernel(a):
            return {f"{i}": a for i in range(4)}
     """),
    ("dict-key", """
        @nki.jit
        def kernel(a):
            tiles = dict()
            tiles[0, 1] = a
     """, "0, 1", """
        @nki.jit
        def kernel(a, tiles):
            tiles[0, 1] = a
     """),
    ("value-type", """
        @nki.jit
        def kernel(a, name):
            assert name in {'add', 'mul'}
     """, "{'add'", """
        @nki.jit
        def kernel(a, name):
            assert name in ('add', 'mul')
     """),
    ("value-type", """
        @nki.jit
        def kernel(a):
            seen = set()
     """, "set()", """
        @nki.jit
        def kernel(a, set):
            seen = set()
     """),
    ("value-type", """
        @nki.jit
        def kernel(a):
            nisa.memset(a, value=4294967296)
     """, "4294967296", """
        @nki.jit
        def kernel(a):
            nisa.memset(a, value=4294967295)
     """),
    ("value-type", """
        @nki.jit
        def kernel(a):
            nisa.memset(a, value=-3.5e38)
     """, "3.5e38", """
        @nki.jit
        def kernel(a):
            nisa.memset(a, value=-3.4028235e38)
     """),
    ("value-type", """
        @nki.jit
        def kernel(a):
            return 2j
     """, "2j", """
        @nki.jit
        def kernel(a):
            return 2.0
     """),
    ("value-type", """
        @nki.jit
        def kernel(a):
            return b'x'
     """, "b'x'", """
        @nki.jit
        def kernel(a):
            return 'x'
     """),
    ("decorated-subkernel", """
        @nki.jit
        def inner(a):
            return a
        @nki.jit
        def kernel(a):
            return inner[2](a)
     """, "inner[2](a)", """
        def inner(a):
            return a
        @nki.jit
        def kernel(a):
            return inner(a)
     """),
    ("legacy-namespace", """
        @nki.jit
        def kernel(a):
            return old.tensor_copy(a)
     """, "old.tensor_copy", """
        @nki.jit
        def kernel(a):
            return nisa.tensor_copy(a, a)
     """),
    ("platform-target", """
        @nki.jit(platform_target='trn2')
        def kernel(a):
            return a
     """, "'trn2'", """
        @nki.jit()
        def kernel(a):
            return a
     """),
    ("dynamic-loop-in-no-reorder", """
        @nki.jit
        def kernel(a, n):
            with nl.no_reorder():
                for i in nl.dynamic_range(n):
                    nisa.tensor_copy(a, a)
     """, "for i", """
        @nki.jit
        def kernel(a, n):
            for i in nl.dynamic_range(n):
                with nl.no_reorder():
                    nisa.tensor_copy(a, a)
     """),
    ("dynamic-loop-in-no-reorder", """
        def body(i):
            nisa.nop()
        def loop(n):
            nl.fori_loop(0, n, body)
        @nki.jit
        def kernel(a, n):
            with nl.no_reorder():
                loop(n)
     """, "loop(n)\n", """
        def body(i):
            nisa.nop()
        def loop(n):
            for i in range(n):
                body(i)
        @nki.jit
        def kernel(a, n):
            with nl.no_reorder():
                loop(n)
     """),
    ("dynamic-loop-in-no-reorder", """
        @nki.jit
        def kernel(a):
            reg = nisa.register_alloc(1)
            with nl.no_reorder():
                while reg:
                    nisa.register_load(reg, a)
     """, "while reg", """
        @nki.jit
        def kernel(a):
            reg = 1
            with nl.no_reorder():
                while reg:
                    reg = 0
     """),
    ("dynamic-loop-step", """
        @nki.jit
        def kernel(a, n):
            for i in dynamic_range(0, n, 0):
                nisa.nop()
     """, "0):", """
        @nki.jit
        def kernel(a, n):
            for i in dynamic_range(0, n, 1):
                nisa.nop()
     """),
    ("dynamic-loop-step", """
        @nki.jit
        def kernel(a, n):
            step = nisa.register_alloc(2)
            nl.fori_loop(0, n, lambda i: nisa.nop(), step=step)
     """, "step)\n", """
        @nki.jit
        def kernel(a, n):
            step = 2
            nl.fori_loop(0, n, lambda i: nisa.nop(), step=step)
     """),
    ("loop-variable-write", """
        @nki.jit
        def kernel(a, n, r):
            for i in nl.dynamic_range(n):
                nisa.register_move(i, r)
     """, "nisa.register_move", """
        @nki.jit
        def kernel(a, n, r):
            for i in nl.dynamic_range(n):
                nisa.register_move(r, i)
     """),
    ("loop-variable-write", """
        @nki.jit
        def kernel(a, n):
            def body(i):
                nisa.register_load(dst=i, src=a)
            nl.fori_loop(0, n, body)
     """, "nisa.register_load", """
        @nki.jit
        def kernel(a, n):
            def body(i):
                nisa.register_store(dst=a, src=i)
            nl.fori_loop(0, n, body)
     """),
    ("loop-variable-in-python", """
        @nki.jit
        def kernel(a, n):
            for i in nl.dynamic_range(n):
                if i == 0:
                    nisa.nop()
     """, "i == 0", """
        @nki.jit
        def kernel(a, n):
            for i in range(n):
                if i == 0:
                    nisa.nop()
     """),
    ("loop-variable-in-python", """
        @nki.jit
        def kernel(a, n):
            nl.fori_loop(0, n, lambda i: nisa.tensor_copy(a[i * 128], a))
     """, "i * 128", """
        @nki.jit
        def kernel(a, n):
            nl.fori_loop(0, n, lambda i: nisa.tensor_copy(a.ap([[1, 1]], scalar_offset=i), a), 128)
     """),
    ("loop-body-return", """
        @nki.jit
        def kernel(a, n):
            def body(i):
                return a
            nl.fori_loop(0, n, body)
     """, "return a", """
        @nki.jit
        def kernel(a, n):
            def body(i):
                return
            nl.fori_loop(0, n, body)
     """),
    ("loop-body-return", """
        @nki.jit
        def kernel(a, reg):
            def body(r):
                nisa.register_load(r, a)
            nl.while_loop(reg, body)
     """, "def body", """
        @nki.jit
        def kernel(a, reg):
            def body(r):
                nisa.register_load(r, a)
                return r
            nl.while_loop(reg, body)
     """),
    ("loop-body-return", """
        def body(r):
            return r, 1
        @nki.jit
        def kernel(a, reg):
            nl.while_loop(reg, body_fun=body)
     """, "return r, 1", """
        def body(r):
            return r
        @nki.jit
        def kernel(a, reg):
            nl.while_loop(reg, body_fun=body)
     """),
    *(
        ("value-type", f"""
        @nki.jit
        def kernel(a):
            size = {broken}
            return a
     """, broken, f"""
        @nki.jit
        def kernel(a):
            size = {corrected}
            return a
     """)
        for broken, corrected in (
            ("2**32 - 1 + 1", "2**32 - 1"),
            ("2**40", "2**40 // 2**20"),
            ("1 << 33", "1 << 30"),
            ("0 - 2**31 - 1", "0 - 2**31"),
            ("65536 * 65536", "65536 * 65535"),
            ("2.0**200", "2.0**-200"),
            ("2**4000 // 3", "2**1_000_000_000"),  # not worked out
            ("-4 * 2**40", "(-4) ** 0.5 + 1 // 0"),  # no real number
        )
    ),
    ("branch-on-tile", """
        @nki.jit
        def kernel(a, t):
            if nl.greater(t, 0.0):
                return a
     """, "nl.greater(t, 0.0)", """
        @nki.jit
        def kernel(a, t):
            assert nl.greater(t, 0.0) and nl.less(t, 1.0)
            if a.shape[0] > 0:
                return nl.greater(t, 0.0)
     """),
    ("branch-on-tile", """
        def helper(t):
            while not (t.ndim > 1 and bool(nl.less(t, 0.0))):
                pass
        @nki.jit
        def kernel(a, t):
            helper(t)
     """, "nl.less(t, 0.0)", """
        def helper(t):
            while not t.ndim > 1:
                pass
            return bool(nl.less(t, 0.0))
        @nki.jit
        def kernel(a, t):
            helper(t)
     """),
    ("branch-on-tile", """
        @nki.jit
        def kernel(a, t):
            return nl.equal(t, 0.0) and a
     """, "nl.equal(t, 0.0)", """
        @nki.jit
        def kernel(a, t):
            return a and nl.equal(t, 0.0)
     """),
    ("branch-on-tile", """
        @nki.jit
        def kernel(a, t):
            return a if nl.logical_not(t) else t
     """, "nl.logical_not(t)", """
        @nki.jit
        def kernel(a, t):
            return nl.where(nl.logical_not(t), a, t)
     """),
    ("branch-on-tile", """
        @nki.jit
        def kernel(a, parts):
            return [one for one in parts if nl.less_equal(one, a)]
     """, "nl.less_equal(one, a)", """
        @nki.jit
        def kernel(a, parts):
            return [nl.less_equal(one, a) for one in parts if one.ndim > 1]
     """),
    ("external-state", """
        calls = 0
        @nki.jit
        def kernel(a):
            global calls
            calls = 1
     """, "global calls", """
        calls = 0
        @nki.jit
        def kernel(a):
            calls = 1
     """),
    ("external-state", """
        seen = []
        @nki.jit
        def kernel(a):
            seen.append(a)
     """, "seen.append(a)", """
        seen = []
        @nki.jit
        def kernel(a):
            seen = []
            seen.append(a)
     """),
    ("external-state", """
        table = {}
        @nki.jit
        def kernel(a):
            table['a'] = a
     """, "table['a']", """
        @nki.jit
        def kernel(a, table):
            table['a'] = a
     """),
    ("external-state", """
        size = 128
        def set_size(value):
            global size
            size = value
        @nki.jit
        def kernel(a):
            return a[0:size]
     """, "size]", """
        size = 128
        @nki.jit
        def kernel(a):
            return a[0:size]
     """),
    ("external-state", """
        @nki.jit
        def kernel(a):
            if os.environ['MODE'] == 'x':
                return a
     """, "os.environ", """
        @nki.jit
        def kernel(a, mode=os.environ['MODE']):
            if mode == 'x':
                return a
     """),
]  # fmt: skip


def _source(text):
    return HEAD + textwrap.dedent(text)


def _place(source, text):
    at = source.index(text)
    return source.count("\n", 0, at) + 1, at - source.rfind("\n", 0, at)


@pytest.mark.parametrize(("rule", "broken", "place", "corrected"), TWINS)
def test_a_broken_kernel_is_found_at_its_place_and_its_twin_is_left_alone(rule, broken, place, corrected):
    source = _source(broken)

    found = check_source(source, "kernel.py")

    assert [finding.rule.name for finding in found] == [rule], [str(finding) for finding in found]
    body = source.index("@nki.jit") if rule in ("keyword-only-separator", "list-argument") else len(HEAD)
    line, column = _place(source[body:], place)
    assert (found[0].line, found[0].column) == (line + source.count("\n", 0, body), column)
    assert [str(finding) for finding in check_source(_source(corrected), "kernel.py")] == []


def test_every_rule_has_a_broken_twin():
    assert {rule for rule, *_ in TWINS} == set(RULES)


@pytest.mark.parametrize(("rule", "broken", "place", "corrected"), TWINS)
def test_a_rule_holds_from_the_version_that_documents_it(rule, broken, place, corrected):
    since = RULES[rule].since
    major, minor = since.split(".")

    assert check_source(_source(broken), "kernel.py", sdk=since)
    earlier = check_source(_source(broken), "kernel.py", sdk=f"{major}.{int(minor) - 1}")
    assert [finding for finding in earlier if finding.rule.name == rule] == []
