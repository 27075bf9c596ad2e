"""twintrack: decide, with evidence, whether a fine-tuning job belongs on AWS Trainium2 or on GPU."""

__version__ = "0.3.0"

__all__ = ["__version__"]
