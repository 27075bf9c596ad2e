"""What runs cost: lines, prices, provenance, errors."""
