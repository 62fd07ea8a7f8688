"""Make the generated pages and pictures from docs/results/*.json, and check every link.

python docs/build.py            write what has changed
python docs/build.py --check    write nothing, fail if a page would change or a link leads nowhere
python docs/build.py --model M  also draw the picture of the README with a model of MNIST
"""

import argparse
import json
import re
import sys
from pathlib import Path

import budgets
import counts
import scaling
import speed
import table2
from matplotlib.figure import Figure

import gradients
from sdlgm import load
from sdlgm.data import load_data
from sdlgm.paper import table1_page as table1
from sdlgm.paper.figures import page as figures_page
from sdlgm.report import figures

DOCS = Path(__file__).parent
ROOT = DOCS.parent


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
    names = ("table1", "table2", "counts", "long", "budgets", "gradients", "speed", "scaling", "figures/figures")
    table, labels, counted, long, limited, bias, measured, scaled, drawn = (
        json.loads((DOCS / "results" / f"{name}.json").read_text(encoding="utf-8")) for name in names
    )
    readme = ROOT / "README.md"
    performance, honesty, larger = (DOCS / f"{name}.md" for name in ("performance", "honesty", "scaling"))
    pages = {
        DOCS / "results" / "table1.md": table1.page(table),
        DOCS / "results" / "long.md": table1.long_page(long),
        DOCS / "results" / "table2.md": table2.page(labels),
        DOCS / "results" / "counts.md": counts.page(counted),
        DOCS / "results" / "budgets.md": budgets.page(limited),
        DOCS / "results" / "gradients.md": gradients.page(bias),
        DOCS / "results" / "figures" / "figures.md": figures_page(drawn),
        readme: filled(
            readme.read_text(encoding="utf-8"),
            {
                "results": [
                    *table1.summary(table["rows"]),
                    "",
                    *table1.standing(table["rows"]),
                    *table1.long_lines(long),
                ],
                "labels": table2.summary(labels),
                "counts": counts.summary(counted),
                "speed": speed.ratios_table(measured),
            },
        ),
        performance: filled(performance.read_text(encoding="utf-8"), speed.sections(measured)),
        larger: filled(larger.read_text(encoding="utf-8"), scaling.sections(scaled)),
        honesty: filled(
            honesty.read_text(encoding="utf-8"), {"paper's criterion": table1.paper_criterion(table["rows"])}
        ),
    }
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if not arguments.check:
        for path in stale:
            path.write_text(pages[path], encoding="utf-8")
        (DOCS / "images").mkdir(exist_ok=True)
        table1.honesty_picture(table["rows"]).savefig(DOCS / "images" / "honesty.png", dpi=110)
        table2.numbers_picture(labels).savefig(DOCS / "images" / "labels.png", dpi=110)
        table1.long_picture(long).savefig(DOCS / "images" / "long.png", dpi=110)
        budgets.picture(limited).savefig(DOCS / "images" / "budgets.png", dpi=110)
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
