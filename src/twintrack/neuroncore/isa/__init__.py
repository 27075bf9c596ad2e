"""Instructions as records: operators, engines, legality, the stream of a kernel run."""
