"""Work for `sdlgm.paper.runs.run_all`, in a module that its processes can import."""

from pathlib import Path

from sdlgm.paper.runs import report


def square(run: dict, folder: Path) -> dict:
    (folder / "left").write_text("something")
    report(run, 0.5, "half way")
    return {"square": run["number"] ** 2}
