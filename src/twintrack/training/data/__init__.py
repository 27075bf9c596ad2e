"""Training and evaluation text, as rows of fixed length.

``prepare`` reads the job's files, splits, tokenises, masks and packs them; ``collate`` makes a batch of rows, of that
length or of the length that the batch needs.
"""

from twintrack.training.data.prepare import prepare
from twintrack.training.data.rows import Counts, Padding, PreparedData, Row, batch_length, collate

__all__ = ["Counts", "Padding", "PreparedData", "Row", "batch_length", "collate", "prepare"]
