"""Call one function of a file with arguments: ``_call.py FILE FUNCTION [ARGUMENT...]``.

For examples whose check is a function that the file itself does not call, or calls among long benchmarks.
An argument ``@NAME`` is the object of that name in the file; any other is a text.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    """Import the file under its own name, as its neighbours would, and call the function."""
    path, function, *rest = arguments
    file = Path(path).resolve()
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        sys.exit(f"{file.name}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    getattr(module, function)(*(getattr(module, text[1:]) if text.startswith("@") else text for text in rest))


if __name__ == "__main__":
    main(sys.argv[1:])
