"""A certificate authority that only the sandboxes of one proxy trust, for the hosts whose requests the proxy reads.

Its keys are in the memory of this process and nowhere else. It is good for these hosts only (RFC 5280, 4.2.1.10).
"""

from __future__ import annotations

import datetime
import os
import ssl
from collections import OrderedDict
from collections.abc import Iterable

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pysbx.network.tls import PROTOCOLS

VALID = datetime.timedelta(days=3650)
MAX_CONTEXTS = 64  # an entry may stand for many names


def _usage(*, authority: bool) -> x509.KeyUsage:
    signs = {"key_cert_sign": authority, "crl_sign": authority, "digital_signature": not authority}
    others = (
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**signs, **dict.fromkeys(others, False))


class Authority:
    """An authority.

    Attributes:
        certificate: its certificate, as PEM.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        """Create an authority for some hosts, and what is below them."""
        self._key, self._leaf_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pysbx: a sandbox's own")])
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()
        names = [x509.DNSName(host) for host in sorted(set(hosts))]
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(authority=True), critical=True)
        builder = builder.add_extension(x509.NameConstraints(names, None), critical=True)
        self.certificate = self._signed(builder)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + VALID)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return builder.add_extension(issuer, critical=False)

    def _signed(self, builder: x509.CertificateBuilder) -> str:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()

    def context(self, host: str) -> ssl.SSLContext:
        """Return the settings of a server with a certificate for a host."""
        if host in self._contexts:
            self._contexts.move_to_end(host)
        else:
            self._contexts[host] = self._make_context(host)
            while len(self._contexts) > MAX_CONTEXTS:
                self._contexts.popitem(last=False)
        return self._contexts[host]

    def _make_context(self, host: str) -> ssl.SSLContext:
        builder = self._builder(x509.Name([]), self._leaf_key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=True)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(authority=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        private = self._leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(PROTOCOLS)
        # OpenSSL takes a file only: this one is in memory, and has no name.
        with open(os.memfd_create("pysbx", os.MFD_CLOEXEC), "wb") as file:
            file.write(private + self._signed(builder).encode())
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
        return context
