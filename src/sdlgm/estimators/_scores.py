"""The bound of each row as a score, and its exact decomposition into columns. Pure functions of the model and the rows.

The score of a row depends on the model and on the row alone, not on its place among other rows or on a seed: all rows
share the noise of the draws.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from sdlgm.data import RowFiles
from sdlgm.estimators._evaluation import posterior_of, prepared_batches
from sdlgm.estimators._fitted import FittedSDLGM, check_finite
from sdlgm.model.codes.base import CodeDistribution
from sdlgm.model.codes.subset import MOST_DRAWN
from sdlgm.model.codes.subset import N_DRAWS as N_DRAWS_OF_TERMS
from sdlgm.model.modules.unsupervised import SDLGMModule
from sdlgm.model.noise import StratifiedNoise
from sdlgm.train import binarize
from sdlgm.train.batches import Rows

N_DRAWS = 8
"""Draws of a code over which its log-likelihood is averaged."""
BATCH = 500


@dataclass(frozen=True)
class BoundParts:
    """The bound on log p(x) of each row, in nats: columns.sum(axis=1) - code."""

    columns: np.ndarray
    """(n, D), the expected log-density of each column given the code, in the units of the data."""
    code: np.ndarray
    """(n,), KL(q, p), what the code costs."""

    @property
    def bound(self) -> np.ndarray:
        return self.columns.sum(axis=1) - self.code


def bounds(fitted: FittedSDLGM, rows: Rows | RowFiles) -> np.ndarray:
    """Return the bound of each row."""
    return np.concatenate([parts.bound for parts in _parts_of_batches(fitted, rows)])


def bound_parts(fitted: FittedSDLGM, rows: Rows | RowFiles) -> BoundParts:
    """Return the bound of each row in parts."""
    parts = list(_parts_of_batches(fitted, rows))
    return BoundParts(np.concatenate([p.columns for p in parts]), np.concatenate([p.code for p in parts]))


def _parts_of_batches(fitted: FittedSDLGM, rows: Rows | RowFiles) -> Iterator[BoundParts]:
    module, jacobians = in_double_precision(fitted), fitted.scaling.column_log_jacobians
    prior = module.prior()
    # As many rows as do not lower the number of draws behind estimated terms, which is to be the same for all batches.
    most = min(BATCH, MOST_DRAWN // (N_DRAWS_OF_TERMS * module.config.n_features))
    for batch in _batches(fitted, rows, max(1, most)):
        with torch.inference_mode():
            first, *others = StratifiedNoise.set_of(N_DRAWS, 0, fitted.device)
            x, posterior, terms = _inference(fitted, module, batch, prior, first)
            columns, code = module.entry_log_likelihood(x, posterior.sample(1, first))[0].double(), terms.double()
            for noise in others:
                if fitted.binarize == "dynamic":
                    x, posterior, terms = _inference(fitted, module, batch, prior, noise)
                columns = columns + module.entry_log_likelihood(x, posterior.sample(1, noise))[0].double()
                code = code + terms.double()
            known = ~torch.isnan(batch).cpu().numpy()
            parts = BoundParts((columns / N_DRAWS).cpu().numpy() + known * jacobians, (code / N_DRAWS).cpu().numpy())
        check_finite("the bound on log p(x)", parts.columns, parts.code)
        yield parts


def _inference(
    fitted: FittedSDLGM, module: SDLGMModule, batch: Tensor, prior: CodeDistribution, noise: StratifiedNoise
) -> tuple[Tensor, CodeDistribution, Tensor]:
    """Return a batch as the likelihood has it, the posterior, and its divergence from the prior."""
    x = binarize(batch, fitted.binarize, noise)
    posterior = with_common_noise(posterior_of(module, x))
    return x, posterior, posterior.prior_terms(prior, fitted.kl).kl


def _batches(fitted: FittedSDLGM, rows: Rows | RowFiles, most: int) -> Iterator[Tensor]:
    with torch.inference_mode():
        for batch in prepared_batches(fitted, rows, fitted.rows_at_once(1, most)):
            yield batch if fitted.device.type == "mps" else batch.double()


def in_double_precision(fitted: FittedSDLGM) -> SDLGMModule:
    """Return a copy of the module in double precision.

    In single precision the score of a row would depend on the size of its batch, in the seventh digit, and scores of
    hundreds of thousands of nats, as of rows far from the training data, would be whole numbers.
    """
    if fitted.device.type == "mps":  # has none
        return fitted.module
    return copy.deepcopy(fitted.module).double()


def with_common_noise(posterior: CodeDistribution) -> CodeDistribution:
    """Return a posterior whose estimates for a row depend on the row alone."""
    if "common_noise" in (field.name for field in fields(posterior)):  # pyright: ignore[reportArgumentType]
        return replace(posterior, common_noise=True)  # pyright: ignore[reportCallIssue, reportArgumentType]
    return posterior
