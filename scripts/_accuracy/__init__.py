"""Parts of ``scripts/accuracy.py``: kernels whose times were published, simulated and compared."""
