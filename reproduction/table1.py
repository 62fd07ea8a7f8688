"""Reproduce Table I: every estimator and every baseline with one recipe, by both criteria.

Models are selected on the last 5,000 training images, which no run trains on. Test images are only reported.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from reproduction.baselines import DiscreteVAE
from reproduction.internals import KL, Noise, SDLGMModule, added_since, checkpoint_iteration
from reproduction.provenance import code_hash, publish, versions
from reproduction.runs import Run, name_of, report, run_all, versioned
from sdlgm import PAPER, SDLGM, __version__
from sdlgm._files import write_text
from sdlgm.data import load_data
from sdlgm.report.figures import dense

VALIDATION_FRACTION = 1 / 12  # 5,000 of MNIST's 60,000 training images
LAST_ITERATIONS = 200  # the paper reports the mean over these
SDLGM_SEEDS, BASELINE_SEEDS = 10, 3
OF_THE_MACHINE = ("devices", "max_time", "num_nodes", "strategy")
"""Settings that do not change the result of a run."""

SLOTS: dict[str, Any] = {
    "likelihood": "bernoulli",
    "hidden": PAPER["hidden"],
    "prior": "slots",
    "prior_hidden": None,
    "posterior_rank": None,
}
"""Settings of the rows with the paper's family of priors."""
CHAIN_PRIOR: dict[str, Any] = {"prior": "chain", "prior_hidden": "auto", "posterior_rank": "auto"}
"""Settings of the rows with a chain prior: the defaults of `SDLGM`."""
WIDE: dict[str, Any] = {"hidden": (512,)}
"""Settings of the rows with one wide hidden layer in encoder and decoder."""
ONE_LAYER = "_one_layer"
"""The end of the names of these rows."""
# The final temperature of Gumbel-Softmax and related estimators, as in Jang, Gu and Poole.
ANNEALED = {"final_temperature": 0.5}


@dataclass(frozen=True)
class Row:
    """One row of the table: a system and its settings."""

    system: str
    latent: Literal["bernoulli", "categorical", "slots"]
    title: str
    paper: float | None = None
    """The number that the paper prints."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that differ from the defaults of `SDLGM` with the prior of `SLOTS`."""

    @property
    def seeds(self) -> int:
        """Number of runs of the row in the whole table."""
        return SDLGM_SEEDS if self.latent == "slots" else BASELINE_SEEDS

    @property
    def name(self) -> str:
        return self.system if self.latent == "slots" else f"{self.system}-{self.latent}"

    def estimator(self, **further: Any) -> SDLGM:
        """Return the unfitted estimator of the row."""
        if self.latent == "slots":
            return SDLGM(**{**SLOTS, **self.options, **further})
        variables = {"bernoulli": 200, "categorical": 20}[self.latent]
        fixed = {"posterior": self.latent, "n_components": 200, "max_active": variables}
        return DiscreteVAE(**{**SLOTS, **fixed, **self.options, **further})


_BASELINES: list[tuple[str, str, dict[str, Any], float | None, float | None]] = [
    # system, title, options, the number in the paper with categorical and with Bernoulli variables
    ("sf", "score function (NVIL)", {"gradient": "score_function"}, 110.6, 112.2),
    ("darn", "DARN", {"gradient": "darn"}, 128.8, 110.9),
    ("muprop", "MuProp", {"gradient": "muprop"}, 107.0, 109.7),
    ("st", "straight-through", {"gradient": "straight_through"}, 110.9, 116.0),
    (
        "annealed_st",
        "slope-annealed straight-through",
        {"gradient": "annealed_straight_through", **ANNEALED},
        107.8,
        111.5,
    ),
    ("gumbel_softmax", "Gumbel-Softmax", {"gradient": "gumbel_softmax", **ANNEALED}, 101.5, 105.0),
    (
        "st_gumbel_softmax",
        "straight-through Gumbel-Softmax",
        {"gradient": "straight_through_gumbel", **ANNEALED},
        107.8,
        111.5,
    ),
    ("reinmax", "ReinMax", {"gradient": "reinmax"}, None, None),
    ("gumbel_rao", "Gumbel-Rao", {"gradient": "gumbel_rao", **ANNEALED}, None, None),
]


