"""Build the generated pages and pictures of the documentation from the results in docs/results.

There is one module for each page. A page is generated as a whole, or has generated blocks between markers.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from reproduction.pages import (
    attention,
    attention_results,
    attention_speed,
    budgets,
    codec,
    counts,
    features,
    figures,
    glance,
    gradients,
    honesty,
    imputation,
    long,
    performance,
    priors,
    quality,
    readme,
    robustness,
    scaling,
    startup,
    table1,
    table2,
    tags,
    telemetry,
)
from reproduction.pages.markdown import fill
from sdlgm._files import write_text

ROOT = Path(__file__).parents[2]
RESULTS = (
    "table1",
    "table2",
    "counts",
    "long",
    "long_one_layer",
    "budgets",
    "priors",
    "features",
    "imputation",
    "gradients",
    "speed",
    "scaling",
    "startup",
    "robustness",
    "figures/figures",
)

QUALITY = "quality"
"""Results of a long measurement; without them, there is no page of it."""

Results = dict[str, dict[str, Any]]

WHOLE: dict[str, Callable[[Results], str]] = {
    "docs/results/table1.md": lambda results: table1.page(results["table1"]),
    "docs/results/table2.md": lambda results: table2.page(results["table2"]),
    "docs/results/counts.md": lambda results: counts.page(results["counts"]),
    "docs/results/long.md": lambda results: long.page(results["long"], results["long_one_layer"]),
    "docs/results/budgets.md": lambda results: budgets.page(results["budgets"]),
    "docs/results/priors.md": lambda results: priors.page(results["priors"]),
    "docs/results/features.md": lambda results: features.page(results["features"]),
    "docs/results/imputation.md": lambda results: imputation.page(results["imputation"]),
    "docs/results/gradients.md": lambda results: gradients.page(results["gradients"]),
    "docs/results/robustness.md": lambda results: robustness.page(results["robustness"]),
    "docs/results/figures/figures.md": lambda results: figures.page(results["figures/figures"]),
}
"""Pages that are generated as a whole."""
LATER: dict[str, Callable[[dict[str, Any]], str]] = {
    "attention": attention_results.page,
    QUALITY: quality.page,
    "attention_speed": attention_speed.page,
    "codec": codec.page,
    "lossless": codec.lossless_page,
    "tags": tags.page,
    "telemetry": telemetry.page,
}
"""Pages of results that need not be there, by the name of the result."""
LATER_PICTURES: dict[str, Callable[[dict[str, Any]], dict[str, Figure]]] = {
    QUALITY: quality.pictures,
    "telemetry": telemetry.pictures,
}
"""Their pictures, by the name of the file."""
WITH_BLOCKS: dict[str, Callable[[Results], dict[str, list[str]]]] = {
    "README.md": readme.blocks,
    "docs/results/README.md": glance.blocks,
    "docs/honesty.md": lambda results: honesty.blocks(results["table1"]),
    "docs/performance.md": lambda results: performance.blocks(results["speed"]),
    "docs/scaling.md": lambda results: scaling.blocks(results["scaling"]),
    "docs/time.md": lambda results: startup.blocks(results["startup"]),
}
"""Pages that have generated blocks."""
PICTURES: dict[str, Callable[[Results], Figure]] = {
    "docs/images/attention.png": lambda _: attention.picture(),
    "docs/images/honesty.png": lambda results: honesty.picture(results["table1"]),
    "docs/images/labels.png": lambda results: table2.picture(results["table2"]),
    "docs/images/long.png": lambda results: long.picture(results["long"]),
    "docs/images/budgets.png": lambda results: budgets.picture(results["budgets"]),
    "docs/images/speed.png": lambda results: performance.picture(results["speed"]),
}


def build(root: Path = ROOT) -> None:
    """Write all generated pages and pictures.

    Parameters
    ----------
    root : Path
        The root of the repository.

    """
    results = _load_results(root)
    for name, text in _texts(root, results).items():
        if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != text:
            write_text(root / name, text)
    (root / "docs" / "images").mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        draw(results).savefig(root / name, dpi=110)
    for result, pictures in LATER_PICTURES.items():
        if result in results:
            for name, figure in pictures(results[result]).items():
                figure.savefig(root / "docs" / "images" / name, dpi=110)


def find_problems(root: Path = ROOT) -> list[str]:
    """Return the pages that are not up to date and the links that are broken, one problem in each line."""
    texts = _texts(root, _load_results(root))
    outdated = [
        name
        for name, text in texts.items()
        if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != text
    ]
    return [
        *(f"not up to date: {name}; run 'make docs'" for name in outdated),
        *(f"broken link: {link}" for link in _broken_links(root)),
    ]


def _load_results(root: Path) -> Results:
    folder = root / "docs" / "results"
    names = [*RESULTS, *(name for name in LATER if (folder / f"{name}.json").exists())]
    return {name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in names}


def _texts(root: Path, results: Results) -> dict[str, str]:
    """Return the text of every page that is generated or has generated blocks."""
    texts = {name: page(results) for name, page in WHOLE.items()}
    texts |= {f"docs/results/{name}.md": page(results[name]) for name, page in LATER.items() if name in results}
    for name, blocks in WITH_BLOCKS.items():
        try:
            texts[name] = fill((root / name).read_text(encoding="utf-8"), blocks(results))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return texts


def _broken_links(root: Path) -> list[str]:
    return [
        f"{page.relative_to(root)}: {target}"
        for page in [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
