"""TLS of a server: the certificate, which can be replaced while the server runs."""

from __future__ import annotations

import logging
import ssl

logger = logging.getLogger(__name__)


class Certificate:
    """A certificate with its chain, and its key, in files in PEM format."""

    def __init__(self, certificate: str, key: str | None) -> None:
        """Read the files.

        Args:
            certificate: the file with the certificate, then those of its issuers.
            key: the file with the key, or None if it is in the same file.

        Raises:
            ValueError: they cannot be read, or do not belong together.
        """
        self._files = (certificate, key)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self._load()

    def _load(self) -> None:
        certificate, key = self._files

        def refuse() -> str:
            # Without this, OpenSSL asks for the password at the terminal.
            raise ValueError(f"tls: '{key or certificate}': the key has a password: remove it with `openssl pkey`")

        try:
            self.context.load_cert_chain(certificate, key, refuse)
        except ssl.SSLError as error:
            raise ValueError(
                f"tls: '{certificate}' and '{key or certificate}': {error.reason or error}: "
                "a certificate and its key in PEM format are expected"
            ) from error
        except OSError as error:
            raise ValueError(f"tls: '{certificate}' or '{key or certificate}': {error.strerror}") from error

    def reload(self) -> None:
        """Read the files again, for further connections. If they cannot be used, the old certificate serves."""
        try:
            # A second context finds mistakes before the first, which is in use, is changed.
            Certificate(*self._files)
            self._load()
        except ValueError as error:
            logger.error("%s: the old certificate is used", error)
        else:
            logger.info("the certificate was read again")
