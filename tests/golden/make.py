"""Write the golden files of a version: a model of every estimator and posterior, and what it answers.

    python tests/golden/make.py

Files are written once, by the version that they are named after. This script refuses to write into a folder that
exists; SHA256SUMS holds their checksums, and README.md says how to add to it.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

import sdlgm
from sdlgm import SDLGM, SDLGMClassifier, SDLGMCounter
from sdlgm.codec._files import opened

HERE = Path(__file__).parent


def answers(model: Any, rows: list[Any]) -> dict[str, Any]:
    """Return what a model says about some rows, as JSON knows it."""
    if isinstance(model, SDLGM):
        codes = model.transform(rows)
        return {
            "codes": codes.toarray().tolist(),
            "decoded": model.inverse_transform(codes).tolist(),
            "elbo": model.elbo(rows, random_state=0).tolist(),
            "gate_prior": model.gate_prior_,
            "n_iter": model.n_iter_,
        }
    if isinstance(model, SDLGMClassifier):
        return {
            "proba": model.predict_proba(rows).tolist(),
            "labels": model.predict(rows).tolist(),
            "sparsity": model.predict_sparsity(rows).probs.tolist(),
            "classes": model.classes_.tolist(),
            "max_active": model.max_active_,
        }
    return {
        "mean": model.predict_mean(np.array(rows)).tolist(),
        "counts": model.predict(np.array(rows)).tolist(),
        "classes": model.classes_.tolist(),
        "max_active": model.max_active_,
    }


def wire(model: SDLGM) -> dict[str, Any]:
    """Return codes of all sizes as a model writes them to bytes."""
    rng, codec = np.random.default_rng(0), model.codec_
    codes = np.zeros((60, codec.n_features), np.int32)
    for row, size in zip(codes, np.arange(60) % (codec.budget + 1), strict=True):
        np.add.at(row, rng.choice(codec.n_features, size, replace=not codec.sets), 1)
    matrix = sp.csr_matrix(codes)
    return {
        "features": [np.repeat(np.arange(codec.n_features), row).tolist() for row in codes],
        "messages": [message.hex() for message in codec.to_messages(matrix)],
        "with_checksum": [message.hex() for message in codec.to_messages(matrix, checksum=True)],
        "file": codec.to_bytes(matrix).hex(),
    }


def bounded(model: SDLGM) -> list[dict[str, Any]]:
    """Return rows as a model writes them within error bounds, in both kinds of blocks, and what they decode to."""
    of_codes, found = model.sample(60, random_state=0), []
    for _ in range(4):  # rows that the model knows
        of_codes = model.inverse_transform(model.transform(of_codes))
    max_error = 0.01 * (of_codes.std(axis=0) + 1)
    of_codes += max_error * np.random.default_rng(0).normal(size=of_codes.shape)
    in_time = of_codes[:1] + np.linspace(0, 1, 60)[:, None]
    for rows in (of_codes, in_time):
        rows[3, 1], rows[5, 0] = np.nan, 1e200
        content = model.compress(rows, max_error=max_error)
        kept = {"rows": rows.tolist(), "decoded": model.decompress(content).tolist(), "file": content.hex()}
        found.append({"max_error": max_error.tolist(), "kinds": kinds_of(content), **kept})
    return found


def kinds_of(content: bytes) -> list[int]:
    """Return the kinds of the blocks of a file."""
    with opened(content) as reader:
        return [block[0] for _, block in reader.blocks()]


def models() -> dict[str, tuple[Any, list[Any]]]:
    """Return a fitted model for each name, and rows to ask it about."""
    rng = np.random.default_rng(0)
    parts = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0]])
    binary = np.minimum(rng.integers(0, 2, (80, 3)) @ parts, 1).astype(float)
    continuous = rng.integers(0, 2, (80, 3)) @ rng.normal(size=(3, 4)) * [1, 10, 100, 0] + [0, 5, 1e6, 2]
    continuous[:, :3] += 0.1 * rng.normal(size=(80, 3))
    labels = np.stack([binary[:, 0], binary[:, 5], binary[:, 0] * binary[:, 3]], axis=1).astype(int)
    x = binary + 0.1 * rng.normal(size=binary.shape)
    counts = rng.integers(0, 3, (80, 2))
    of_counts = counts @ rng.normal(size=(2, 4))
    pictures = rng.random((40, 8, 16)) * 0.1
    digits = rng.integers(0, 3, (40, 2))
    for row, pair in enumerate(digits):
        for place, digit in enumerate(pair):
            pictures[row, 1 + 3 * (digit > 1) : 4 + digit, 2 + 8 * place : 4 + 8 * place] += 1 if digit else 0
    of_pictures = np.stack([(digits == 1).sum(1), (digits == 2).sum(1)], axis=1)

    small: dict[str, Any] = {"n_components": 5, "max_active": 3, "hidden": (8,), "gate_hidden": (4,), "max_iter": 150}
    small |= {"batch_size": 20, "random_state": 0}
    few: dict[str, Any] = {"hidden": (8,), "max_iter": 100, "batch_size": 20, "random_state": 0}
    made: dict[str, tuple[Any, list[Any]]] = {}
    for posterior in ("chain", "subset", "ordered", "shared"):
        made[f"sdlgm-{posterior}-bernoulli"] = SDLGM(**small, posterior=posterior).fit(binary), binary[:4].tolist()
        made[f"sdlgm-{posterior}-gaussian"] = (
            SDLGM(**small, posterior=posterior).fit(continuous),
            continuous[:4].tolist(),
        )
    of_chain = {"prior": "chain", "prior_rank": 2, "posterior_rank": 3}
    made["sdlgm-chain-prior"] = SDLGM(**small, **of_chain).fit(binary), binary[:4].tolist()
    of_subset = {"prior": "chain", "prior_hidden": 4, "posterior": "subset"}
    many = {**small, "n_components": 1000}
    made["sdlgm-many-features"] = SDLGM(**many).fit(binary), binary[:4].tolist()
    made["sdlgm-subset-prior"] = SDLGM(**small, **of_subset).fit(continuous), continuous[:4].tolist()
    annealed = SDLGM(**small, gradient="annealed_straight_through", final_temperature=0.5).fit(binary)
    made["sdlgm-chain-annealed"] = annealed, binary[:4].tolist()
    paper: dict[str, Any] = {"posterior": "shared", "gradient": "gumbel_softmax", "kl": "paper", "share_layers": False}
    made["sdlgm-paper"] = SDLGM(**small, **paper, learn_temperature=True).fit(binary), binary[:4].tolist()
    for variant in ("dis", "gen", "con"):
        classifier = SDLGMClassifier(**few, variant=variant, n_members=2, n_latent=3).fit(x, labels)
        made[f"classifier-{variant}"] = classifier, x[:4].tolist()
    for likelihood in ("closed_form", "multinomial", "monte_carlo"):
        made[f"classifier-{likelihood}"] = (
            SDLGMClassifier(**few, likelihood=likelihood).fit(x, labels),
            x[:4].tolist(),
        )
    made["classifier-trees"] = SDLGMClassifier(**few, n_trees=3, threshold=0.4).fit(x, labels), x[:4].tolist()
    made["counter-mlp"] = SDLGMCounter(**few).fit(of_counts, counts), of_counts[:4].tolist()
    for encoder in ("cnn", "patches"):
        counter = SDLGMCounter(**few, encoder=encoder, channels=2, patch_size=8).fit(pictures, of_pictures)
        made[f"counter-{encoder}"] = counter, pictures[:2].tolist()
    return made


def main() -> None:
    torch.set_num_threads(1)
    folder = HERE / sdlgm.__version__
    folder.mkdir()
    for name, (model, rows) in models().items():
        model.save(folder / f"{name}.sdlgm")
        loaded = sdlgm.load(folder / f"{name}.sdlgm")
        expected = answers(loaded, rows)
        (folder / f"{name}.json").write_text(json.dumps({"rows": rows, "answers": expected}) + "\n")
        if isinstance(loaded, SDLGM):
            content = {"model": f"{sdlgm.__version__}/{name}.sdlgm", **wire(loaded)}
            (folder / f"{name}.wire").write_text(json.dumps(content) + "\n")
        if isinstance(loaded, SDLGM) and loaded.likelihood_ == "gaussian":
            content = {"model": f"{sdlgm.__version__}/{name}.sdlgm", "files": bounded(loaded)}
            (folder / f"{name}.bounded").write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main()
