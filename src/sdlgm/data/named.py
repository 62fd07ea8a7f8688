"""The data sets that have a name: where they are, how to get them, how to check them."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sdlgm.data.dataset import Dataset
from sdlgm.data.idx import parse_idx, read_bytes
from sdlgm.errors import DataError, DownloadError

# SHA-256 of the decompressed bytes: mirrors compress differently, the content is one.
MNIST_FILES = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
DOWNLOAD_RETRIES = 3
TEST_DIGITS = 297  # the last rows of the 1797 digits


@dataclass(frozen=True)
class NamedDataset:
    """One entry of the list of data sets."""

    description: str
    load: Callable[[str], Dataset]
    """From a split to its rows."""
    files: dict[str, str]
    """File names below the data folder and the SHA-256 of their content; none for data that come with a library."""


def load_named(name: str) -> Dataset:
    """Load ``digits``, ``mnist``, or one split of them: ``digits:train``, ``mnist:test``. A plain name is ``:train``
    for MNIST and all rows for the digits.
    """
    base, _, split = name.partition(":")
    if base not in DATASETS:
        raise DataError(f"{name}: no file and no data set of that name; named data sets are {', '.join(DATASETS)}")
    if split not in ("", "train", "test"):
        raise DataError(f"{name}: the splits are {base}:train and {base}:test")
    return DATASETS[base].load(split)


def cache_folder() -> Path:
    import pooch

    return Path(pooch.os_cache("sdlgm"))


def find_file(folder: str, file: str) -> Path | None:
    """A file of a named data set below ``$SDLGM_DATA`` or the cache folder, gzipped or not."""
    roots = [Path(os.environ["SDLGM_DATA"])] if os.environ.get("SDLGM_DATA") else []
    for root in [*roots, cache_folder()]:
        for candidate in (root / folder / f"{file}.gz", root / folder / file):
            if candidate.is_file():
                return candidate
    return None


def fetch(name: str, *, mirrors: Sequence[str] = MNIST_MIRRORS, retries: int = DOWNLOAD_RETRIES) -> list[Path]:
    """Make sure that the files of a named data set are here and intact; download what is missing."""
    if name not in DATASETS:
        raise DataError(f"{name}: no data set of that name; known are {', '.join(DATASETS)}")
    paths = []
    for file, checksum in DATASETS[name].files.items():
        path = find_file(name, file) or _download(name, file, mirrors, retries)
        _verified(path, checksum)
        paths.append(path)
    return paths


def _download(folder: str, file: str, mirrors: Sequence[str], retries: int) -> Path:
    """Try one mirror after the other, each several times; keep a file only if its content is the published one."""
    import pooch
    import requests

    target = cache_folder() / folder
    failures = []
    for mirror in mirrors:
        store = pooch.create(target, mirror, registry={f"{file}.gz": None}, retry_if_failed=retries)
        try:
            path = Path(store.fetch(f"{file}.gz", downloader=_downloader()))
            _verified(path, DATASETS[folder].files[file])
        except (requests.RequestException, OSError, ValueError) as error:
            (target / f"{file}.gz").unlink(missing_ok=True)
            failures.append(f"{mirror}: {error}")
            continue
        return path
    raise DownloadError(
        f"{file}: no mirror could deliver it ({'; '.join(failures)}); put the file into {target} or set SDLGM_DATA to "
        f"a folder that has {folder}/{file}.gz"
    )


def _downloader() -> Any:
    import pooch

    return pooch.HTTPDownloader(timeout=30)


def _verified(path: Path, checksum: str) -> bytes:
    content = read_bytes(path)
    if hashlib.sha256(content).hexdigest() != checksum:
        raise DataError(f"{path}: is not the published file (its SHA-256 differs); delete it and fetch it again")
    return content


def _load_mnist(split: str) -> Dataset:
    prefix = "t10k" if split == "test" else "train"
    arrays = {}
    for part in ("images-idx3", "labels-idx1"):
        file = f"{prefix}-{part}-ubyte"
        path = find_file("mnist", file) or _download("mnist", file, MNIST_MIRRORS, DOWNLOAD_RETRIES)
        arrays[part] = parse_idx(_verified(path, DATASETS["mnist"].files[file]), str(path))
    images = arrays["images-idx3"]
    X = images.reshape(len(images), -1).astype(np.float32) / 255
    return Dataset(f"mnist:{split or 'train'}", X, labels=arrays["labels-idx1"], image_shape=(28, 28))


def _load_digits(split: str) -> Dataset:
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    X, labels = bunch.data, bunch.target
    rows = {"": slice(None), "train": slice(None, -TEST_DIGITS), "test": slice(-TEST_DIGITS, None)}[split]
    name = f"digits:{split}" if split else "digits"
    return Dataset(name, (X[rows] / 16).astype(np.float32), labels=labels[rows], image_shape=(8, 8))


DATASETS = {
    "digits": NamedDataset("1,797 handwritten digits of 8 x 8 grey pixels; comes with scikit-learn", _load_digits, {}),
    "mnist": NamedDataset("70,000 handwritten digits of 28 x 28 grey pixels", _load_mnist, MNIST_FILES),
}
