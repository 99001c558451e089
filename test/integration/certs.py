"""Certificates for the tests: a certificate authority and the certificates that it issues, and
certificates that no authority has signed."""

import datetime
import ipaddress
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

import keeper
import waiting

DAY = datetime.timedelta(days=1)


def _now():
    return datetime.datetime.now(datetime.timezone.utc)


def _name(common_name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternatives(names):
    def one(name):
        try:
            return x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            return x509.DNSName(name)

    return x509.SubjectAlternativeName([one(n) for n in names])


class Pair:
    """A certificate and its key, as PEM files."""

    def __init__(self, folder, name, certificate, key):
        self.certificate = certificate
        self.key = key
        self.cert_file = os.path.join(folder, name + ".crt")
        self.key_file = os.path.join(folder, name + ".key")
        self.write(self)

    def write(self, content):
        """Writes the content of another pair into the files of this one."""
        key = content.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption())
        keeper.learn_key(key.decode())
        _put(self.cert_file, content.certificate.public_bytes(serialization.Encoding.PEM))
        _put(self.key_file, key, 0o600)


def _put(path, data, mode=0o644):
    scratch = path + ".new"
    with open(scratch, "wb") as out:
        out.write(data)
    os.chmod(scratch, mode)
    waiting.give(scratch)
    os.replace(scratch, path)


class Authority:
    """A certificate authority in its own folder."""

    def __init__(self, folder, name="root"):
        self.folder = folder
        self.name = name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign(_name("Test authority " + name), self.key.public_key(), [
            (x509.BasicConstraints(ca=True, path_length=None), True)], -DAY, 3650 * DAY)
        self.file = os.path.join(folder, name + ".crt")
        _put(self.file, self.certificate.public_bytes(serialization.Encoding.PEM))

    def _sign(self, subject, public_key, extensions, begin, end, digest=None):
        issuer = _name("Test authority " + self.name)
        builder = (x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
                   .public_key(public_key).serial_number(x509.random_serial_number())
                   .not_valid_before(_now() + begin).not_valid_after(_now() + end))
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self.key, digest or hashes.SHA256())

    def issue(self, name, common_name, names=(), days=365, kind="ec", digest=None, begin=None):
        """Issues a certificate for common_name and for these names and addresses. With days < 0 it
        has expired; it becomes valid in `begin` days."""
        key = (ec.generate_private_key(ec.SECP256R1()) if kind == "ec"
               else rsa.generate_private_key(65537, 2048))
        extensions = [(_alternatives(names), False)] if names else []
        certificate = self._sign(_name(common_name), key.public_key(), extensions,
                                 (begin or -abs(days) * 2) * DAY, days * DAY, digest)
        return Pair(self.folder, name, certificate, key)

    def revoke(self, *pairs):
        """Writes a revocation list with these certificates and returns its path."""
        builder = (x509.CertificateRevocationListBuilder()
                   .issuer_name(self.certificate.subject)
                   .last_update(_now() - DAY).next_update(_now() + 30 * DAY))
        for pair in pairs:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder().serial_number(pair.certificate.serial_number)
                .revocation_date(_now() - DAY).build())
        path = os.path.join(self.folder, self.name + ".crl")
        _put(path, builder.sign(self.key, hashes.SHA256()).public_bytes(
            serialization.Encoding.PEM))
        return path