def _rows() -> dict[str, Row]:
    rows = []
    for system, title, options, categorical, bernoulli in _BASELINES:
        rows.append(Row(system, "bernoulli", title, bernoulli, options))
        rows.append(Row(system, "categorical", title, categorical, options))
    rows.append(Row("disarm", "bernoulli", "DisARM", None, {"gradient": "disarm"}))
    rows.append(Row("leave_one_out", "categorical", "leave-one-out REINFORCE", None, {"gradient": "leave_one_out"}))
    # Controls: baselines with the coupling of the SDLGM's chain, and with few active variables at the start.
    for latent in ("bernoulli", "categorical"):
        title = "ReinMax, coupled posterior"
        rows.append(Row("reinmax_coupled", latent, title, None, {"posterior": f"coupled_{latent}"}))
    few = {"gate_prior": 0.1}
    rows.append(Row("reinmax_few", "bernoulli", "ReinMax, a tenth on at first", None, few))
    title = "ReinMax, coupled posterior, a tenth on at first"
    rows.append(Row("reinmax_coupled_few", "bernoulli", title, None, {"posterior": "coupled_bernoulli", **few}))
    title = "ReinMax, coupled posterior and chain prior"
    options = {"posterior": "coupled_categorical", **CHAIN_PRIOR}
    rows.append(Row("reinmax_coupled_chain_prior", "categorical", title, None, options))
    title = "ReinMax, coupled posterior and chain prior, a tenth on at first"
    options = {"posterior": "coupled_bernoulli", **CHAIN_PRIOR, **few}
    rows.append(Row("reinmax_coupled_few_chain_prior", "bernoulli", title, None, options))
    # The best of each kind with another network, on both sides.
    for name in (
        "reinmax-categorical",
        "reinmax_few",
        "reinmax_coupled_chain_prior",
        "reinmax_coupled_few_chain_prior",
    ):
        rows.append(_with_one_layer(next(row for row in rows if name in (row.system, row.name))))
    rows += [
        Row("sdlgm_paper", "slots", "SDLGM, the paper's setting", 99.05, PAPER),
        Row(
            "sdlgm_relaxed",
            "slots",
            "SDLGM, relaxed, temperatures learned",
            None,
            {"posterior": "shared", "gradient": "gumbel_softmax", "learn_temperature": True},
        ),
        Row(
            "sdlgm_relaxed_paper",
            "slots",
            "SDLGM, relaxed, temperatures learned, the paper's KL and prior",
            None,
            {
                "posterior": "shared",
                "gradient": "gumbel_softmax",
                "learn_temperature": True,
                "kl": "paper",
                "learn_prior": False,
            },
        ),
        Row("sdlgm_shared", "slots", "SDLGM, shared posterior", None, {"posterior": "shared"}),
        # The gate prior 0.15 has a better validation bound than the default 0.5.
        Row(
            "sdlgm_ordered",
            "slots",
            "SDLGM, ordered posterior, gate prior 0.15",
            None,
            {"posterior": "ordered", "gate_prior": 0.15},
        ),
        Row("sdlgm_subset", "slots", "SDLGM, subset posterior", None, {"posterior": "subset"}),
        Row(
            "sdlgm_subset_gumbel_rao",
            "slots",
            "SDLGM, subset posterior, Gumbel-Rao",
            None,
            {"posterior": "subset", "gradient": "gumbel_rao", **ANNEALED},
        ),
        Row(
            "sdlgm_chain_leave_one_out",
            "slots",
            "SDLGM, chain posterior, leave-one-out REINFORCE",
            None,
            {"posterior": "chain", "gradient": "leave_one_out"},
        ),
        Row("sdlgm_chain", "slots", "SDLGM, chain posterior", None, {"posterior": "chain"}),
        Row("sdlgm_chain_prior", "slots", "SDLGM, chain posterior and chain prior", None, CHAIN_PRIOR),
    ]
    rows.append(_with_one_layer(rows[-1]))
    return {row.name: row for row in rows}


