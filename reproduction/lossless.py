"""Binary pictures without loss: the SDLGM beside general compressors and picture formats."""

import gzip
import importlib.util
import io
import lzma
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.codec import trained
from reproduction.provenance import publish
from sdlgm.data import load_data
from sdlgm.report.figures import dense

DRAWS = 10
PUBLISHED = {"BB-ANS, published (Townsend et al., 2019)": 0.19, "lowest published figure": 0.17}
"""Bits per pixel on MNIST, drawn as here; quoted, not measured."""
PROTOCOL = {
    "rows": "the test rows, one Bernoulli draw of the grey levels with seed 0; the same draw for all",
    "model": "the defaults of SDLGM with the Bernoulli likelihood, trained by the command on the training rows, drawn "
    "anew in every iteration",
    "bound": f"negative discrete ELBO of these rows, the mean of {DRAWS} draws of the codes",
    "others": "of the rows packed to eight pixels in a byte; gzip and xz at their highest level; pictures one by one, "
    "and as one strip, of one bit a pixel",
    "published": "quoted from papers, not measured; of MNIST only",
}


def reproduce_lossless(out: Path, *, data: str, iterations: int, work_folder: Path, **settings: Any) -> dict[str, Any]:
    """Train a model, compress the test rows with it and with everything else, and publish the sizes."""
    known, grey = (dense(load_data(f"{data}:{split}").X) for split in ("train", "test"))
    rows = (np.random.default_rng(0).random(grey.shape) < grey).astype(np.uint8)
    model = trained(f"lossless-{data}", known, work_folder, iterations, likelihood="bernoulli", **settings)
    file = io.BytesIO()
    start = time.perf_counter()
    _, n_first_bits = model.write_lossless(file, [rows])
    written = time.perf_counter()
    if not np.array_equal(model.decompress(file.getvalue()), rows):
        raise AssertionError("the rows were not read back")
    read = time.perf_counter()
    bound = -np.mean([model.elbo(rows, random_state=seed).mean() for seed in range(DRAWS)]) / math.log(2)
    sizes = {"SDLGM": len(file.getvalue()), **other_sizes(rows)}
    found = [{"system": name, "bits_per_pixel": 8 * size / rows.size, "bytes": size} for name, size in sizes.items()]
    if data == "mnist":
        found += [{"system": name, "bits_per_pixel": bits, "bytes": None} for name, bits in PUBLISHED.items()]
    return publish(
        out,
        {
            "data": data,
            "n_rows": len(rows),
            "n_pixels": rows.shape[1],
            "iterations": iterations,
            "seeds": [0],
            "rows": found,
            "bound_bits_per_pixel": bound / rows.shape[1],
            "first_bits": n_first_bits,
            "written_per_second": len(rows) / (written - start),
            "read_per_second": len(rows) / (read - written),
            "protocol": PROTOCOL,
        },
    )


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
    return sizes


def _picture_size(pixels: np.ndarray, kind: str) -> int:
    from PIL import Image

    file = io.BytesIO()
    picture = Image.fromarray(pixels * np.uint8(255))
    if kind == "PNG":
        picture.convert("1").save(file, kind, optimize=True)
    else:
        picture.convert("RGB").save(file, kind, lossless=True, quality=100)
    return len(file.getvalue())
