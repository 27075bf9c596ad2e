"""What a NeuronCore remembers: element types, buffers, views onto them, capacity."""
