"""Fingerprints of short fits, to show that a change of the code leaves every result as it was.

    python tests/fingerprints.py before.json     record, on the code before the change
    python tests/fingerprints.py after.json      record, on the code after it
    python tests/fingerprints.py --compare before.json after.json

A fingerprint holds hashes of parameters, codes and predictions, and the exact bounds, of a seeded fit. They are
comparable on one machine only, which is why no test contains any.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.datasets import load_digits, make_multilabel_classification

from sdlgm import SDLGM, SDLGMClassifier, SDLGMCounter
from sdlgm.gradients import GRADIENTS

SMALL = {"n_components": 16, "max_active": 5, "hidden": (32,), "gate_hidden": (8,), "max_iter": 60, "batch_size": 50}
CURVE = ("iteration", "discrete", "relaxed", "kl", "n_active", "kl_weight", "learning_rate", "gate_temperature")
POSTERIORS = {
    "shared": "gumbel_softmax straight_through_gumbel muprop",
    "subset": "gumbel_softmax straight_through_gumbel muprop gumbel_rao disarm",
    "ordered": "gumbel_softmax straight_through_gumbel muprop gumbel_rao",
    "chain": "",
}
ALWAYS = "reinmax straight_through darn annealed_straight_through score_function leave_one_out"


def digest(values: Any) -> str:
    """SHA-256 of the bytes of an array, a sparse matrix or a tensor."""
    if sp.issparse(values):
        parts = (values.shape, values.toarray())
    else:
        array = np.ascontiguousarray(values)
        parts = (array.shape, array.dtype.str, array)
    checksum = hashlib.sha256()
    for part in parts:
        checksum.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    return checksum.hexdigest()[:16]


def of_training(model: Any) -> dict[str, Any]:
    state = {name: digest(tensor.cpu().numpy()) for name, tensor in sorted(model.module_.state_dict().items())}
    return {
        "state": hashlib.sha256(json.dumps(state).encode()).hexdigest()[:16],
        "curve": [[repr(getattr(record, name)) for name in CURVE] for record in model.history_],
        "n_iter": model.n_iter_,
    }


def of_sdlgm(model: SDLGM, X: Any) -> dict[str, Any]:
    codes = model.transform(X)
    probs = model.posterior_probs(X)
    evaluation = vars(model.evaluate(X, random_state=3))
    return of_training(model) | {
        "likelihood": getattr(model, "likelihood_", None),
        "codes": digest(codes),
        "decoded": digest(model.inverse_transform(codes)),
        "candidates": digest(model.transform(X, n_candidates=3)),
        "drawn": digest(model.sample_codes(X, random_state=1)),
        "sampled": digest(model.sample(7, random_state=2)),
        "gate_prob": digest(probs.gate_prob),
        "feature_probs": digest(probs.feature_probs),
        "elbo": digest(model.elbo(X, random_state=4)),
        "relaxed": digest(model.elbo(X, bound="relaxed", random_state=4)),
        "importance": digest(model.elbo(X, n_importance=20, random_state=4)),
        "evaluation": {name: repr(value) for name, value in evaluation.items()},
        "prior": [repr(model.gate_prior_), digest(model.feature_prior_)],
    }


def of_classifier(model: SDLGMClassifier, X: Any, y: Any) -> dict[str, Any]:
    sparsity = model.predict_sparsity(X)
    result = of_training(model) | {
        "proba": digest(model.predict_proba(X)),
        "labels": digest(model.predict(X)),
        "sparsity": [digest(sparsity.mean), digest(sparsity.probs)],
        "threshold": repr(np.asarray(model.threshold_).tolist()),
        "score": repr(model.score(X, y)),
        "evaluation": {name: repr(value) for name, value in vars(model.evaluate(X, y)).items()},
    }
    if model.variant != "dis":
        result["sampled"] = digest(model.sample(y, random_state=5))
    return result


def of_counter(model: SDLGMCounter, X: Any, y: Any) -> dict[str, Any]:
    return of_training(model) | {
        "proba": digest(model.predict_proba(X)),
        "mean": digest(model.predict_mean(X)),
        "counts": digest(model.predict(X)),
        "evaluation": {name: repr(value) for name, value in vars(model.evaluate(X, y)).items()},
    }


def measurements() -> np.ndarray:
    rng = np.random.default_rng(0)
    causes = rng.integers(0, 2, (300, 4)) @ rng.normal(size=(4, 6))
    X = causes + 0.1 * rng.normal(size=(300, 6))
    X = X * np.array([1, 10, 100, 1e-3, 1, 1]) + np.array([0, 5, 1e6, 0, -3, 0])
    X[:, 4] = 2.0
    return X


def sdlgm_cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    digits = (load_digits().data[:400] / 16).astype(np.float32)
    binary: dict[str, Any] = {**SMALL, "random_state": 0, "likelihood": "bernoulli"}
    numbers = measurements()

    def case(X: Any, **settings: Any) -> Callable[[], dict[str, Any]]:
        likelihood = "gaussian" if X is numbers else "bernoulli"
        return lambda: of_sdlgm(SDLGM(**binary | {"likelihood": likelihood} | settings).fit(X), X)

    for posterior, others in POSTERIORS.items():
        for gradient in f"{ALWAYS} {others}".split():
            assert gradient in GRADIENTS
            yield f"sdlgm {posterior} {gradient}", case(digits, posterior=posterior, gradient=gradient)
        yield f"sdlgm {posterior} gaussian", case(numbers, posterior=posterior)
        yield f"sdlgm {posterior} two samples", case(digits, posterior=posterior, n_samples=2)
        yield f"sdlgm {posterior} fixed prior", case(digits, posterior=posterior, learn_prior=False, gate_prior=0.3)
    yield "sdlgm no warm-up", case(digits, kl_warmup=0.0)
    yield "sdlgm threshold", case(digits, binarize="threshold")
    yield "sdlgm probability", case(digits, binarize="probability")
    yield "sdlgm sparse", case(sp.csr_matrix((digits > 0.5).astype(np.float64)))
    yield "sdlgm relu", case(digits, activation="relu", normalize_logits=False)
    yield "sdlgm early stopping", case(digits, early_stopping=True, max_iter=120, n_iter_no_change=2)
    yield "sdlgm large held-out part", case(np.tile(digits, (4, 1)), early_stopping=True, validation_fraction=0.4)
    paper = {"posterior": "shared", "gradient": "gumbel_softmax", "kl": "paper", "share_layers": False}
    yield "sdlgm paper", case(digits, **paper, learn_temperature=True, learn_prior=False)
    yield "sdlgm final temperature", case(digits, **paper, final_temperature=0.3)
    annealed = {"gradient": "annealed_straight_through", "final_temperature": 0.3}
    for posterior in POSTERIORS:
        yield f"sdlgm annealed {posterior}", case(digits, **annealed, posterior=posterior)
    yield (
        "sdlgm ordered budget",
        lambda: {"codes": digest(SDLGM(**binary, posterior="ordered").fit(digits).transform(digits, budget=2))},
    )

    def files() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.npy"
            np.save(path, digits)
            return of_sdlgm(SDLGM(**binary).fit(path), digits)

    yield "sdlgm files", files
    yield (
        "sdlgm stream",
        lambda: of_sdlgm(SDLGM(**binary).fit(part for part in np.array_split(digits, 4)), digits),
    )

    def in_passes() -> dict[str, Any]:
        model = SDLGM(**binary)
        for part in np.array_split(digits, 3):
            model.partial_fit(part)
        return of_sdlgm(model, digits)

    yield "sdlgm partial_fit", in_passes

    def resumed() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            settings = binary | {"checkpoint_dir": folder, "checkpoint_every": 20}

            def stop(_: Any, iteration: int) -> None:
                if iteration == 45:
                    raise InterruptedError

            try:
                SDLGM(**settings).fit(digits, callback=stop)
            except InterruptedError:
                pass
            return of_sdlgm(SDLGM(**settings, resume=True).fit(digits), digits)

    yield "sdlgm resumed", resumed
    yield "sdlgm two processes", case(digits, devices=2)
    yield "sdlgm two processes ordered", case(digits, devices=2, posterior="ordered")


def labelled_cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    X, Y = make_multilabel_classification(n_samples=200, n_classes=4, random_state=0)  # pyright: ignore
    small = {"max_iter": 60, "hidden": (32,), "batch_size": 50, "random_state": 0}

    def case(X: Any, y: Any, unlabelled: Any = None, **settings: Any) -> Callable[[], dict[str, Any]]:
        def run() -> dict[str, Any]:
            return of_classifier(SDLGMClassifier(**small | settings).fit(X, y, unlabelled=unlabelled), X, y)

        return run

    for variant in ("dis", "gen", "con"):
        for likelihood in ("subset", "closed_form", "multinomial", "monte_carlo"):
            settings = {"variant": variant, "likelihood": likelihood, "n_members": 2, "n_samples": 2}
            yield f"classifier {variant} {likelihood}", case(X, Y, **settings)
        if variant != "dis":
            yield f"classifier {variant} unlabelled", case(X[:120], Y[:120], X[120:], variant=variant)
    yield "classifier sparse", case(sp.csr_matrix(X), Y)
    yield "classifier sparse con", case(sp.csr_matrix(X[:120]), Y[:120], sp.csr_matrix(X[120:]), variant="con")
    yield "classifier trees", case(X, Y, n_trees=7, n_members=2)
    yield "classifier cv", case(X, Y, threshold="cv")
    yield "classifier cv per label", case(X, Y, threshold="cv_per_label", n_trees=3)
    yield "classifier classes", case(X, Y.argmax(axis=1))

    rng = np.random.default_rng(0)
    counts = rng.integers(3, size=(120, 2))
    rows = counts @ rng.normal(size=(2, 5)) + rng.normal(scale=0.1, size=(120, 5))
    images = (load_digits().images[:80] / 16).astype(np.float32)
    images = np.concatenate([images[:40], images[40:]], axis=2)
    of_images = np.eye(10, dtype=int)[load_digits().target[:40]] + np.eye(10, dtype=int)[load_digits().target[40:80]]
    few = {"max_iter": 30, "hidden": (16,), "channels": 4, "batch_size": 20, "random_state": 0}

    def counter(X: Any, y: Any, **settings: Any) -> Callable[[], dict[str, Any]]:
        return lambda: of_counter(SDLGMCounter(**few | settings).fit(X, y), X, y)

    yield "counter mlp", counter(rows, counts)
    yield "counter sparse", counter(sp.csr_matrix(rows), counts)
    yield "counter one class", counter(rows, counts[:, 0])
    for encoder in ("mlp", "cnn", "patches", "auto"):
        yield f"counter pictures {encoder}", counter(images, of_images, encoder=encoder)
    yield "counter shifted", counter(images, of_images, max_shift=2, encoder="cnn")


def baseline_cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the reproduction is not installed
    from reproduction.baselines import DiscreteVAE

    digits = (load_digits().data[:400] / 16).astype(np.float32)

    def case(**settings: Any) -> Callable[[], dict[str, Any]]:
        def run() -> dict[str, Any]:
            n_variables = 20 if "bernoulli" in settings["posterior"] else 5
            shape = {"n_components": 20, "max_active": n_variables, "hidden": (32,)}
            model = DiscreteVAE(**shape, likelihood="bernoulli", max_iter=60, batch_size=50, random_state=0, **settings)
            return of_training(model.fit(digits)) | {
                "codes": digest(model.transform(digits)),
                "elbo": digest(model.elbo(digits)),
                "importance": digest(model.elbo(digits, n_importance=20)),
            }

        return run

    names = {"bernoulli": "reinmax score_function disarm muprop gumbel_rao", "categorical": "reinmax gumbel_softmax"}
    for latent, gradients in names.items():
        for gradient in gradients.split():
            yield f"baseline {latent} {gradient}", case(posterior=latent, gradient=gradient)
        yield f"baseline coupled {latent}", case(posterior=f"coupled_{latent}", gradient="reinmax")


def record() -> dict[str, Any]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {}
    for name, run in (*sdlgm_cases(), *labelled_cases(), *baseline_cases()):
        results[name] = run()
        print(name, file=sys.stderr)  # noqa: T201
    return results


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return where two recordings differ."""
    differing = [f"{name}: only in one of them" for name in sorted(set(before) ^ set(after))]
    for name in sorted(set(before) & set(after)):
        keys = [key for key in before[name] if before[name][key] != after[name].get(key)]
        if keys:
            differing.append(f"{name}: {', '.join(keys)}")
    return differing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--compare", action="store_true")
    arguments = parser.parse_args()
    if arguments.compare:
        differing = compare(*(json.loads(path.read_text()) for path in arguments.files))
        print("\n".join(differing) or "the same")  # noqa: T201
        return bool(differing)
    arguments.files[0].write_text(json.dumps(record(), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
