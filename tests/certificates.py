"""Certificates for servers and clients on this machine, made for one test run by an authority of its own."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


class Authority:
    """Sign certificates; all files lie in one folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        #: The file by which clients and servers know the authority.
        self.file = self._write(f"{name}.crt", self._sign(self._name, self._key, None))

    def issue(self, name: str, *hosts: str) -> tuple[Path, Path]:
        """Give the files of a certificate for these hosts (none: a client's) and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts]) if hosts else None
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self._write(f"{name}.crt", self._sign(subject, key, names)), self._write(f"{name}.key", text)

    def server_options(self, *hosts: str) -> dict[str, str]:
        """Give the directives of a Redis server for these hosts, to which anybody may connect."""
        certificate, key = self.issue("server", *hosts)
        files = {"tls-cert-file": certificate, "tls-key-file": key, "tls-ca-cert-file": self.file}
        return {name: f'"{path}"' for name, path in files.items()} | {
            "tls-auth-clients": "no",
            "tls-replication": "yes",
        }

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, hosts: x509.SubjectAlternativeName | None
    ) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.BasicConstraints(ca=key is self._key, path_length=None), critical=True)
        )
        if hosts:
            builder = builder.add_extension(hosts, critical=False)
        return builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(content)
        return path


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
