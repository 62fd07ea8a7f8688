"""Reproduce the tables and figures of the paper, and build the pages that show them.

The package is not installed. Run it from the root of the repository: ``python -m reproduction --help``.

It is built on the public API of `sdlgm` (``sdlgm``, ``sdlgm.codec``, ``sdlgm.data``, ``sdlgm.errors``, ``sdlgm.nn``)
and on these internals:

- ``sdlgm._files``: write a file whole or not at all
- ``sdlgm._signals``: SIGTERM as an exception
- ``sdlgm._tensorfile``: read the iteration of a checkpoint
- ``sdlgm.estimators._compat``: constraints of parameters
- ``sdlgm.estimators._evaluation``: the bits of codes
- ``sdlgm.estimators._migrations``: parameters that were added since a version
- ``sdlgm.estimators._thresholds``: thresholds and F1 scores of multi-label predictions
- ``sdlgm.gradients``: the gradient estimators
- ``sdlgm.model.codes``: the distributions over codes, and the contract that those of the baselines fulfil
- ``sdlgm.model.gradient``: the kinds of codes that an estimator is defined for
- ``sdlgm.model.modules``: the unsupervised and the counting module
- ``sdlgm.model.networks``: the encoders
- ``sdlgm.model.noise`` and ``sdlgm.model.shards``: random numbers
- ``sdlgm.train.clock``: the clock of ``max_time``
- ``sdlgm.report.figures``: pictures of a fitted model, and their colours

All of them but ``_files``, ``_signals`` and ``report.figures`` are imported by `reproduction.internals` alone. The
baselines and the regression peers also override ``_module_class``, ``_check_settings``, ``_publish_prior`` and
``_parameter_constraints`` of an estimator and ``_new_prior`` of its module, and read its ``_fitted`` model.
"""