def _with_one_layer(row: Row) -> Row:
    title = f"{row.title}, one layer of 512"
    return Row(f"{row.system}{ONE_LAYER}", row.latent, title, None, {**row.options, **WIDE})


ROWS = _rows()
# The protocol is part of the published results. Change it together with a new run.
PROTOCOL = {
    "binarisation": "dynamic: a fresh Bernoulli draw of the grey levels every time an image is seen, for all rows",
    "networks": "encoder 512-384-256, decoder 256-384-512, or one hidden layer of 512 in both where the title says so; "
    "K = 200; sdlgm_paper has the paper's gate network 256-64 on "
    "the image, sdlgm_relaxed... and sdlgm_shared one of 64 on the encoder's last hidden layer, the chains "
    "and the coupled baselines a 200 x 200 matrix, those with a chain prior 256 hidden units in the prior, "
    "sdlgm_ordered queries and keys of 32 numbers, the score function a network of 100 "
    "for its own baseline; the others nothing beside the encoder",
    "recipe": "the defaults of SDLGM for all rows but sdlgm_paper: Adam, schedules of learning rate and KL weight, "
    "SiLU, normalised logits, a prior that is learned after the KL warm-up, of independent slots or variables but for "
    "the rows with a chain prior; estimators with a temperature "
    "(but sdlgm_relaxed..., where it is learned) are led from 1 to 0.5; sdlgm_paper is the paper's setting, with "
    "inputs centred and the decoder started at the mean image, which the paper does not mention",
    "seeds": "as many as the table says; the whole table has 10 for each SDLGM and 3 for each baseline",
    "training": "on all training images but the last twelfth (5,000 of MNIST's), which are the validation images",
    "test and train": "mean over the last 200 iterations of the bound on one batch of 100 test images, and on one of "
    "100 training images, with the parameters of that iteration; relaxed and discrete on the same images",
    "choice of the recipe": "learning rate, its schedule and the learned prior were chosen with the SDLGM and the "
    "categorical baseline, and with the chain how many features are on at first, in some hours of short runs on the "
    "validation images; the hidden layer of the chain prior was chosen with the SDLGM on the same images, out of 128, "
    "256 and 512 units, and the one layer of encoder and decoder in one run of the SDLGM, which was better than with "
    "the three of the paper; no system has options of its own but for what its title says, so an estimator with more "
    "noise may have done better with a smaller learning rate",
    "KL": "sdlgm_paper and sdlgm_relaxed_paper are scored with the KL that they are trained with, the paper's, which "
    "is larger than the exact one; codes of chain and subset are sets, of which the decoder sees no counts, so that "
    "all counts with the same features are one code with the sum of their probabilities",
    "ordered": "every second list is cut short in training, so that the first features matter most, and none in what "
    "is measured",
    "code": "each run notes a hash of the source that trained and measured it; runs without one are of earlier states "
    "of it under the same settings; those of sdlgm_chain that were repeated later, for the table of budgets, came out "
    "the same to the last digit",
    "relaxed": "the closed-form (for chain: conditional) KL, less what repetitions add where codes are sets, with the "
    "likelihood of relaxed samples at the temperatures of that iteration; estimators with hard draws never train on "
    "such samples",
    "selection": "by the discrete bound of the final model on the validation images; test images are only reported",
    "time": "processor seconds an iteration on one thread, other runs beside it",
}


