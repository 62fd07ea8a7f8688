"""The data sets that have a name: where they are, how to get them, how to check them."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sdlgm.data.dataset import Dataset, MultiLabelDataset
from sdlgm.data.idx import parse_idx, read_bytes
from sdlgm.data.mulan import parse_labels, parse_mulan
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
    """One entry of the list of data sets."""

    description: str
    load: Callable[[str], Dataset | MultiLabelDataset]
    """From a split to its rows."""
    files: dict[str, str]
    """File names and the SHA-256 of their content; none for data that come with a library."""
    folder: str = ""
    """Where the files are below the data folder."""
    mirrors: tuple[str, ...] = ()
    packed: bool = False
    """Whether the mirrors have the files gzipped."""


def load_named(name: str) -> Dataset | MultiLabelDataset:
    """Load a data set, such as ``digits``, or one split of it: ``digits:train``, ``mnist:test``. A plain name is
    ``:train`` for MNIST and all rows for the others.
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


def find_file(name: str, file: str) -> Path | None:
    """A file of a named data set below ``$SDLGM_DATA`` or the cache folder, gzipped or not, in small or large letters:
    the files of CAL500 are in both around.
    """
    roots = [Path(os.environ["SDLGM_DATA"])] if os.environ.get("SDLGM_DATA") else []
    for root in [*roots, cache_folder()]:
        folder = root / DATASETS[name].folder
        found = {path.name.lower(): path for path in folder.iterdir()} if folder.is_dir() else {}
        for candidate in (f"{file}.gz", file):
            if candidate in found and found[candidate].is_file():
                return found[candidate]
    return None


def fetch(name: str, *, mirrors: Sequence[str] = (), retries: int = DOWNLOAD_RETRIES) -> list[Path]:
    """Make sure that the files of a named data set are here and intact; download what is missing, from mirrors of your
    own if you name any.
    """
    if name not in DATASETS:
        raise DataError(f"{name}: no data set of that name; known are {', '.join(DATASETS)}")
    return [_fetched(name, file, mirrors, retries)[0] for file in DATASETS[name].files]


def _fetched(name: str, file: str, mirrors: Sequence[str] = (), retries: int = DOWNLOAD_RETRIES) -> tuple[Path, bytes]:
    """A file of a named data set and its content."""
    dataset = DATASETS[name]
    path = find_file(name, file) or _download(dataset, file, mirrors or dataset.mirrors, retries)
    return path, _verified(path, dataset.files[file])


def _download(dataset: NamedDataset, file: str, mirrors: Sequence[str], retries: int) -> Path:
    """Try one mirror after the other, each several times; keep a file only if its content is the published one."""
    import pooch
    import requests

    target = cache_folder() / dataset.folder
    published = f"{file}.gz" if dataset.packed else file
    failures = []
    for mirror in mirrors:
        store = pooch.create(target, mirror, registry={published: None}, retry_if_failed=retries)
        try:
            path = Path(store.fetch(published, downloader=_downloader()))
            _verified(path, dataset.files[file])
        except (requests.RequestException, OSError, ValueError) as error:
            (target / published).unlink(missing_ok=True)
            failures.append(f"{mirror}: {error}")
            continue
        return path
    raise DownloadError(
        f"{file}: no mirror could deliver it ({'; '.join(failures)}); put the file into {target} or set SDLGM_DATA to "
        f"a folder that has {dataset.folder}/{published}"
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
        path, content = _fetched("mnist", f"{prefix}-{part}-ubyte")
        arrays[part] = parse_idx(content, str(path))
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


def _load_mulan(name: str, split: str) -> MultiLabelDataset:
    """One split, or all rows, those for training first."""
    full_name = f"{name}:{split}" if split else name
    files = [f"{name}-{part}.arff" for part in ([split] if split else ["train", "test"])]
    if f"{name}.arff" in DATASETS[name].files:
        if split:
            raise DataError(f"{full_name}: there is no official split of {name}; take {name} and split its rows")
        files = [f"{name}.arff"]
    path, content = _fetched(name, f"{name}.xml")
    labels = parse_labels(content, str(path))
    datasets = []
    for file in files:
        path, content = _fetched(name, file)
        datasets.append(parse_mulan(content, labels, name=full_name, where=str(path)))
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
