"""Codes to bytes and back, under the prior of the model that made them.

`Codec` writes single codes as messages with a ceiling (`max_bytes`), and many codes as ``.sdl`` files. `BitsBack`
writes binary rows without loss, and `Bounded` measured rows within bounds of their errors.
"""

import hashlib
import os
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from sdlgm.codec._bounded import Bounded
from sdlgm.codec._codes import CHECKSUM_BYTES, Codec, joined
from sdlgm.codec._files import BOUNDED, CODES, FINGERPRINT_BYTES, KINDS, ROWS, VERSION, opened, within_memory
from sdlgm.codec._lossless import BitsBack
from sdlgm.codec._priors import integer_prior
from sdlgm.model.modules import SDLGMModule

__all__ = [
    "BOUNDED",
    "CODES",
    "ROWS",
    "BitsBack",
    "Bounded",
    "Codec",
    "codec_of",
    "describe",
    "joined",
    "max_bytes",
    "within_memory",
]


class HasCodec(Protocol):
    """A fitted `sdlgm.SDLGM`."""

    @property
    def codec_(self) -> Codec: ...


def max_bytes(model: HasCodec, *, checksum: bool = False) -> int:
    """Return how many bytes the longest message of a model has.

    No code needs more than one bit and the bits of its number among all codes within the budget: with sets,

        1 + ceil(log2 sum_{n <= max_active} C(n_components, n)).

    Parameters
    ----------
    model : SDLGM
        A fitted model.
    checksum : bool, default=False
        Whether messages have a checksum.

    Returns
    -------
    n_bytes : int

    """
    return model.codec_.max_bytes + (CHECKSUM_BYTES if checksum else 0)


def codec_of(module: SDLGMModule, further: Mapping[str, np.ndarray]) -> Codec:
    """Return the codec of a model.

    Parameters
    ----------
    module : SDLGMModule
    further : mapping of str to ndarray
        What else the model consists of, by which it is told from others.

    Returns
    -------
    codec : Codec

    """
    config, sets = module.config, module.posterior.draws_sets
    return Codec(
        prior=integer_prior(module.prior, sets=sets),
        n_features=config.n_features,
        budget=min(config.n_slots, config.n_features) if sets else config.n_slots,
        sets=sets,
        fingerprint=_fingerprint(module, further),
    )


def _fingerprint(module: SDLGMModule, further: Mapping[str, np.ndarray]) -> bytes:
    """Return the first bytes of a hash of all tensors of a model."""
    digest = hashlib.sha256()
    tensors = {name: tensor.detach().cpu().numpy() for name, tensor in module.state_dict().items()}
    for name, array in sorted({**tensors, **further}.items()):
        little = array.astype(array.dtype.newbyteorder("<"))
        digest.update(f"{name} {little.dtype.str} {little.shape}\n".encode())
        digest.update(little.tobytes())
    return digest.digest()[:FINGERPRINT_BYTES]


def describe(path: str | os.PathLike[str]) -> dict[str, int | float | str | list[float]]:
    """Return what a ``.sdl`` file holds, from its header and its index.

    Parameters
    ----------
    path : path

    Returns
    -------
    numbers : dict
        The format and its version, the fingerprint of the model, the numbers of rows, blocks and bytes, and the bounds
        of errors, one or a list of one for each column, if the file has them.

    """
    with opened(path) as reader:
        blocks = reader.index()
    n_rows = sum(block.n_rows for block in blocks)
    numbers = {
        "content": KINDS[reader.kind],
        "version": VERSION,
        "model": reader.fingerprint.hex(),
        "rows": n_rows,
        "blocks": len(blocks),
        "bytes": reader.n_bytes,
        "bits_per_row": 8 * reader.n_bytes / max(n_rows, 1),
    }
    if reader.bounds is not None:
        numbers["max_error"] = float(reader.bounds[0]) if len(reader.bounds) == 1 else reader.bounds.tolist()
    return numbers