def reproduce_table1(
    out: Path,
    *,
    data: str,
    rows: Sequence[str],
    seeds: int | None,
    iterations: int,
    n_jobs: int,
    work_folder: Path,
    page: Callable[[Mapping[str, Any]], str],
) -> dict[str, Any]:
    """Train every row with its seeds and write the table to ``out`` after each run.

    Runs that ``out`` already has with the same settings are not repeated. They stay in the table even if their rows are
    not among ``rows``.

    Parameters
    ----------
    out : Path
        The JSON file of the table. The page is written beside it, as Markdown.
    data : str
        Name of a data set of images.
    rows : sequence of str
        Names of the rows to train.
    seeds : int or None
        Number of runs of each row; None for the number of the whole table.
    iterations : int
        Training iterations of a run.
    n_jobs : int
        Number of processes.
    work_folder : Path
        Folder for the results and checkpoints of the runs.
    page : callable
        Makes the page from the table.

    Returns
    -------
    dict
        The table, as written to ``out``.

    """
    published = published_runs(out, data, iterations)
    # Ordered by seed, so that an interrupted reproduction is a table with fewer seeds.
    wanted = {name: ROWS[name].seeds if seeds is None else seeds for name in rows}
    runs = [
        run_of(name, data, iterations, seed)
        for seed in range(max(wanted.values()))
        for name in rows
        if seed < wanted[name]
    ]

    def publish_table(results: list[Run]) -> dict[str, Any]:
        done = {(result["row"], result["seed"]): result for result in (*published.values(), *results)}
        by_seed = sorted(done.values(), key=lambda result: result["seed"])
        found = {name: [result for result in by_seed if result["row"] == name] for name in ROWS}
        table = [table_row(ROWS[name], iterations, of_row) for name, of_row in found.items() if of_row]
        written = publish(out, {"data": data, "rows": table, "protocol": PROTOCOL})
        write_text(out.with_suffix(".md"), page(written))
        return written

    results = run_all(train_and_measure, runs, work_folder, n_jobs, known=published, after_each=publish_table)
    return publish_table(results)


def run_of(name: str, data: str, iterations: int, seed: int) -> Run:
    """Return the run of a row with one seed."""
    return {
        "row": name,
        "data": data,
        "iterations": iterations,
        "seed": seed,
        "version": run_version(ROWS[name].estimator()),
    }


def run_version(estimator: SDLGM, sdlgm_version: str = __version__) -> str:
    """Return a version that differs for estimators with other settings.

    With an earlier version of `sdlgm`, return the one that this version gave to the same settings: parameters that were
    added since are left out if they have the values that describe its behaviour.
    """
    added = added_since("SDLGM", sdlgm_version)
    params = {
        key: value
        for key, value in estimator.get_params().items()
        if key not in OF_THE_MACHINE and not (key in added and added[key] == value)
    }
    if params["likelihood"] == "bernoulli":  # results were made when "auto" meant this for grey values
        params["likelihood"] = "auto"
    if params["max_iter"] == "auto":  # each run sets it; results were made when the default was a number
        params["max_iter"] = 10_000
    if params["early_stopping"] == "auto":  # as with any number of iterations
        params["early_stopping"] = False
    for name, value in {"batch_size": 100, "learning_rate": 3e-3}.items():  # "auto", with any number of iterations
        params[name] = value if params[name] == "auto" else params[name]
    return versioned(params, sdlgm_version)


def split(images: Any) -> tuple[Any, Any]:
    """Split training images into those to train on and those for validation."""
    n_train = images.shape[0] - round(images.shape[0] * VALIDATION_FRACTION)
    return images[:n_train], images[n_train:]


def train_and_measure(run: Run, folder: Path) -> dict[str, Any]:
    """Do one run of the table."""
    return train_row(ROWS[run["row"]], run, folder)


