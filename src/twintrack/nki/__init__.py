"""NKI, the Neuron Kernel Interface, in software: the names that a kernel imports. It computes no values of its own."""
