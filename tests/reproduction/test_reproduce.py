"""The parts of the reproduction on small data."""

import json
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

import sdlgm
from reproduction import gradients, image_peers, runs, table1
from reproduction.baselines import CoupledBernoulli, CoupledCategorical, DiscreteVAE, DiscreteVAEModule, LatentVector
from reproduction.long import long_run
from reproduction.pages import table1 as table1_page
from reproduction.provenance import code_hash, provenance, publish
from reproduction.table1 import ROWS
from sdlgm import load
from sdlgm.model import ModelConfig, Noise
from sdlgm.model.codes.coupling import DenseCoupling
from squares import refuse_the_first, square


def test__rows__all_of_the_paper__are_there_with_its_numbers():
    printed = {"sf": (112.2, 110.6), "darn": (110.9, 128.8), "muprop": (109.7, 107.0), "st": (116.0, 110.9)}
    printed |= {"annealed_st": (111.5, 107.8), "gumbel_softmax": (105.0, 101.5), "st_gumbel_softmax": (111.5, 107.8)}
    for system, numbers in printed.items():
        assert (ROWS[f"{system}-bernoulli"].paper, ROWS[f"{system}-categorical"].paper) == numbers
    assert ROWS["sdlgm_paper"].paper == 99.05
    assert all(row.seeds >= 3 for row in ROWS.values())


def test__rows__every_one__can_be_fitted(digits):
    for row in ROWS.values():
        model = row.estimator(max_iter=2, hidden=(8,), random_state=0).fit(digits[:60])
        assert np.isfinite(model.score(digits[:60])), row.name


def _result(name: str, seed: int) -> dict:
    """Return the result of a run of Table I in which all numbers differ."""
    number = np.random.default_rng(seed).uniform(90, 130, 12).tolist()
    return table1.run_of(name, "mnist", 10_000, seed) | {
        "relaxed": {"test": number[0], "train": number[1]},
        "discrete": {"test": number[2], "train": number[3]},
        "kl": number[4],
        "mean_active": number[5],
        "validation": {"discrete": -number[6], "relaxed": -number[7]},
        "evaluation": {"n_active_max": 12 + seed, "features_alive": 190 + seed, "kl": number[8]},
        "importance_weighted_100": -number[9],
        "temperatures": [number[10], number[11]],
        "seconds_per_iteration": 0.02,
        "code": f"hash {seed}",
    }


def test__published_table__read_again__has_the_runs_that_made_it(tmp_path):
    results = {name: [_result(name, seed) for seed in range(3)] for name in ("reinmax-categorical", "sdlgm_chain")}
    rows = [table1.table_row(ROWS[name], 10_000, of_row) for name, of_row in results.items()]
    path = tmp_path / "table1.json"
    assert table1.published_runs(path, "mnist", 10_000) == {}
    publish(path, {"data": "mnist", "rows": rows})
    found = dict(zip(results, ([], []), strict=True))
    for name, result in table1.published_runs(path, "mnist", 10_000).items():
        assert name == runs.name_of(table1.run_of(result["row"], "mnist", 10_000, result["seed"]))
        found[result["row"]].append(result)
    assert [table1.table_row(ROWS[name], 10_000, of_row) for name, of_row in found.items()] == rows


@pytest.fixture
def published(tmp_path) -> Path:
    rows = [table1.table_row(ROWS[name], 10_000, [_result(name, 0)]) for name in ("sf-bernoulli", "sdlgm_chain")]
    path = tmp_path / "table1.json"
    publish(path, {"data": "mnist", "rows": rows})
    return path


@pytest.mark.parametrize("key", ["version", "system"])
def test__published_table__other_settings__are_not_used(published, key):
    table = json.loads(published.read_text())
    table["rows"][0][key] = "0.1.0-another"
    published.write_text(json.dumps(table))
    found = table1.published_runs(published, "mnist", 10_000)
    assert [result["row"] for result in found.values()] == ["sdlgm_chain"]


@pytest.mark.parametrize("change", ["data", "iterations", "versions"])
def test__published_table__of_something_else__is_refused(published, change):
    table = json.loads(published.read_text())
    if change == "versions":
        table["versions"]["torch"] = "1.0"
        published.write_text(json.dumps(table))
    before = published.read_bytes()
    data, iterations = "digits" if change == "data" else "mnist", 20 if change == "iterations" else 10_000
    with pytest.raises(ValueError, match="another file"):
        table1.reproduce_table1(
            published,
            data=data,
            rows=["sdlgm_chain"],
            seeds=1,
            iterations=iterations,
            n_jobs=1,
            work_folder=Path(),
            page=table1_page.page,
        )
    assert published.read_bytes() == before


