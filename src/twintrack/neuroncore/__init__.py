"""One NeuronCore in software: memories, instructions, the values that they compute and the time that they take."""
