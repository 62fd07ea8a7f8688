"""Models and checkpoints whose settings or weights were edited, with a right checksum: a named error, or an answer."""

import copy
import json
import multiprocessing
import resource
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load

import sdlgm
from robustness.model_targets import (
    BINARY,
    MODELS,
    answers,
    check_answers,
    header_of,
    model_file,
    with_document,
    with_tensors,
)
from sdlgm import SDLGM, ModelFileError, NumericalError, SDLGMClassifier, SDLGMCounter, SDLGMError
from sdlgm.estimators import _fitted
from sdlgm.estimators._limits import LARGEST_BUDGET, LARGEST_N_SAMPLES, MOST_LAYERS

EDITED = (
    "chain-gaussian",
    "subset-bernoulli",
    "ordered-bernoulli",
    "paper",
    "classifier-con",
    "classifier-monte_carlo",
    "classifier-trees",
    "counter-mlp",
    "counter-patches",
)
VALUES = (0, -1, 10**9, 10**18, float("nan"), [1] * 5000, "many")
MEMORY = 2**31
# Far above what the slowest of them takes, on a busy machine.
HANG = 600


def places(value: object, place: tuple = ()) -> list[tuple]:
    """Return the places of all numbers, and of lists of them, in a document."""
    if isinstance(value, dict):
        return [found for key, part in value.items() for found in places(part, (*place, key))]
    if isinstance(value, list):
        return [place, *(found for index, part in enumerate(value[:1]) for found in places(part, (*place, index)))]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return [place] if is_number or value is None else []


def edited(document: dict, place: tuple, value: object) -> dict:
    document = copy.deepcopy(document)
    part = document
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return document


def in_little_memory(work) -> list[str]:
    """Run work in a process that may take two gigabytes more than it has; return the problems that it reports."""
    context = multiprocessing.get_context("fork")
    problems = context.SimpleQueue()

    def limited() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        problems.put(work())

    process = context.Process(target=limited)
    process.start()
    process.join(HANG)
    assert process.exitcode is not None, process.kill()
    assert process.exitcode == 0
    return problems.get()


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")
@pytest.mark.parametrize("name", EDITED)
def test__load__any_number_edited__answers_or_is_a_named_error_in_little_memory(name):
    content, rows = model_file(name), MODELS[name][1]
    document = header_of(content)["document"]
    assert check_answers(content, rows) > 3

    def work() -> list[str]:
        problems = []
        for place in places(document):
            for value in VALUES:
                try:
                    check_answers(with_document(content, edited(document, place, value)), rows)
                except (Exception, Warning) as error:
                    problems.append(f"{place} = {str(value)[:20]}: {error!r}"[:300])
        return problems

    assert in_little_memory(work) == []


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("chain-bernoulli", "max_active", 10**9),
        ("shared-bernoulli", "max_active", 10**18),
        ("subset-bernoulli", "n_samples", 10**9),
        ("chain-bernoulli", "n_components", 10**18),
        ("chain-bernoulli", "hidden", [10**18]),
        ("chain-bernoulli", "hidden", [1] * 5000),
        ("shared-bernoulli", "gate_hidden", [7]),
        ("ordered-bernoulli", "max_active", LARGEST_BUDGET),
        ("classifier-monte_carlo", "n_samples", 10**9),
        ("classifier-con", "n_members", 10**9),
        ("classifier-con", "n_latent", 10**9),
        ("classifier-trees", "n_trees", 10**9),
        ("counter-patches", "channels", 10**9),
        ("counter-patches", "max_active", 3),
    ],
)
def test__load__setting_that_sizes_something__is_named_with_the_file(tmp_path, name, setting, value):
    document = header_of(model_file(name))["document"]
    path = tmp_path / "model.sdlgm"
    path.write_bytes(with_document(model_file(name), edited(document, ("params", setting), value)))
    with pytest.raises(ModelFileError, match=setting) as caught:
        sdlgm.load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("estimator", [SDLGM, SDLGMClassifier, SDLGMCounter])
