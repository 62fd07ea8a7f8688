"""A folder of ``.sdl`` files, one for each part of the data."""

from collections.abc import Callable
from pathlib import Path

from sdlgm._files import write_atomic
from sdlgm.data.part_folder import FolderKind, PartFolder, part_paths
from sdlgm.data.rows import RowFiles

COMPRESSED = FolderKind("sdlgm-compressed", "_compressed.json", ".sdl", "compressed rows", "sdlgm compress")


class CompressedParts(PartFolder):
    """Compressed parts of some rows, in a folder. See `PartFolder`."""

    kind = COMPRESSED

    def encode_part(self, number: int, work: Callable[[RowFiles, Path], object]) -> None:
        """Write a part.

        Parameters
        ----------
        number : int
            Index of the part.
        work : callable
            Write some rows to a file.

        """
        write_atomic(self.path(number), lambda temporary: work(self.part_rows(number), temporary))


def compressed_files(folder: Path) -> list[Path]:
    """Return the files of all parts of a folder, in the order of the data.

    Parameters
    ----------
    folder : Path
        A folder that `CompressedParts` wrote.

    Returns
    -------
    paths : list of Path

    """
    return part_paths(folder, COMPRESSED)[1]
