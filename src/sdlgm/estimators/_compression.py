"""Rows as bytes and back: the methods of an estimator that do so."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from sdlgm._limits import check_memory
from sdlgm.estimators._fitted import FittedSDLGM

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sdlgm.codec import Codec
    from sdlgm.codec._files import Source


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

    def compress(self, X) -> bytes:
        """Encode rows, and return their codes as the content of a ``.sdl`` file.

        Codes are as long as the prior says: -log2 p(z) bits each, and less than one percent more for a thousand rows.
        The file has the fingerprint of the model and checksums.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches

        Returns
        -------
        content : bytes

        """
        check_is_fitted(self)
        return self.codec_.to_bytes(self._sparse_codes(X))

    def decompress(self, content: "Source") -> Any:
        """Return the rows that the codes of a ``.sdl`` file decode to, as `inverse_transform` does.

        Parameters
        ----------
        content : bytes, path or binary file

        Returns
        -------
        X : ndarray of shape (n_samples, n_features_in), DataFrame or pyarrow.Table

        """
        check_is_fitted(self)
        n_bytes = len(content) if isinstance(content, bytes) else 0
        parts, n_rows = [self.codec_.no_codes], 0
        for part in self.codec_.read(content):
            n_rows += part.get_shape()[0]
            check_memory("the rows", n_rows * self.n_features_in_ * 8, n_bytes, "use decompress_batches")
            parts.append(part)
        from sdlgm.codec import joined

        return self.inverse_transform(joined(parts))

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

    def _sparse_codes(self, X: Any) -> "sp.csr_matrix":
        """Return codes as a matrix, whatever container `transform` is set to return."""
        raise NotImplementedError
