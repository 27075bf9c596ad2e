"""What the lint knows (rules, each with the page it comes from) and what it says (findings)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["RULES", "Finding", "Rule"]

_GUIDE = "nki/get-started/nki-language-guide.rst"
_MIGRATION = "nki/migration/index.rst"
_LOOPS = "nki/deep-dives/nki-dynamic-loops.rst"


@dataclass(frozen=True)
class Rule:
    """One documented restriction of the language that the NKI compiler takes.

    Attributes:
        name: how findings and pages call it.
        since: first SDK version whose documentation states it, such as ``2.29``.
        required: what must hold.
        remedy: what to do.
        document: page of aws-neuron/aws-neuron-sdk that states it, as it is called in 2.32.
        section: heading there.
    """

    name: str
    since: str
    required: str
    remedy: str
    document: str
    section: str

    @property
    def source(self) -> str:
        """Where the rule is documented, in words."""
        return f"{self.document}, '{self.section}', SDK {self.since}"


@dataclass(frozen=True)
class Finding:
    """One place in a kernel's source that the real compiler refuses, or may compile to something stale.

    Attributes:
        rule: the rule that is broken.
        file: as the caller named it.
        line: from 1.
        column: from 1, in characters.
        function: function the place is in.
        found: what stands there.
    """

    rule: Rule
    file: str
    line: int
    column: int
    function: str
    found: str

    def __str__(self) -> str:
        """One line, as the errors of this package read."""
        return (
            f"{self.file}:{self.line}:{self.column}: in {self.function}: required {self.rule.required}, "
            f"found {self.found}; {self.rule.remedy} [{self.rule.name}]"
        )


def _table(*rules: Rule) -> Mapping[str, Rule]:
    return MappingProxyType({rule.name: rule for rule in rules})


RULES: Mapping[str, Rule] = _table(
    Rule(
        "identity-operator", "2.29", "'==' or '!='", "compare values; identity means nothing while tracing",
        _MIGRATION, "Replace is / is not with == / !=",
    ),
    Rule(
        "keyword-only-separator", "2.29", "no bare '*' in a kernel's signature",
        "remove it and put parameters with defaults last",
        _MIGRATION, "Remove keyword-only argument separator (*)",
    ),
    Rule(
        "list-argument", "2.29", "no list as an argument of a kernel", "use a tuple, here and where it is called",
        _MIGRATION, "Replace list kernel arguments with tuples",
    ),
    Rule(
        "class-base", "2.27", "a class that a kernel uses to inherit from NKIObject and nothing else",
        "derive it from nki.language.NKIObject alone", _GUIDE, "Class Support",
    ),
    Rule(
        "enum-operator", "2.27", "no operator but '==' and '!=' on enumeration members",
        "compare with '==' or use the member's value", _GUIDE, "Enumerations",
    ),
    Rule(
        "dict-key", "2.27", "strings as keys of a dictionary", "use a string key, or a list", _GUIDE, "NKI Values",
    ),
    Rule(
        "value-type", "2.27",
        "None, a boolean, a 32-bit integer or float, a string, a tensor, or a tuple, list, dictionary or NKIObject",
        "use one of these", _GUIDE, "NKI Values",
    ),
    Rule(
        "decorated-subkernel", "2.27", "no nki.jit on a function that a kernel calls",
        "remove its decorator; where it is also called from Python, decorate it there: nki.jit(f)(...)",
        _MIGRATION, "Remove nki.jit decorator on sub-kernels",
    ),
    Rule(
        "legacy-namespace", "2.30", "no neuronxcc.nki inside a kernel of nki.jit", "use the nki namespace",
        _MIGRATION, "neuronxcc.nki.* inside kernels - now a compilation error",
    ),
    Rule(
        "platform-target", "2.29", "no platform_target in nki.jit",
        "set NEURON_PLATFORM_TARGET_OVERRIDE instead", _MIGRATION, "nki.jit(platform_target=...)",
    ),
    Rule(
        "dynamic-loop-in-no-reorder", "2.29", "no loop on a register inside no_reorder",
        "put no_reorder into the body of the loop, or use range", _LOOPS, "Interaction with no_reorder",
    ),
    Rule(
        "dynamic-loop-step", "2.29", "a positive integer that is known when compiling, as step of a dynamic loop",
        "write the step as a constant", _LOOPS, "Parameter Constraints",
    ),
    Rule(
        "loop-variable-write", "2.30", "the variable of a dynamic loop to be read only",
        "keep the value in a register of your own, or in SBUF", _GUIDE, "Dynamic Control Flow",
    ),
    Rule(
        "loop-variable-in-python", "2.29", "no Python test or arithmetic on the variable of a dynamic loop",
        "it is a register: use it as scalar_offset, or compute with it on the device", _LOOPS, "Hardware Lowering",
    ),
    Rule(
        "loop-body-return", "2.32", "a fori_loop body that returns nothing and a while_loop body that returns the "
        "next condition alone", "carry other state in SBUF or HBM", _MIGRATION, "Rules for migrated loops",
    ),
    Rule(
        "branch-on-tile", "2.30", "no Python branch on a comparison of tiles",
        "their values are known on the device only: select with nl.where, or loop on a register",
        _GUIDE, "Compilation Model",
    ),
    Rule(
        "external-state", "2.30", "a kernel whose result depends on its arguments alone",
        "pass the value as an argument; a cached kernel would keep the old one", _GUIDE, "Kernel Caching",
    ),
)  # fmt: skip
"""The rules by name."""