def test__reproduce_table1__rows_that_are_published__stay_and_are_not_trained(published, tmp_path):
    before = json.loads(published.read_text())["rows"]
    table = table1.reproduce_table1(
        published,
        data="mnist",
        rows=["sdlgm_chain"],
        seeds=1,
        iterations=10_000,
        n_jobs=1,
        work_folder=tmp_path / "runs",
        page=table1_page.page,
    )
    assert table["rows"] == before
    assert json.loads(published.read_text())["rows"] == before
    page = published.with_suffix(".md").read_text(encoding="utf-8")
    assert page.count("| score function (NVIL) |") == page.count("| SDLGM, chain posterior |") == 1


def _table(**bounds: tuple[float, float]) -> list[dict]:
    """Rows with one seed, of which the validation bound is the first number and the test bounds the second."""
    rows = []
    for name, (validation, test) in bounds.items():
        row = ROWS[name.replace("__", "-")]
        result = _result(row.name, 0) | {"validation": {"discrete": -validation}, "importance_weighted_100": -test}
        rows.append(table1.table_row(row, 10_000, [result | {"discrete": {"test": test, "train": test}}]))
    return rows


def test__page__standing__compares_like_with_like_chosen_by_validation():
    rows = _table(
        reinmax__bernoulli=(110.0, 90.0),  # the best on test images, which nobody may look at
        reinmax__categorical=(105.0, 106.0),
        reinmax_coupled__bernoulli=(101.0, 103.0),
        reinmax_coupled__categorical=(102.0, 99.0),
        sdlgm_subset=(104.0, 104.5),
        sdlgm_shared=(108.0, 80.0),
        sdlgm_chain=(100.0, 101.0),
    )
    text = "\n".join(table1_page.standing(rows))
    assert "5.0 nats ahead of" in text  # the chain and the categorical baseline
    assert "2.0 nats ahead of" in text  # the chain and the coupled Bernoulli baseline
    assert "1.5 nats ahead of" in text  # the subset and the categorical baseline
    assert text.count("nats") == 6
    assert "behind" not in text


@pytest.mark.parametrize("names", [["sdlgm_chain"], ["reinmax-bernoulli"], ["reinmax_coupled-categorical"]])
def test__page__part_of_the_rows__is_written(names):
    rows = _table(**{name.replace("-", "__"): (100.0, 101.0) for name in names})
    page = table1_page.page({"data": "mnist", "rows": rows, "protocol": {}, **provenance()})
    assert "Not measured yet" in page
    assert "ahead" not in page