def test__fit__settings_that_could_not_be_loaded__are_refused(estimator):
    targets = () if estimator is SDLGM else (np.ones((12, 2), int),)
    for wrong in ({"max_active": LARGEST_BUDGET + 1}, {"hidden": (1,) * (MOST_LAYERS + 1)}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            estimator(**wrong).fit(BINARY, *targets)
    if estimator is not SDLGMCounter:
        with pytest.raises(ValueError, match="n_samples"):
            estimator(n_samples=LARGEST_N_SAMPLES + 1).fit(BINARY, *targets)


def test__fit__codes_of_one_row_beyond_memory__are_refused():
    wide = {"posterior": "ordered", "n_components": 10**4, "max_active": 10**3, "n_samples": 100}
    with pytest.raises(ValueError, match=r"n_samples=100 codes .* max_active=1000"):
        SDLGM(**wide).fit(BINARY)


@pytest.mark.parametrize("name", ["ordered-bernoulli", "classifier-monte_carlo"])
def test__rows_at_once__little_memory__gives_the_same_codes_and_probabilities(tmp_path, monkeypatch, name):
    path, rows = tmp_path / "model.sdlgm", MODELS[name][1]
    path.write_bytes(model_file(name))
    model = sdlgm.load(path)
    ask = model.transform if isinstance(model, SDLGM) else model.predict_proba
    whole = ask(rows)
    monkeypatch.setattr(_fitted, "MOST_VALUES", 40)
    monkeypatch.setattr(_fitted, "_MOST_LABELLED_VALUES", 40)
    assert model._fitted.rows_at_once() < len(rows)
    parts = ask(rows)
    if isinstance(model, SDLGM):
        whole, parts = whole.toarray(), parts.toarray()
    np.testing.assert_allclose(parts, whole, rtol=1e-6)


# Weights


def extreme(content: bytes, rng: np.random.Generator) -> bytes:
    """Scale or set entries of some tensors by up to 1e38, in the type that they have."""
    tensors = load(content)
    names = [name for name, tensor in sorted(tensors.items()) if tensor.is_floating_point()]
    for name in rng.choice(names, rng.integers(1, 4)):
        values = tensors[name].view(-1)
        array, most = values.numpy(), float(np.finfo(values.numpy().dtype).max)
        factor = rng.choice([-1, 1]) * 10.0 ** rng.uniform(-38, 38)
        chosen = slice(None) if rng.random() < 0.4 else rng.integers(len(array), size=1)
        start = array[chosen].astype(np.float64) if rng.random() < 0.6 else 1.0
        with np.errstate(over="ignore"):
            array[chosen] = np.clip(start * factor, -most, most)
    return with_tensors(content, tensors)


@pytest.mark.parametrize("name", MODELS)
def test__answers__extreme_weights__are_finite_or_a_named_error(name):
    rng = np.random.default_rng(list(MODELS).index(name))
    content, rows = model_file(name), MODELS[name][1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(12):
            check_answers(extreme(content, rng), rows)


@pytest.mark.parametrize(
    ("name", "tensor", "refused"),
    [
        ("chain-gaussian", "module.decoder.0.weight", {"inverse_transform", "sample", "elbo", "evaluate"}),
        ("shared-bernoulli", "module.posterior.encoder.trunk.0.weight", {"transform", "sample_codes", "score"}),
        ("classifier-gen", "module.decoder.trunk.layers.0.weight", {"sample"}),
        ("counter-mlp", "module.posterior.layers.0.weight", {"predict", "predict_mean", "score"}),
    ],
)
def test__answers__weights_whose_products_overflow__raise_numerical_error(tmp_path, name, tensor, refused):
    tensors = load(model_file(name))
    for part in [part for part in tensors if part.startswith(tensor.rsplit(".", 2)[0]) and part.endswith("weight")]:
        tensors[part].fill_(3e38)
    assert tensor in tensors, sorted(tensors)
    path = tmp_path / "model.sdlgm"
    path.write_bytes(with_tensors(model_file(name), tensors))
    raised = set()
    for method, ask in answers(sdlgm.load(path), MODELS[name][1]):
        try:
            ask()
        except NumericalError as error:
            assert "cannot be computed" in str(error)  # noqa: PT017 - not all of them raise
            raised.add(method)
    assert refused <= raised


# Checkpoints

RUN = {"n_components": 4, "max_active": 2, "hidden": (3,), "max_iter": 10, "batch_size": 6, "random_state": 0}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("checkpoint")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SDLGM(**RUN, early_stopping=True, checkpoint_dir=folder).fit(BINARY)
    return (folder / "checkpoint.safetensors").read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")
def test__resume__any_number_edited__continues_or_is_a_named_error_in_little_memory(checkpoint, tmp_path):
    document = header_of(checkpoint)["document"]

    def work() -> list[str]:
        problems = []
        for place in places(document):
            for value in VALUES:
                (tmp_path / "checkpoint.safetensors").write_bytes(
                    with_document(checkpoint, edited(document, place, value))
                )
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # so short a run learns nothing
                        model = SDLGM(**RUN, early_stopping=True, checkpoint_dir=tmp_path, resume=True).fit(BINARY)
                    if model.n_iter_ > RUN["max_iter"]:
                        problems.append(f"{place} = {value}: {model.n_iter_} iterations")
                except SDLGMError:
                    pass
                except Exception as error:
                    problems.append(f"{place} = {str(value)[:20]}: {error!r}"[:300])
        return problems

    assert in_little_memory(work) == []


@pytest.mark.parametrize(
    "change", [{"iteration": 10**18}, {"n_without_improvement": 10**9}, {"training": [0.0, 10**9]}]
)
def test__resume__loop_state_beyond_the_run__is_named(checkpoint, tmp_path, change):
    document = header_of(checkpoint)["document"] | change
    (tmp_path / "checkpoint.safetensors").write_bytes(with_document(checkpoint, json.loads(json.dumps(document))))
    with pytest.raises(ModelFileError, match=next(iter(change))):
        SDLGM(**RUN, early_stopping=True, checkpoint_dir=tmp_path, resume=True).fit(BINARY)
