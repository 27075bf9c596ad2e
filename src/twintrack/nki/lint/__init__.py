"""Python that runs here and that the real NKI compiler refuses, found in a kernel's source.

A simulator executes kernels as plain Python, so it takes more than the compiler does. The rules (``RULES``) are the
restrictions that the vendor's documentation states, each with its page and the first SDK version that has it.
"""

from twintrack.nki.lint.check import NEWEST, check_function, check_source
from twintrack.nki.lint.records import RULES, Finding, Rule

__all__ = ["NEWEST", "RULES", "Finding", "Rule", "check_function", "check_source"]
