"""Work for `sdlgm.paper.runs.run_all`, in a module that its processes can import."""

from pathlib import Path


def square(run: dict, folder: Path) -> dict:
    (folder / "left").write_text("something")
    return {"square": run["number"] ** 2}
