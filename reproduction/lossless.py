"""Binary pictures without loss: the SDLGM beside general compressors and picture formats."""

import gzip
import importlib.util
import io
import lzma
import math
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from reproduction import long
from reproduction.codec import trained
from reproduction.provenance import publish
from sdlgm import SDLGM
from sdlgm.data import load_data
from sdlgm.report.figures import dense

DRAWS = 10
PUBLISHED = {
    "BB-ANS, published (Townsend, Bird and Barber, 2019)": 0.19,
    "BB-ANS, another implementation, published": 0.17,
}
"""Bits per pixel on MNIST, drawn as here; quoted, not measured."""
PROTOCOL = {
    "rows": "the test rows, one Bernoulli draw of the grey levels with seed 0; the same draw for all",
    "SDLGM": "the defaults of SDLGM with the Bernoulli likelihood, trained by the command on the training rows, drawn "
    "anew in every iteration",
    "SDLGM, long run": "the model of `python -m reproduction long`, trained on all training rows but the last twelfth",
    "bound": f"negative discrete ELBO of these rows, the mean of {DRAWS} draws of the codes",
    "others": "of the rows packed to eight pixels in a byte; gzip, xz and zstd at their highest level; pictures one by "
    "one, and as one strip, of one bit a pixel; JBIG is JBIG1 of jbigkit",
    "published": "quoted from papers, not measured; of MNIST only",
}


def reproduce_lossless(
    out: Path, *, data: str, iterations: int, long_iterations: int, work_folder: Path, **settings: Any
) -> dict[str, Any]:
    """Train models, compress the test rows with them and with everything else, and publish the sizes.

    Parameters
    ----------
    out : Path
    data : str
    iterations : int
        Of the default model.
    long_iterations : int
        Of the long run; 0 leaves it out.
    work_folder : Path
        For models and checkpoints.
    **settings
        Further settings of the default model.

    """
    known, grey = (dense(load_data(f"{data}:{split}").X) for split in ("train", "test"))
    rows = (np.random.default_rng(0).random(grey.shape) < grey).astype(np.uint8)
    model = trained(f"lossless-{data}", known, work_folder, iterations, likelihood="bernoulli", **settings)
    found = [own_size("SDLGM", model, rows)]
    if long_iterations:
        run = long.trained(data=data, one_layer=False, iterations=long_iterations, seed=0, work_folder=work_folder)
        found.append(own_size("SDLGM, long run", run.model, rows))
    others = {name: 8 * size / rows.size for name, size in other_sizes(rows).items()}
    if data == "mnist":
        others |= PUBLISHED
    found += [
        {"system": name, "bits_per_pixel": bits, "bytes": None if name in PUBLISHED else round(bits * rows.size / 8)}
        for name, bits in others.items()
    ]
    return publish(
        out,
        {
            "data": data,
            "n_rows": len(rows),
            "n_pixels": rows.shape[1],
            "seeds": [0],
            "rows": found,
            "bound_bits_per_pixel": found[0]["bound_bits_per_pixel"],
            "protocol": PROTOCOL,
        },
    )


def own_size(system: str, model: SDLGM, rows: np.ndarray) -> dict[str, Any]:
    """Compress rows with a model, read them back, and return the size beside the bound."""
    file = io.BytesIO()
    start = time.perf_counter()
    _, n_first_bits = model.write_lossless(file, [rows])
    written = time.perf_counter()
    if not np.array_equal(model.decompress(file.getvalue()), rows):
        raise AssertionError("the rows were not read back")
    read = time.perf_counter()
    bound = -np.mean([model.elbo(rows, random_state=seed).mean() for seed in range(DRAWS)]) / math.log(2)
    with tempfile.TemporaryDirectory() as folder:
        model.save(path := Path(folder) / "model.sdlgm")
        n_model_bytes = path.stat().st_size
    n_bytes = len(file.getvalue())
    return {
        "system": system,
        "bits_per_pixel": 8 * n_bytes / rows.size,
        "bytes": n_bytes,
        "bound_bits_per_pixel": bound / rows.shape[1],
        "first_bits": n_first_bits,
        "model_bytes": n_model_bytes,
        "iterations": model.n_iter_,
        "written_per_second": len(rows) / (written - start),
        "read_per_second": len(rows) / (read - written),
    }


def other_sizes(rows: np.ndarray) -> dict[str, int]:
    """Return the bytes that other compressors take for square binary pictures; only those that are installed."""
    packed = np.packbits(rows, axis=1).tobytes()
    sizes = {
        "gzip -9": len(gzip.compress(packed, 9)),
        "xz -9": len(lzma.compress(packed, preset=9 | lzma.PRESET_EXTREME)),
    }
    if importlib.util.find_spec("zstandard"):
        zstandard = importlib.import_module("zstandard")
        sizes["zstd -19"] = len(zstandard.ZstdCompressor(level=19).compress(packed))
    side = math.isqrt(rows.shape[1])
    if importlib.util.find_spec("PIL"):
        pictures = rows.reshape(-1, side, side)
        per_strip = 16_000 // side  # WebP allows no side of more than 16,383 pixels
        strips = [pictures[i : i + per_strip].reshape(-1, side) for i in range(0, len(pictures), per_strip)]
        sizes["PNG, each picture"] = sum(_picture_size(picture, "PNG") for picture in pictures)
        sizes["PNG, one strip"] = _picture_size(pictures.reshape(-1, side), "PNG")
        sizes["WebP lossless, strips"] = sum(_picture_size(strip, "WEBP") for strip in strips)
        if program := shutil.which("pbmtojbg"):
            strip = _picture(pictures.reshape(-1, side), "PPM")  # portable bitmaps are one of its kinds
            sizes["JBIG, one strip"] = len(
                subprocess.run([program], input=strip, capture_output=True, check=True).stdout  # noqa: S603
            )
    return sizes


def _picture_size(pixels: np.ndarray, kind: str) -> int:
    return len(_picture(pixels, kind))


def _picture(pixels: np.ndarray, kind: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    picture = Image.fromarray(pixels * np.uint8(255))
    if kind == "WEBP":
        picture.convert("RGB").save(file, kind, lossless=True, quality=100)
    else:
        picture.convert("1").save(file, kind, optimize=True)
    return file.getvalue()