def test__code_hash__source__is_that_of_what_trains(tmp_path):
    """It depends on every file that trains or measures, and on nothing else."""
    package, baselines = tmp_path / "sdlgm", tmp_path / "reproduction"
    shutil.copytree(Path(sdlgm.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(Path(runs.__file__).parent, baselines, ignore=shutil.ignore_patterns("__pycache__"))
    original = code_hash()
    assert code_hash(package, baselines) == original
    (package / "errors.py").write_text("")
    (baselines / "runs.py").write_text("")
    assert code_hash(package, baselines) == original
    trained_by = [next((package / part).rglob("*.py")) for part in ("model", "gradients", "_kernels", "train")]
    for file in [*trained_by, baselines / "baselines.py"]:
        before = code_hash(package, baselines)
        with file.open("a") as source:
            source.write("# changed\n")
        assert code_hash(package, baselines) != before, file


def test__run_all__some_results_known__does_the_others_and_tells_after_each(tmp_path):
    wanted = [{"number": number} for number in range(3)]
    seen = []
    known = {runs.name_of(wanted[1]): {"number": 1, "square": -1}}
    results = runs.run_all(square, wanted, tmp_path, 1, known=known, after_each=seen.append)
    assert [result["square"] for result in results] == [0, -1, 4]
    assert [[result["number"] for result in so_far] for so_far in seen] == [[0, 1], [0, 1, 2]]
    # What is in the folder is not done again, and is more than what is known.
    known = {runs.name_of(wanted[0]): {"number": 0, "square": -1}}
    assert [r["square"] for r in runs.run_all(square, wanted[:1], tmp_path, 1, known=known)] == [0]


def test__run_all__one_fails__those_running_end_and_no_other_begins(tmp_path, monkeypatch):
    wanted = [{"number": number} for number in range(4)]

    class Watched(runs.RunsProgress):
        def take(self, reports):
            super().take(reports)
            if (tmp_path / runs.name_of(wanted[0])).exists():
                (tmp_path / "failed").touch()

    monkeypatch.setattr(runs, "RunsProgress", Watched)
    with pytest.raises(ValueError, match="no square of nothing"):
        runs.run_all(refuse_the_first, wanted, tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "failed"]
    assert (tmp_path / "1" / "result.json").exists()


def test__run_all__reports_of_runs__are_shown_until_they_are_done(tmp_path, monkeypatch):
    wanted = [{"number": number, "data": "whole numbers", "version": "0.1"} for number in (3, 4)]
    (tmp_path / runs.name_of(wanted[1])).mkdir()
    (tmp_path / runs.name_of(wanted[1]) / "result.json").write_text("{}")
    seen = []

    class Watched(runs.RunsProgress):
        def report(self, *args):
            super().report(*args)
            seen.append([(task.description, task.completed, task.fields["state"]) for task in self.rich.tasks])

        def finish(self, run):
            super().finish(run)
            seen.append([(task.description, task.completed, task.fields["state"]) for task in self.rich.tasks])

    monkeypatch.setattr(runs, "RunsProgress", Watched)
    runs.run_all(square, wanted, tmp_path, 1)
    assert seen == [[("runs", 1.5, "1/2"), ("3", 0.5, "half way")], [("runs", 2, "2/2")]]


def test__runs_progress__no_terminal__a_line_now_and_then(capsys, monkeypatch):
    now = iter([0.0, 10.0, 20.0, 41.0])
    monkeypatch.setattr(runs.time, "monotonic", lambda: next(now))
    wanted = [{"number": number, "version": "0.1"} for number in range(5)]
    progress = runs.RunsProgress(wanted, completed=1)
    for run in wanted[:3]:
        progress.finish(run)
    assert capsys.readouterr().err == "2/5 runs after 10 s: 0\n4/5 runs after 41 s: 2\n"


@pytest.mark.parametrize("latent", ["bernoulli", "categorical"])
def test__latent_vector_kl__equals_torch_distributions(latent, generator):
    logits = torch.randn(5, 4, 2 if latent == "bernoulli" else 3, generator=generator)
    prior = torch.randn(4, logits.shape[-1], generator=generator)
    expected = torch.distributions.kl_divergence(
        torch.distributions.Categorical(logits=logits), torch.distributions.Categorical(logits=prior)
    ).sum(-1)
    found = LatentVector(logits, latent).kl(LatentVector(prior, latent), "exact")
    torch.testing.assert_close(found, expected)


def test__coupled_baselines__cost__has_the_divergence_as_its_mean(generator):
    """Summed over all codes, E[log q - log p] is E[cost]."""
    prior = LatentVector(torch.randn(3, 2, generator=generator).double(), "bernoulli")
    coupling = torch.triu(torch.randn(3, 3, generator=generator), 1).double()
    bernoulli = CoupledBernoulli(torch.randn(1, 3, generator=generator).double(), DenseCoupling(coupling), 3)
    codes = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3).double().unsqueeze(1)
    probs = bernoulli.log_prob(codes).exp()
    assert float(probs.sum()) == pytest.approx(1.0)
    expected = -(probs * bernoulli.log_ratio(codes, prior)).sum()
    torch.testing.assert_close((probs * bernoulli.cost(codes, prior)).sum(), expected)

    variable = torch.arange(6) // 3
    coupling = torch.randn(6, 6, generator=generator).double() * (variable > variable[:, None])
    categorical = CoupledCategorical(torch.randn(1, 2, 3, generator=generator).double(), coupling)
    prior = LatentVector(torch.randn(2, 3, generator=generator).double(), "categorical")
    symbols = gradients.FAMILIES["categorical"].symbols.unsqueeze(1)
    probs = categorical.log_prob_of(symbols).exp()
    assert float(probs.sum()) == pytest.approx(1.0)
    expected = -(probs * categorical.log_ratio(symbols, prior)).sum()
    torch.testing.assert_close((probs * categorical.cost(categorical.counts(symbols), prior)).sum(), expected)
    drawn = categorical.sample_symbols(20_000, Noise(generator))[:, 0].flatten(1)
    frequency = torch.stack([(drawn == each[0].flatten()).all(-1).double().mean() for each in symbols])
    torch.testing.assert_close(frequency, probs[:, 0], atol=0.015, rtol=0)


@pytest.mark.parametrize(("posterior", "n_features", "n_slots"), [("bernoulli", 3, 3), ("coupled_categorical", 6, 2)])
def test__baselines__prior_of_all_codes__sums_to_one(posterior, n_features, n_slots):
    config = ModelConfig(n_inputs=4, n_features=n_features, n_slots=n_slots, posterior=posterior, hidden=(4,))
    module = DiscreteVAEModule(config)
    with torch.no_grad():
        for parameter in module.prior.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
        codes = torch.tensor(list(product([0.0, 1.0], repeat=n_features)))
        if posterior == "coupled_categorical":
            codes = codes[(codes.unflatten(-1, (n_slots, -1)).sum(-1) == 1).all(-1)]
        log_probs = module.log_prior(codes)
    assert float(log_probs.std()) > 0.1
    assert float(log_probs.exp().sum()) == pytest.approx(1, rel=1e-5)


def test__measure__unbiased_and_biased__can_be_told_apart():
    family = gradients.FAMILIES["categorical"]
    unbiased = gradients.measure("leave_one_out", family, copies=200, repeats=40)
    biased = gradients.measure("straight_through", family, copies=200, repeats=40)
    assert unbiased["bias"] < 4 * unbiased["bias_error"]
    assert biased["bias"] > 8 * biased["bias_error"]


@pytest.mark.parametrize("one_layer", [False, True])
def test__long_run__interrupted__goes_on_with_its_curve(one_layer, tmp_path):
    options = {
        "data": "digits",
        "one_layer": one_layer,
        "iterations": 10,
        "seed": 0,
        "work_folder": tmp_path,
        "verbose": False,
    }
    result = long_run(tmp_path / "long.json", **options)
    assert [point["iteration"] for point in result["curve"]] == list(range(1, 11))
    assert result["curve"][-1]["seconds"] > 0
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    again = long_run(tmp_path / "again.json", **options)
    assert again["test"] == result["test"]
    assert json.loads((tmp_path / "again.json").read_text())["curve"] == result["curve"]
    model = load(folder / "model.sdlgm")
    assert model.n_iter_ == 10
    assert len(model.hidden) == (1 if one_layer else 3)


def test__peers__budget__is_kept_and_more_is_better(digits):
    digits = digits.copy()  # torch wants to be able to write
    coded = [image_peers.top_k_autoencoder(digits, digits, n_features=20, k=k, iterations=200, seed=0) for k in (1, 8)]
    dictionary = image_peers.fitted_dictionary(digits, n_features=20, seed=0)
    coded += [image_peers.dictionary_codes(dictionary, digits, digits, k=k, seed=0) for k in (1, 8)]
    for few, many in (coded[:2], coded[2:]):
        assert few.n_active <= 1
        assert many.n_active <= 8
        assert many.bits > few.bits
        assert many.error < few.error


def test__baselines__start__has_as_many_variables_on_as_the_prior_says(digits):
    few = DiscreteVAE(
        posterior="bernoulli",
        hidden=(64, 32),
        n_components=20,
        max_active=20,
        gate_prior=0.1,
        max_iter=1,
        learning_rate=1e-9,
        random_state=0,
    ).fit(digits)
    assert few.evaluate(digits).n_active_expected == pytest.approx(2.0, abs=0.5)
    assert few.module_.prior().probs[:, 1].detach().numpy() == pytest.approx(np.full(20, 0.1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"posterior": "bernoulli", "max_active": 10}, "n_components, 20"),
        ({"posterior": "categorical", "max_active": 3}, "not a multiple"),
        ({"posterior": "bernoulli", "max_active": 20, "devices": 2, "random_state": 0}, "one process"),
    ],
)
def test__baselines__what_they_cannot_do__is_refused(digits, options, message):
    with pytest.raises(ValueError, match=message):
        DiscreteVAE(n_components=20, **options).fit(digits)


def test__baselines__files_and_samples__are_refused(digits, tmp_path):
    model = DiscreteVAE(posterior="bernoulli", n_components=20, max_active=20, max_iter=1, hidden=(8,)).fit(digits)
    with pytest.raises(NotImplementedError, match="saved"):
        model.save(tmp_path / "model.sdlgm")
    with pytest.raises(NotImplementedError, match="sampled"):
        model.sample()
