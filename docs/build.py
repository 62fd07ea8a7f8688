"""Make the generated pages and pictures from docs/results/*.json, and check every link.

python docs/build.py            write what has changed
python docs/build.py --check    write nothing, fail if anything would change or a link leads nowhere
python docs/build.py --model M  also draw the picture of the README with a model of MNIST
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import speed
from markdown_table import heading, line
from matplotlib.figure import Figure

from sdlgm import SDLGM, load
from sdlgm.data import load_data
from sdlgm.paper.gradients import SETTINGS
from sdlgm.report import figures

DOCS = Path(__file__).parent
ROOT = DOCS.parent
NAMES = {
    "paper": "the paper's setting",
    "gumbel_softmax": "Gumbel-Softmax, annealed to 0.5",
    "straight_through_gumbel": "straight-through Gumbel-Softmax",
    "straight_through": "straight-through on the mean",
    "reinmax": "ReinMax for slots (**default**)",
    "reinmax_gate_on_x": "ReinMax, the paper's gate network",
}


def by_setting(result: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Rows of each setting, in the order of the settings."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in result["rows"]:
        groups.setdefault(row["setting"], []).append(row)
    return groups


def mean_and_deviation(values: list[float], digits: int = 1) -> str:
    text = f"{np.mean(values):.{digits}f}"
    return f"{text} ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else text


def of(rows: list[dict[str, Any]], part: str, key: str, sign: float = 1.0) -> list[float]:
    return [sign * row[part][key] for row in rows]


def comparison_table(result: dict[str, Any]) -> list[str]:
    lines = heading(
        "gradient", "discrete", "tighter bound", "relaxed (no bound)", "KL", "active", "alive", "ms/iteration"
    )
    for setting, rows in by_setting(result).items():
        cells = [
            NAMES[setting],
            mean_and_deviation(of(rows, "test", "discrete", -1)),
            mean_and_deviation([-row["importance_weighted_100"] for row in rows]),
            mean_and_deviation(of(rows, "test", "relaxed", -1)),
            mean_and_deviation(of(rows, "test", "kl")),
            mean_and_deviation(of(rows, "test", "n_active_expected")),
            mean_and_deviation(of(rows, "test", "features_alive"), 0),
            mean_and_deviation([1000 * s for row in rows if (s := row["seconds_per_iteration"]) is not None], 0),
        ]
        lines.append(line(*cells))
    return lines


def gradients_page(result: dict[str, Any]) -> str:
    groups = by_setting(result)
    validation = {setting: float(np.mean(of(rows, "validation", "discrete"))) for setting, rows in groups.items()}
    best = max(validation, key=lambda setting: validation[setting])
    if SETTINGS[best]["gradient"] != SDLGM().gradient:
        raise SystemExit(
            f"{best} is best on validation data, but the default is {SDLGM().gradient}: change one of them"
        )
    seeds = sorted({row["seed"] for row in result["rows"]})
    iterations = sorted({row["max_iter"] for row in result["rows"]})
    selection = heading("gradient", "discrete, validation", "active in the codes of transform", "final temperatures")
    for setting, rows in groups.items():
        cells = [
            NAMES[setting],
            mean_and_deviation(of(rows, "validation", "discrete", -1)),
            mean_and_deviation(of(rows, "validation", "n_active_mean")),
            " and ".join(f"{np.mean([row['temperatures'][i] for row in rows]):.2f}" for i in range(2)),
        ]
        selection.append(line(*cells))
    return "\n".join(
        [
            "# Which gradient?",
            "",
            "*This page is made by `docs/build.py` from [gradients.json](gradients.json).*",
            "",
            "Negative ELBO in nats on the 10,000 MNIST test images (lower is better), mean ± standard deviation over "
            f"seeds {', '.join(map(str, seeds))}, {', '.join(f'{n:,}' for n in iterations)} iterations. *KL*: nats "
            "that a code costs. *Active*: mean of L_i, the active slots of a drawn code, out of 40. *Alive*: features "
            "out of 200 that a drawn code contains with probability 1/1000 or more. *Tighter bound*: the discrete "
            "bound with 100 importance samples.",
            "",
            *comparison_table(result),
            "",
            "![Relaxed criterion and discrete bound of each setting](../images/gradients.png)",
            "",
            "The same models are scored in both columns. The **discrete** column decodes hard codes, drawn as "
            "`sample_codes` draws them; it bounds log p(x). The **relaxed** column is the paper's criterion: "
            "it decodes relaxed samples, which a user never gets. In the paper's setting the learned temperatures "
            "grow, the sum of forty relaxed draws becomes almost deterministic, and the decoder reads information off "
            "it that the hard code does not carry.",
            "",
            "The tighter bound says how good the generative model is when one may search among a hundred codes for "
            "each image; the discrete bound, how good the one code is that the encoder draws. Annealed Gumbel-Softmax "
            "learns a good decoder and an encoder that cannot point to the right code; since a user gets one code, the "
            "discrete bound decides.",
            "",
            "## Selection",
            "",
            f"The default is the gradient with the best discrete bound on validation data: `{best}`.",
            "",
            *selection,
            "",
            "## Protocol",
            "",
            *[f"- **{name}**: {text}." for name, text in result["protocol"].items()],
            f"- **command**: `{result['command']}`",
            f"- **machine**: {result['cores']} cores; "
            + ", ".join(f"{name} {version}" for name, version in result["versions"].items()),
            "",
        ]
    )


def gradients_picture(result: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    axis = figure.subplots()
    groups = by_setting(result)
    for place, rows in enumerate(groups.values()):
        relaxed, discrete = of(rows, "test", "relaxed", -1), of(rows, "test", "discrete", -1)
        axis.plot([np.mean(relaxed), np.mean(discrete)], [place, place], color="#c9ced6", lw=2, zorder=1)
        for criterion, values, colour in (("relaxed", relaxed, figures.GREY), ("discrete", discrete, figures.BLUE)):
            label = criterion if place == 0 else None
            axis.scatter(values, [place] * len(rows), color=colour, zorder=2, label=label)
    axis.set_yticks(range(len(groups)), [NAMES[setting].replace("**", "") for setting in groups])
    axis.invert_yaxis()
    axis.set_xscale("log")
    ticks = [100, 125, 150, 200, 400, 800, 1200]
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("negative ELBO on MNIST test (nats, logarithmic); one point a seed")
    axis.legend(frameon=False)
    return figure


def filled(page: str, sections: dict[str, list[str]]) -> str:
    """A page with the lines between the two markers of each section made anew."""
    for name, lines in sections.items():
        start, end = f"<!-- {name}: made by docs/build.py -->", f"<!-- end of {name} -->"
        before, rest = page.split(start)
        _, after = rest.split(end)
        page = "\n".join([before + start, "", *lines, "", end + after])
    return page


def broken_links() -> list[str]:
    return [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--model", type=Path)
    arguments = parser.parse_args()
    result, measured = (
        json.loads((DOCS / "results" / name).read_text(encoding="utf-8")) for name in ("gradients.json", "speed.json")
    )
    readme, performance = ROOT / "README.md", DOCS / "performance.md"
    pages = {
        DOCS / "results" / "gradients.md": gradients_page(result),
        readme: filled(
            readme.read_text(encoding="utf-8"),
            {"results": comparison_table(result), "speed": speed.ratios_table(measured)},
        ),
        performance: filled(performance.read_text(encoding="utf-8"), speed.sections(measured)),
    }
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if not arguments.check:
        for path in stale:
            path.write_text(pages[path], encoding="utf-8")
        (DOCS / "images").mkdir(exist_ok=True)
        gradients_picture(result).savefig(DOCS / "images" / "gradients.png", dpi=110)
        speed.picture(measured).savefig(DOCS / "images" / "speed.png", dpi=110)
        if arguments.model:
            readme_picture(arguments.model).savefig(DOCS / "images" / "codes.png", dpi=130)
        stale = []
    problems = [f"stale: {path.relative_to(ROOT)}" for path in stale] + [
        f"broken link: {link}" for link in broken_links()
    ]
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


def readme_picture(model_path: Path) -> Figure:
    model, data = load(model_path), load_data("mnist:test")
    return figures.reading_a_code(model, data, model.transform(data.X))


if __name__ == "__main__":
    raise SystemExit(main())
