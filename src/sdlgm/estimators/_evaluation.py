"""Codes, decoded rows and bounds of a fitted unsupervised model. Pure functions of the model and the rows."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.validation import assert_all_finite
from torch import Tensor

from sdlgm.data import RowFiles
from sdlgm.estimators._codes import sparse_rows, stack_rows
from sdlgm.estimators._diagnosis import same_codes
from sdlgm.estimators._fitted import BATCH, FittedSDLGM, check_finite
from sdlgm.estimators._preparation import check_unit_interval, in_batches, in_unit_interval
from sdlgm.estimators._results import Evaluation, PosteriorProbs
from sdlgm.model.codes import CodeDistribution, OrderedDistribution
from sdlgm.model.codes.chain import Chain
from sdlgm.model.modules.unsupervised import IMPORTANCE_CHUNK, Bound, SDLGMModule
from sdlgm.model.noise import Noise
from sdlgm.train import binarize, to_tensor
from sdlgm.train.batches import Rows, dense, threshold

# Rows for which relaxed samples are drawn at a time: except on the CPU, each needs max_active x n_components numbers.
RELAXED_BATCH = 100
# A feature is alive if a drawn code contains it with at least this probability, on average over the rows.
ALIVE = 1e-3

Encode = Callable[[Tensor], Tensor]
"""From a batch of prepared rows to their codes."""


def prepared_batches(fitted: FittedSDLGM, rows: Rows | RowFiles, size: int | None = None) -> Iterator[Tensor]:
    """Iterate over rows as input of the encoder without draws: scaled, thresholded, or as they are.

    Values that the likelihood cannot have raise here, while the batch is in the processor's cache.
    """
    size = fitted.rows_at_once() if size is None else size
    for number, batch in enumerate(in_batches(rows, size)):
        bernoulli = fitted.likelihood == "bernoulli"
        if not (bernoulli and in_unit_interval(batch)):
            allow_nan = not sp.issparse(batch)
            assert_all_finite(batch, allow_nan=allow_nan, estimator_name="SDLGM", input_name="X")
            if bernoulli:
                check_unit_interval(in_unit_interval(np.nan_to_num(batch) if allow_nan else batch))
            elif fitted.module.config.layout is not None:
                fitted.supports.check(dense(batch), first_row=number * size, names=fitted.names)
        scaled = fitted.scaling.apply_checked(batch, first_row=number * size, names=fitted.names)
        x = to_tensor(scaled, fitted.device)
        yield threshold(x) if fitted.binarize == "threshold" else x


def posterior_of(module: SDLGMModule, x: Tensor) -> CodeDistribution:
    """Return q(z given x) of the bounds, or raise if a number is not finite: no code follows from it."""
    return _checked(module.inference_of_codes(x))


def proposal_of(module: SDLGMModule, x: Tensor) -> CodeDistribution:
    """Return q(z given x) of the network, with which a search begins; or raise as `posterior_of` does."""
    return _checked(module.inference(x))


def _checked(posterior: CodeDistribution) -> CodeDistribution:
    check_finite("q(z given x)", *(logits for logits in vars(posterior).values() if isinstance(logits, Tensor)))
    if isinstance(posterior, Chain):
        check_finite("q(z given x)", *posterior.coupling.tensors)
    return posterior


# Codes


def encode(fitted: FittedSDLGM, rows: Rows | RowFiles, code: Encode) -> sp.csr_matrix:
    """Return the codes of rows as a CSR matrix."""
    with torch.inference_mode():
        parts = [sparse_rows(code(x)) for x in prepared_batches(fitted, rows)]
        return stack_rows(parts, fitted.module.config.n_features)


def best_codes(
    module: SDLGMModule, x: Tensor, n_candidates: int, noise: Noise, rate: float = 1.0, *, n_steps: int = 0
) -> Tensor:
    """Return for each row the best code among the mode and ``n_candidates`` draws, after up to ``n_steps`` changes.

    The best code has the largest log p(x given z) + rate * log p(z).
    """
    score, posterior = module.score_with(rate), proposal_of(module, x)
    mode = posterior.mode()
    if n_candidates == 0:
        return module.improved(x, mode.to(x), rate, n_steps) if n_steps else mode
    best = mode = mode.to(x)
    best_score = score(x, mode[None])[0]
    check_finite("p(x, z)", best_score)
    for _ in range(n_candidates):
        counts = posterior.sample(1, noise)[0]
        reached = score(x, counts[None])[0]
        best = torch.where((reached > best_score)[:, None], counts, best)
        best_score = torch.maximum(reached, best_score)
    check_finite("p(x, z)", best_score)  # NaN if that of any candidate is
    return module.improved(x, best, rate, n_steps) if n_steps else best


def coarse_codes(module: SDLGMModule, x: Tensor, budget: int) -> Tensor:
    """Return the first ``budget`` features of each code of an ordered posterior."""
    posterior = proposal_of(module, x)
    assert isinstance(posterior, OrderedDistribution)
    return posterior.mode(budget).cpu()


def decode(fitted: FittedSDLGM, codes: Rows, observation: Callable[[Tensor], Tensor]) -> np.ndarray:
    """Decode codes; ``observation`` turns the output of the decoder into rows."""
    module, parts = fitted.module, []
    with torch.inference_mode():
        for batch in in_batches(codes, fitted.rows_at_once()):
            output = module.generative(module.decoder_input(to_tensor(batch, fitted.device)))
            check_finite("p(x given z)", output)
            parts.append(fitted.scaling.undo(observation(output).cpu().numpy()))
            check_finite("x", parts[-1])
    return np.concatenate(parts) if parts else np.empty((0, module.config.n_inputs))


def posterior_probs(fitted: FittedSDLGM, rows: Rows | RowFiles) -> PosteriorProbs:
    """Return the parameters of q(z given x)."""
    gate_prob, feature_probs = [], []
    with torch.inference_mode():
        for x in prepared_batches(fitted, rows):
            posterior = proposal_of(fitted.module, x)
            if isinstance(posterior, Chain):  # the estimates of a row depend on the row alone
                posterior = replace(posterior, common_noise=True)
            gate_prob.append(posterior.gate_prob.cpu().numpy())
            feature_probs.append(posterior.feature_probs.cpu().numpy())
            check_finite("q(z given x)", gate_prob[-1], feature_probs[-1])
    return PosteriorProbs(np.concatenate(gate_prob), np.concatenate(feature_probs))


# Bounds


def elbo(fitted: FittedSDLGM, rows: Rows | RowFiles, bound: Bound, n_importance: int, noise: Noise) -> np.ndarray:
    """Return the bound on log p(x) of each row, in nats and in the units of the data; of what is there of it."""
    module, parts, jacobians = fitted.module, [], []
    with torch.inference_mode():
        most, n_samples = (RELAXED_BATCH if bound == "relaxed" else BATCH), fitted.n_samples
        n_codes = min(n_importance, IMPORTANCE_CHUNK) if n_importance > 1 else n_samples
        for batch in prepared_batches(fitted, rows, fitted.rows_at_once(n_codes, most)):
            x = binarize(batch, fitted.binarize, noise)
            posterior = posterior_of(module, x)
            if n_importance > 1:
                values = module.importance_weighted_bound_of(posterior, x, n_importance, noise)
            else:
                codes = module.draw(posterior, bound=bound, n_samples=n_samples, noise=noise)
                values = module.elbo_of(posterior, x, codes, fitted.kl).value
            check_finite("the bound on log p(x)", values)
            parts.append(values.cpu().numpy().astype(np.float64))
            jacobians.append(fitted.scaling.log_jacobians(torch.isnan(batch).cpu().numpy()))
    return np.concatenate(parts) + np.concatenate(jacobians)


def evaluate(
    fitted: FittedSDLGM,
    rows: Rows | RowFiles,
    codes: sp.csr_matrix,
    *,
    discrete: float,
    relaxed: float,
    noise: Noise,
) -> Evaluation:
    """Return the evaluation of rows whose codes and bounds are known."""
    module, n_rows = fitted.module, codes.shape[0]
    n_active = np.asarray(codes.sum(axis=1)).ravel()
    totals, presence = np.zeros(4), np.zeros(codes.shape[1])
    with torch.inference_mode():
        prior = module.prior()
        for batch in prepared_batches(fitted, rows):
            x = binarize(batch, fitted.binarize, noise)
            posterior = posterior_of(module, x)
            terms = posterior.prior_terms(prior, fitted.kl)
            parts = terms.kl, terms.kl_gates, terms.kl_features, module.config.n_slots * posterior.gate_prob
            totals += [float(part.cpu().double().sum()) for part in parts]
            presence += posterior.presence.cpu().double().sum(0).numpy()
    check_finite("the information in the codes", totals, presence)
    kl, kl_gates, kl_features, n_active_expected = (totals / n_rows).tolist()
    return Evaluation(
        n_rows=n_rows,
        max_active=int(module.config.n_slots),
        n_components=codes.shape[1],
        discrete=discrete,
        relaxed=relaxed,
        kl=kl,
        kl_gates=kl_gates,
        kl_features=kl_features,
        n_active_expected=n_active_expected,
        n_active_mean=float(n_active.mean()),
        n_active_max=int(n_active.max()),
        code_bits=code_bits(fitted, codes),
        features_used=int(np.count_nonzero(np.asarray(codes.sum(axis=0)))),
        features_alive=int(np.count_nonzero(presence / n_rows >= ALIVE)),
        reconstruction_error=reconstruction_error(fitted, rows, codes),
        problem=same_codes(codes, rows),
    )


def code_bits(fitted: FittedSDLGM, codes: sp.csr_matrix) -> float:
    """Return the mean -log2 p(z) of codes."""
    total = 0.0
    with torch.inference_mode():
        for code in in_batches(codes, BATCH):
            total -= float(fitted.module.log_prior(to_tensor(code, fitted.device)).cpu().double().sum())
    check_finite("the length of the codes", total)
    return total / codes.shape[0] / math.log(2)


def reconstruction_error(fitted: FittedSDLGM, rows: Rows | RowFiles, codes: sp.csr_matrix) -> float:
    """Return the mean squared error of an entry, in the units of the data.

    Missing entries are left out. That of a category is 1 if the decoded level is another, and otherwise 0.
    """
    total, n_known = 0.0, 0
    categories = fitted.supports.categories
    for batch, code in zip(in_batches(rows, BATCH), in_batches(codes, BATCH), strict=True):
        decoded = decode(fitted, code, fitted.module.likelihood.mean)
        with np.errstate(over="ignore"):
            errors = np.square(decoded - dense(batch), dtype=np.float64)
        errors[:, categories] = np.minimum(errors[:, categories], 1.0)  # levels are whole numbers
        missing = np.isnan(errors)
        n_missing = int(np.count_nonzero(missing))
        total += float(errors.sum() if n_missing == 0 else errors.sum(where=~missing))
        n_known += errors.size - n_missing
    check_finite("the reconstruction error", total)
    return total / max(1, n_known)
