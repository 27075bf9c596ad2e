"""Parts of ``scripts/conformance.py``: public test suites run on the emulator and judged."""
