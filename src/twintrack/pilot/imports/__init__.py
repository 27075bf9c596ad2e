"""Runs made elsewhere, brought in as events."""

from twintrack.pilot.imports.columns import parse_columns
from twintrack.pilot.imports.folder import ImportedRun, ImportRequest, import_run
from twintrack.pilot.imports.formats import FORMATS

__all__ = ["FORMATS", "ImportRequest", "ImportedRun", "import_run", "parse_columns"]
