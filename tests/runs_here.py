"""Runs of a reproduction in the process of the test, without files of runs."""


def run_here(work, runs, folder, n_jobs, *, fresh, after_each):
    """Stand in for `reproduction.runs.run_all`."""
    results = []
    for run in runs:
        results.append(run | work(run, folder))
        after_each(results)
    return results
