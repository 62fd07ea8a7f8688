"""Rows as bytes and back: the methods of an estimator that do so."""

import io
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sdlgm.estimators._fitted import BATCH, FittedSDLGM
from sdlgm.estimators._preparation import dense, in_batches

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sdlgm.codec import BitsBack, Codec
    from sdlgm.codec._files import Source
    from sdlgm.data import RowFiles
    from sdlgm.train.batches import Rows


class CompressionMixin:
    """Compress and decompress rows through the codes of a fitted model."""

    _fitted: FittedSDLGM
    n_features_in_: int

    if TYPE_CHECKING:

        def transform(self, X: Any) -> sp.csr_matrix: ...
        def inverse_transform(self, codes: Any) -> Any: ...

    @property
    def codec_(self) -> "Codec":
        """Codes to bytes and back, without encoder and decoder: a `sdlgm.codec.Codec`."""
        check_is_fitted(self)
        return self._fitted.codec

    def compress(self, X, *, lossless: bool = False) -> bytes:
        """Encode rows, and return their codes as the content of a ``.sdl`` file.

        Codes are as long as the prior says: -log2 p(z) bits each, and less than one percent more for a thousand rows.
        The file has the fingerprint of the model and checksums.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches
        lossless : bool, default=False
            Write the rows themselves, which have to be zeros and ones, with as many bits as the bound `elbo` says. Only
            the same machine, with the same versions of its libraries, is sure to read them. Needs ``prior="chain"``,
            ``likelihood="bernoulli"`` and the extra ``codec``.

        Returns
        -------
        content : bytes

        """
        check_is_fitted(self)
        if not lossless:
            return self.codec_.to_bytes(self._sparse_codes(X))
        file = io.BytesIO()
        self.write_lossless(file, [X])
        return file.getvalue()

    def write_lossless(self, file: IO[bytes], batches: Iterable[Any]) -> tuple[int, int]:
        """Write rows of zeros and ones without loss, as `compress` does, for data that are larger than memory.

        Parameters
        ----------
        file : binary file
        batches : iterable of X

        Returns
        -------
        n_rows : int
            Number of rows written.
        n_first_bits : int
            How many bits of the file are there because a block has to begin with some: about those of one code each.

        """
        check_is_fitted(self)
        return self._bits_back.write(file, (part for X in batches for part in self._binary_batches(X)))

    def decompress(self, content: "Source") -> Any:
        """Return the rows that the codes of a ``.sdl`` file decode to, as `inverse_transform` does.

        Rows that were written without loss are returned as they were, zeros and ones of uint8.

        Parameters
        ----------
        content : bytes, path or binary file

        Returns
        -------
        X : ndarray of shape (n_samples, n_features_in), DataFrame or pyarrow.Table

        """
        check_is_fitted(self)
        from sdlgm.codec import joined, within_memory

        if self.codec_.has_rows(content):
            blocks = within_memory(self._bits_back.read(content), content, self.n_features_in_)
            return np.concatenate([np.empty((0, self.n_features_in_), np.uint8), *blocks])
        parts = within_memory(self.codec_.read(content), content, 8 * self.n_features_in_)
        return self.inverse_transform(joined([self.codec_.no_codes, *parts]))

    def decompress_batches(self, content: "Source") -> Iterator[Any]:
        """Decompress one block of rows after the other. Of a file that is cut short, raise after its last whole block.

        Parameters
        ----------
        content : bytes, path or binary file

        Returns
        -------
        rows : iterator of X
            Each as from `decompress`.

        """
        check_is_fitted(self)
        if self.codec_.has_rows(content):
            return self._bits_back.read(content)
        return (self.inverse_transform(codes) for codes in self.codec_.read(content))

    def to_messages(self, X, *, checksum: bool = False) -> list[bytes]:
        """Encode rows, and return each as a message of its own, for a channel that keeps messages apart.

        No message is longer than `sdlgm.codec.max_bytes`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches
        checksum : bool, default=False
            Append two bytes by which damage, and messages of other models, are found.

        Returns
        -------
        messages : list of bytes

        """
        check_is_fitted(self)
        return self.codec_.to_messages(self._sparse_codes(X), checksum=checksum)

    def from_messages(self, messages: Iterable[bytes], *, checksum: bool = False) -> Any:
        """Return the rows that messages decode to, as `inverse_transform` does.

        Parameters
        ----------
        messages : iterable of bytes
        checksum : bool, default=False
            Whether the messages have a checksum.

        Returns
        -------
        X : ndarray of shape (n_messages, n_features_in), DataFrame or pyarrow.Table

        """
        check_is_fitted(self)
        return self.inverse_transform(self.codec_.from_messages(messages, checksum=checksum))

    @property
    def _bits_back(self) -> "BitsBack":
        from sdlgm.codec import BitsBack

        return BitsBack(self._fitted.module, self.codec_)

    def _binary_batches(self, X: Any) -> Iterator[np.ndarray]:
        """Yield a few rows at a time, in full."""
        rows = self._fitted_rows(X)
        return (dense(batch) for batch in in_batches(rows, BATCH))

    def _fitted_rows(self, X: Any) -> "Rows | RowFiles":
        raise NotImplementedError

    def _sparse_codes(self, X: Any) -> "sp.csr_matrix":
        """Return codes as a matrix, whatever container `transform` is set to return."""
        raise NotImplementedError
