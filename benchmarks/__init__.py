"""Speed and growth compared with the peers. Run from the root of the repository: ``python -m benchmarks.run``."""
