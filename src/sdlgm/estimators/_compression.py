"""Rows as bytes and back: the methods of an estimator that do so."""

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from sdlgm.estimators._fitted import BATCH, FittedSDLGM
from sdlgm.estimators._preparation import dense, in_batches

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sdlgm.codec import BitsBack, Bounded, Codec
    from sdlgm.codec._files import Source
    from sdlgm.data import RowFiles, Schema
    from sdlgm.train.batches import Rows


class CompressionMixin:
    """Compress and decompress rows through the codes of a fitted model."""

    _fitted: FittedSDLGM
    n_features_in_: int
    schema_: "Schema | None"

    if TYPE_CHECKING:

        def transform(self, X: Any) -> sp.csr_matrix: ...
        def inverse_transform(self, codes: Any) -> Any: ...

    @property
    def codec_(self) -> "Codec":
        """Codes to bytes and back, without encoder and decoder: a `sdlgm.codec.Codec`."""
        check_is_fitted(self)
        return self._fitted.codec

    def compress(self, X, *, lossless: bool = False, max_error: float | Sequence[float] | None = None) -> bytes:
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
        max_error : float, sequence of float or None, default=None
            Write also what the codes leave out, so that no decoded value differs from X by more than this, in the units
            of the data. One number for all columns, or one for each; of windows, for each column of the series. Only
            for Gaussian and Student t columns.

        Returns
        -------
        content : bytes

        """
        check_is_fitted(self)
        if lossless and max_error is not None:
            raise ValueError("lossless=True has no errors; leave out max_error")
        file = io.BytesIO()
        if lossless:
            self.write_lossless(file, [X])
        elif max_error is not None:
            self.write_bounded(file, [X], max_error)
        else:
            return self.codec_.to_bytes(self._sparse_codes(X))
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
        return self._bits_back.write(file, (part for X in batches for part in self._dense_batches(X)))

    def write_bounded(self, file: IO[bytes], batches: Iterable[Any], max_error: float | Sequence[float]) -> int:
        """Write rows within bounds of their errors, as `compress` does, for data that are larger than memory.

        Parameters
        ----------
        file : binary file
        batches : iterable of X
        max_error : float or sequence of float

        Returns
        -------
        n_rows : int
            Number of rows written.

        """
        check_is_fitted(self)
        bounded = self._bounded
        return bounded.write(file, self._finite_batches(batches), max_error, self._codes_of)

    def decompress(self, content: "Source") -> Any:
        """Return the rows that the codes of a ``.sdl`` file decode to, as `inverse_transform` does.

        Rows that were written without loss are returned as they were, zeros and ones of uint8, and rows that were
        written with ``max_error`` within these bounds.

        Parameters
        ----------
        content : bytes, path or binary file

        Returns
        -------
        X : ndarray of shape (n_samples, n_features_in), DataFrame or pyarrow.Table

        """
        check_is_fitted(self)
        from sdlgm.codec import BOUNDED, ROWS, joined, within_memory

        kind = self.codec_.kind_of(content)
        if kind == ROWS:
            blocks = within_memory(self._bits_back.read(content), content, self.n_features_in_)
            return np.concatenate([np.empty((0, self.n_features_in_), np.uint8), *blocks])
        if kind == BOUNDED:
            blocks = within_memory(self._bounded.read(content), content, 8 * self.n_features_in_)
            return np.concatenate([np.empty((0, self.n_features_in_)), *blocks])
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
        from sdlgm.codec import BOUNDED, ROWS

        kind = self.codec_.kind_of(content)
        if kind in (ROWS, BOUNDED):
            return (self._bits_back if kind == ROWS else self._bounded).read(content)
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

    @property
    def _bounded(self) -> "Bounded":
        from sdlgm.codec import Bounded

        fitted, window = self._fitted, None if self.schema_ is None else self.schema_.window
        return Bounded(
            module=fitted.module,
            codec=self.codec_,
            location=fitted.scaling.location,
            scale=fitted.scaling.scale,
            likelihoods=fitted.likelihoods,
            length=1 if window is None else window.length,
        )

    def _dense_batches(self, X: Any) -> Iterator[np.ndarray]:
        """Yield a few rows at a time, in full."""
        rows = self._fitted_rows(X)
        return (dense(batch) for batch in in_batches(rows, BATCH))

    def _finite_batches(self, batches: Iterable[Any]) -> Iterator[np.ndarray]:
        for X in batches:
            for part in self._dense_batches(X):
                assert_all_finite(part, allow_nan=True, input_name="X")
                yield part

    def _fitted_rows(self, X: Any) -> "Rows | RowFiles":
        raise NotImplementedError

    def _codes_of(self, rows: "Rows") -> "sp.csr_matrix":
        """Return the codes of validated rows."""
        raise NotImplementedError

    def _sparse_codes(self, X: Any) -> "sp.csr_matrix":
        """Return codes as a matrix, whatever container `transform` is set to return."""
        raise NotImplementedError
