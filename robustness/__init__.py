"""Robustness, measured: damaged files, killed processes, budgets and the memory that readers take.

`targets` lists every reader of files. `fuzz` changes their files, guided by coverage (``make fuzz``). `kills`,
`mutations` and `budgets` try the promises of SECURITY.md at random, and ``python -m robustness`` writes what they find
to one file (``make robustness``).
"""
