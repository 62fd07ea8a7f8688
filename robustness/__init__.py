"""Robustness, measured: damaged files, killed processes, budgets and the memory that readers take.

`targets` lists every reader of files. `fuzz` changes their files, guided by coverage (``make fuzz``). `kills`,
`mutations` and `budgets` try the promises of SECURITY.md at random. `bombs` lists small files that state or unpack to
gigabytes, and `memory` measures what their readers take. ``python -m robustness`` writes all results to one file
(``make robustness``).
"""
