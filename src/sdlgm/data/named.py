"""Named data sets: find, download, verify and load them."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from sdlgm._optional import optional_import
from sdlgm.data.columns import EXTRA
from sdlgm.data.compressed import read_bytes
from sdlgm.data.dataset import Dataset, MultiLabelDataset
from sdlgm.data.formats.arff import ArffFile, parse_labels
from sdlgm.data.formats.idx import parse_idx, scale_pixels
from sdlgm.data.source import TargetColumns
from sdlgm.data.tables import read_multi_label
from sdlgm.errors import DataError, DownloadError, MissingDependencyError

# SHA-256 of the decompressed bytes, since mirrors compress differently.
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
BIRDS_FILES = {
    "birds-train.arff": "8f215db6ee163149901e753977f631ba8bea0e0e8e1abc42b234414822f8ae36",
    "birds-test.arff": "51ba6326d65ccdd7c755b6461280eb6d2769c7f59d8e12fd4250f91e6ca28326",
    "birds.xml": "0f4ea547b2b3d538c8402662daf689e0d4520cc8b4f5ba113c2e7c01700f010f",
}
EMOTIONS_FILES = {
    "emotions-train.arff": "bbe704106c79bb8fb99c1d1d2e9bde081d6a2daeb01f100862f11fd91a3c1f98",
    "emotions-test.arff": "f13d4b746b7b5c8eb484bd751d6ac463d4560dff998a93516a5c1fe35daf6c8f",
    "emotions.xml": "dbce8e6ccbbb2fcbfd9e9edbb230d7ed12692c6e13f59fdbc0161fa9b6cf2dc0",
}
CAL500_FILES = {
    "cal500.arff": "cfe6097ba5fd6e8584e54911ab9783dcab34e898446b7c9370c71d477eae56d3",
    "cal500.xml": "877e128531268d7661faa3e44f7bb43cbcda829c0895e49879168775b192728c",
}
MULAN_MIRROR = (
    "https://raw.githubusercontent.com/tsoumakas/mulan/43f6389095ad71984264db4387a8074b22bc7d4a/data/multi-label/"
)
DOWNLOAD_RETRIES = 3
TEST_DIGITS = 297  # the last rows of the 1797 digits


@dataclass(frozen=True)
class NamedDataset:
    """A data set that can be loaded by its name."""

    description: str
    load: Callable[[str], Dataset | MultiLabelDataset]
    """Load a split: ``"train"``, ``"test"``, or ``""`` for the default."""
    files: dict[str, str]
    """SHA-256 of the content of each file, by name. Empty for data that come with a library."""
    folder: str = ""
    """Folder of the files below the data folder."""
    mirrors: tuple[str, ...] = ()
    is_gzipped: bool = False
    """Whether the mirrors have the files gzipped."""


def load_named(name: str) -> Dataset | MultiLabelDataset:
    """Load a named data set.

    Parameters
    ----------
    name : str
        A name such as ``digits``, or a split such as ``mnist:test``. A plain name is ``:train`` for MNIST and all rows
        for the others.

    Returns
    -------
    Dataset or MultiLabelDataset

    """
    base, split = check_name(name)
    return DATASETS[base].load(split)


def check_name(name: str) -> tuple[str, str]:
    """Return the name of a data set and its split, ``""`` for the default, or raise if there is no such data set."""
    base, _, split = name.partition(":")
    if base not in DATASETS:
        raise DataError(f"{name}: no file and no data set of that name; named data sets are {', '.join(DATASETS)}")
    if split not in ("", "train", "test"):
        raise DataError(f"{name}: the splits are {base}:train and {base}:test")
    return base, split


def cache_folder() -> Path:
    """Return the folder of downloaded files."""
    return Path(optional_import("pooch", EXTRA).os_cache("sdlgm"))


def find_file(name: str, file: str) -> Path | None:
    """Find a file of a named data set below ``$SDLGM_DATA`` or the cache folder.

    Parameters
    ----------
    name : str
        Name of the data set.
    file : str
        Name of the file in lower case, without ``.gz``. Files are found gzipped or not, in lower or upper case: those
        of CAL500 are published in both.

    Returns
    -------
    Path or None

    """
    for root in _data_folders():
        folder = root / DATASETS[name].folder
        found = {path.name.lower(): path for path in folder.iterdir()} if folder.is_dir() else {}
        for candidate in (f"{file}.gz", file):
            if candidate in found and found[candidate].is_file():
                return found[candidate]
    return None


def _data_folders() -> Iterator[Path]:
    if os.environ.get("SDLGM_DATA"):
        yield Path(os.environ["SDLGM_DATA"])
    try:
        yield cache_folder()
    except MissingDependencyError:  # nothing can have been downloaded without it
        return


def fetch(name: str, *, mirrors: Sequence[str] = (), retries: int = DOWNLOAD_RETRIES) -> list[Path]:
    """Download the files of a named data set that are missing, and verify all of them.

    Parameters
    ----------
    name : str
        Name of the data set.
    mirrors : sequence of str, default=()
        Addresses to download from; those of the data set if empty.
    retries : int, default=3
        Attempts for each file and mirror.

    Returns
    -------
    list of Path
        The files.

    """
    if name not in DATASETS:
        raise DataError(f"{name}: no data set of that name; known are {', '.join(DATASETS)}")
    return [_fetch_file(name, file, mirrors, retries)[0] for file in DATASETS[name].files]


def _fetch_file(
    name: str, file: str, mirrors: Sequence[str] = (), retries: int = DOWNLOAD_RETRIES
) -> tuple[Path, bytes]:
    """Return a file of a named data set and its verified content."""
    dataset = DATASETS[name]
    path = find_file(name, file) or _download(dataset, file, mirrors or dataset.mirrors, retries)
    return path, _read_verified(path, dataset.files[file])


def _download(dataset: NamedDataset, file: str, mirrors: Sequence[str], retries: int) -> Path:
    """Try the mirrors in order, each several times. Keep a file only if its content is the published one."""
    pooch, requests = optional_import("pooch", EXTRA), optional_import("requests", EXTRA)
    target = cache_folder() / dataset.folder
    published = f"{file}.gz" if dataset.is_gzipped else file
    failures: list[str] = []
    for mirror in mirrors:
        store = pooch.create(target, mirror, registry={published: None}, retry_if_failed=retries)
        try:
            path = Path(store.fetch(published, downloader=pooch.HTTPDownloader(timeout=30)))
            _read_verified(path, dataset.files[file])
        except (requests.RequestException, OSError, ValueError) as error:
            (target / published).unlink(missing_ok=True)
            failures.append(f"{mirror}: {error}")
            continue
        return path
    raise DownloadError(
        f"{file}: no mirror could deliver it ({'; '.join(failures)}); put the file into {target} or set SDLGM_DATA to "
        f"a folder that has {dataset.folder}/{published}"
    )


def _read_verified(path: Path, checksum: str) -> bytes:
    content = read_bytes(path)
    if hashlib.sha256(content).hexdigest() != checksum:
        raise DataError(f"{path}: is not the published file (its SHA-256 differs); delete it and fetch it again")
    return content


def _load_mnist(split: str) -> Dataset:
    prefix = "t10k" if split == "test" else "train"
    arrays = {}
    for part in ("images-idx3", "labels-idx1"):
        path, content = _fetch_file("mnist", f"{prefix}-{part}-ubyte")
        arrays[part] = parse_idx(content, str(path))
    X, labels = scale_pixels(arrays["images-idx3"]), arrays["labels-idx1"]
    return Dataset(f"mnist:{split or 'train'}", X, labels=labels, image_shape=(28, 28))


def _load_digits(split: str) -> Dataset:
    from sklearn.datasets import load_digits

    X, labels = map(np.asarray, load_digits(return_X_y=True))
    rows = {"": slice(None), "train": slice(None, -TEST_DIGITS), "test": slice(-TEST_DIGITS, None)}[split]
    name = f"digits:{split}" if split else "digits"
    return Dataset(name, (X[rows] / 16).astype(np.float32), labels=labels[rows], image_shape=(8, 8))


def _load_mulan(name: str, split: str) -> MultiLabelDataset:
    """Load a split, or all rows, those for training first."""
    full_name = f"{name}:{split}" if split else name
    files = [f"{name}-{part}.arff" for part in ([split] if split else ["train", "test"])]
    if f"{name}.arff" in DATASETS[name].files:
        if split:
            raise DataError(f"{full_name}: there is no official split of {name}; take {name} and split its rows")
        files = [f"{name}.arff"]
    path, content = _fetch_file(name, f"{name}.xml")
    labels = TargetColumns(parse_labels(content, str(path)))
    datasets = []
    for file in files:
        path, content = _fetch_file(name, file)
        datasets.append(read_multi_label(ArffFile(content, where=str(path), name=full_name, labels=labels)))
    X, Y = (np.concatenate(arrays) for arrays in zip(*((part.X, part.Y) for part in datasets), strict=True))
    return replace(datasets[0], X=X, Y=Y)


def _mulan(name: str, description: str, files: dict[str, str]) -> NamedDataset:
    return NamedDataset(description, partial(_load_mulan, name), files, "mulan", (f"{MULAN_MIRROR}{name}/",))


DATASETS = {
    "digits": NamedDataset("1,797 handwritten digits of 8 x 8 grey pixels; comes with scikit-learn", _load_digits, {}),
    "mnist": NamedDataset(
        "70,000 handwritten digits of 28 x 28 grey pixels", _load_mnist, MNIST_FILES, "mnist", MNIST_MIRRORS, True
    ),
    "birds": _mulan("birds", "645 sounds of forests, 19 labels: which birds sing", BIRDS_FILES),
    "emotions": _mulan("emotions", "593 pieces of music, 6 labels: which emotions", EMOTIONS_FILES),
    "cal500": _mulan("cal500", "502 songs, 174 labels: how listeners describe them", CAL500_FILES),
}