def train_row(row: Row, run: Run, folder: Path) -> dict[str, Any]:
    """Fit the estimator of a row, save the model in ``folder``, and measure it on all images."""
    train, validation = split(load_data(f"{run['data']}:train").X)
    test = load_data(f"{run['data']}:test").X
    before_last = run["iterations"] - LAST_ITERATIONS
    model = row.estimator(
        max_iter=run["iterations"],
        random_state=run["seed"],
        checkpoint_dir=folder,
        resume=True,
        checkpoint_every=max(1, before_last // 4),
    )
    _forget_last_iterations(folder, before_last)
    last = LastIterations(train, test, run["iterations"], run["seed"], model.get_params()["kl"])
    whole = not any(folder.iterdir())
    start = time.process_time()
    shown = ShownBound(run, validation)

    def callback(module: SDLGMModule, iteration: int) -> None:
        last(module, iteration)
        shown(module, iteration)

    model.fit(train, callback=callback)
    seconds = time.process_time() - start - last.seconds
    if isinstance(model, DiscreteVAE):
        (folder / "checkpoint.safetensors").unlink(missing_ok=True)
    else:
        model.save(folder / "model.sdlgm")
    return {
        **last.means(),
        "validation": asdict(model.evaluate(validation, random_state=0)),
        "evaluation": asdict(model.evaluate(test, random_state=0)),
        "importance_weighted_100": float(np.mean(model.elbo(test, n_importance=100, random_state=0))),
        "temperatures": [model.history_[-1].gate_temperature, model.history_[-1].feature_temperature],
        # Of an interrupted run only the last part would be timed.
        "seconds_per_iteration": seconds / run["iterations"] if whole else None,
        "code": code_hash(),
    }


def _forget_last_iterations(folder: Path, first: int) -> None:
    """Remove a checkpoint from the last iterations, since these are measured without interruption."""
    checkpoint = folder / "checkpoint.safetensors"
    if checkpoint.exists() and checkpoint_iteration(checkpoint) > first:
        checkpoint.unlink()


class ShownBound:
    """Callback of fit: report the iteration and the discrete bound on some validation images."""

    EVERY, IMAGES = 200, 100

    def __init__(self, run: Run, validation: Any):
        self.run = run
        self.noise = Noise.seeded(0)
        images = torch.from_numpy(np.asarray(dense(validation[: self.IMAGES]), dtype=np.float32))
        self.x = torch.bernoulli(images, generator=self.noise.generator)

    @torch.no_grad()
    def __call__(self, module: SDLGMModule, iteration: int) -> None:
        if iteration % self.EVERY:
            return
        module.eval()
        posterior = module.inference(self.x)
        elbo = module.elbo_of(posterior, self.x, posterior.sample(1, self.noise), "exact")
        active = float(module.config.n_slots * posterior.gate_prob.mean())
        module.train()
        state = f"{-float(elbo.value.mean()):.1f} nats, {active:.0f} active"
        report(self.run, iteration / self.run["iterations"], state)


class LastIterations:
    """Callback of fit: measure both criteria on test and training images in each of the last iterations."""

    BATCH = 100

    def __init__(self, train: Any, test: Any, iterations: int, seed: int, kl: KL):
        self.images = {"test": test, "train": train}
        self.first = iterations - LAST_ITERATIONS
        self.noise = Noise.seeded(seed)
        self.choose = np.random.default_rng(seed)
        self.orders: dict[str, np.ndarray] = {}
        self.values: dict[str, list[float]] = {}
        self.kl: KL = kl
        self.seconds = 0.0

    @torch.no_grad()
    def __call__(self, module: SDLGMModule, iteration: int) -> None:
        if iteration <= self.first:
            return
        start = time.process_time()
        module.eval()
        for name, images in self.images.items():
            x = torch.bernoulli(torch.from_numpy(self._batch(name, images)), generator=self.noise.generator)
            posterior = module.inference(x)
            elbo = module.elbo_of(posterior, x, posterior.sample(1, self.noise), self.kl)
            relaxed_codes = posterior.relaxed_sample(1, module.temperatures, self.noise)
            self._note(f"discrete {name}", elbo.value)
            self._note(f"relaxed {name}", module.elbo_of(posterior, x, relaxed_codes, self.kl).value)
            self._note(f"kl {name}", elbo.kl)
            self._note(f"mean_active {name}", module.config.n_slots * posterior.gate_prob)
        module.train()
        self.seconds += time.process_time() - start

    def _batch(self, name: str, images: Any) -> np.ndarray:
        """Return the next batch of the shuffled images."""
        order = self.orders.get(name, np.array([], dtype=int))
        while len(order) < self.BATCH:
            order = np.concatenate([order, self.choose.permutation(images.shape[0])])
        chosen, self.orders[name] = order[: self.BATCH], order[self.BATCH :]
        return np.asarray(dense(images[np.sort(chosen)]), dtype=np.float32)

    def _note(self, name: str, values: torch.Tensor) -> None:
        self.values.setdefault(name, []).append(float(values.mean()))

    def means(self) -> dict[str, Any]:
        """Return the means over the iterations, as negative bounds in nats."""
        mean = {name: float(np.mean(values)) for name, values in self.values.items()}
        return {
            "discrete": {name: -mean[f"discrete {name}"] for name in ("test", "train")},
            "relaxed": {name: -mean[f"relaxed {name}"] for name in ("test", "train")},
            "kl": mean["kl test"],
            "mean_active": mean["mean_active test"],
        }


def table_row(row: Row, iterations: int, results: list[Run]) -> dict[str, Any]:
    """Return one row of the table from its runs. Lists have one entry for each seed."""
    seconds = [r["seconds_per_iteration"] for r in results if r["seconds_per_iteration"] is not None]
    return {
        "system": row.system,
        "latent": row.latent,
        "title": row.title,
        "paper": row.paper,
        "seeds": [r["seed"] for r in results],
        "iterations": iterations,
        "relaxed": {name: [r["relaxed"][name] for r in results] for name in ("test", "train")},
        "discrete": {name: [r["discrete"][name] for r in results] for name in ("test", "train")},
        "kl": [r["kl"] for r in results],
        "mean_active": [r["mean_active"] for r in results],
        "n_active_max": [r["evaluation"]["n_active_max"] for r in results],
        "features_alive": [r["evaluation"]["features_alive"] for r in results],
        "importance_weighted_100": [-r["importance_weighted_100"] for r in results],
        "validation": [-r["validation"]["discrete"] for r in results],
        "temperatures": [r["temperatures"] for r in results],
        "seconds_per_iteration": float(np.mean(seconds)) if seconds else None,
        "options": dict(row.options),
        "version": results[0].get("version", run_version(row.estimator())),
        "code": [r.get("code") for r in results],
    }


def published_runs(path: Path, data: str, iterations: int) -> dict[str, Run]:
    """Return the runs of a published table, by the name of the run, for `table_row`.

    Rows whose settings have changed since are left out.

    Raises
    ------
    ValueError
        If the file holds a table of other data, iterations or package versions, which would be overwritten. The version
        of `sdlgm` may differ: every row has its own.

    """
    if not path.exists():
        return {}
    table = json.loads(path.read_text(encoding="utf-8"))
    there = (table["data"], {row["iterations"] for row in table["rows"]}, table["versions"] | {"sdlgm": None})
    if there != (data, {iterations}, versions() | {"sdlgm": None}):
        raise ValueError(
            f"{path}: holds a table of other data, another number of iterations or other package versions; "
            "choose another file, or remove this one"
        )
    names = {(row.system, row.latent): name for name, row in ROWS.items()}
    found: dict[str, Run] = {}
    for row in table["rows"]:
        name = names.get((row["system"], row["latent"]))
        if name is None or "version" not in row:
            continue
        if row["version"] != run_version(ROWS[name].estimator(), row["version"].split("-")[0]):
            continue
        for i, seed in enumerate(row["seeds"]):
            run = run_of(name, data, iterations, seed)
            evaluation = {key: row[key][i] for key in ("n_active_max", "features_alive")}
            found[name_of(run)] = (
                run
                | {key: {part: row[key][part][i] for part in ("test", "train")} for key in ("relaxed", "discrete")}
                | {key: row[key][i] for key in ("kl", "mean_active", "temperatures")}
                | {"evaluation": evaluation, "validation": {"discrete": -row["validation"][i]}}
                | {"importance_weighted_100": -row["importance_weighted_100"][i]}
                | {"seconds_per_iteration": row["seconds_per_iteration"]}
                | {"code": row["code"][i] if "code" in row else None, "version": row["version"]}
            )
    return found
