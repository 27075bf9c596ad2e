"""How long a stream of instructions takes on a NeuronCore, and why. Knows nothing of values."""
