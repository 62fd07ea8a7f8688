"""The commands data list and data fetch."""

from typing import Annotated

import typer
from rich.table import Table

from sdlgm.cli._errors import handle_errors
from sdlgm.cli._output import out, print_line

app = typer.Typer(no_args_is_help=True, help="List and download named data sets.")


@app.command("list")
@handle_errors
def list_datasets() -> None:
    """List the named data sets and where they are stored."""
    from sdlgm.data import DATASETS, find_file

    table = Table("name", "description", "location")
    for name, dataset in DATASETS.items():
        places = [find_file(name, file) for file in dataset.files]
        if not places:
            location = "embedded"
        elif None in places:
            location = f"run 'sdlgm data fetch {name}'"
        else:
            location = str(places[0])
        table.add_row(name, dataset.description, location)
    out.print(table)


@app.command("fetch")
@handle_errors
def fetch_dataset(name: Annotated[str, typer.Argument(help="A name such as mnist.", show_default=False)]) -> None:
    """Download a named data set and verify its checksum.

    $ sdlgm data fetch mnist
    """
    from sdlgm.data import fetch

    paths = fetch(name)
    for path in paths:
        print_line(str(path))
    if not paths:
        print_line(f"{name} is embedded; there is nothing to download")
