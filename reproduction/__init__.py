"""Reproduce the tables and figures of the paper, and build the pages that show them.

The package is not installed. Run it from the root of the repository: ``python -m reproduction --help``.

It is built on the public API of `sdlgm` (``sdlgm``, ``sdlgm.data``, ``sdlgm.errors``) and on these internals:

- ``sdlgm._files``: write a file whole or not at all
- ``sdlgm._tensorfile``: read the iteration of a checkpoint
- ``sdlgm.gradients``: the gradient estimators
- ``sdlgm.gradients.base``: the kinds of codes that an estimator is defined for
- ``sdlgm.model``: the module, its configuration and the expectations of the bound
- ``sdlgm.model.chain``: the chain distribution
- ``sdlgm.model.counting``: the counting module, which the regression peers share
- ``sdlgm.model.draws``: gradients of drawn symbols
- ``sdlgm.model.elbo``: the terms of the objective
- ``sdlgm.model.noise``: Gumbel noise
- ``sdlgm.model.ordered``: the ordered distribution
- ``sdlgm.model.posteriors``: the encoder network of a posterior
- ``sdlgm.model.presence``: a distribution that is described by which features are present
- ``sdlgm.model.prior``: log-odds
- ``sdlgm.model.slots``: the two forms of the KL
- ``sdlgm.model.subset``: the subset distribution
- ``sdlgm.model.supervised``: a training step with targets
- ``sdlgm.model.variables``: independent categorical variables
- ``sdlgm.report.figures``: pictures of a fitted model, and their colours
- ``sdlgm.thresholds``: thresholds and F1 scores of multi-label predictions

Everything below ``sdlgm.model`` and ``sdlgm.gradients`` is imported by `reproduction.internals` alone. The baselines
and the regression peers also override ``_module_class`` of an estimator and read its ``module_``.
"""
