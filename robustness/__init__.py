"""Robustness, measured: damaged files, killed processes, budgets and the memory that readers take.

`targets` lists every reader of files. `fuzz` changes their files, guided by coverage (``make fuzz``). `bombs` lists
small files that state or unpack to gigabytes, and `memory` measures what their readers take.
"""
