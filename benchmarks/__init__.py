"""Speed and growth beside the peers. Run from the root of the repository: ``python -m benchmarks.run``."""
