"""Training and evaluation text, as rows of fixed length.

``prepare`` reads the job's files, splits, tokenises, masks and packs them; ``collate`` makes a batch of rows.
"""

from twintrack.training.data.prepare import prepare
from twintrack.training.data.rows import Counts, PreparedData, Row, collate

__all__ = ["Counts", "PreparedData", "Row", "collate", "prepare"]
