"""The PyTorch front end: capture of functions of tensors into the graph IR."""
