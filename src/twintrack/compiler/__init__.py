"""Graph IR, its rules, what a program costs, how it is executed, and the persistent cache."""
