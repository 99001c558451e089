"""A scratch LDAP directory: OpenLDAP's slapd with users, StartTLS and ldaps.

Run as a program it starts one, runs the command it is given with the directory's
addresses in its environment, and stops it.
"""

import glob
import os
import shutil
import signal
import socket
import subprocess
import sys

import keeper
import waiting

BASE = "dc=example,dc=net"
PEOPLE = "ou=people," + BASE
STAFF = "ou=staff," + BASE  # Only the searcher may read this entry.
SEARCHER = "cn=searcher," + BASE
SEARCHER_SECRET = "searcher secret 8c2"
# uid: (ou, password); the user `twin` exists twice
USERS = [
    ("ann", PEOPLE, "ann secret 5e1"),
    ("bob", PEOPLE, "bob secret 9a4"),
    ("twin", PEOPLE, "twin secret 1d7"),
    ("twin", STAFF, "twin secret 1d7"),
    ("sue", STAFF, "sue secret 3f0"),
]

for known in (SEARCHER_SECRET, *(secret for _, _, secret in USERS)):
    keeper.learn(known)

CONF = """
{modules}
{schemas}
pidfile {dir}/slapd.pid
argsfile {dir}/slapd.args
TLSCACertificateFile {dir}/cert.pem
TLSCertificateFile {dir}/cert.pem
TLSCertificateKeyFile {dir}/key.pem
database mdb
suffix "{base}"
rootdn "cn=root,{base}"
rootpw root
directory {dir}/data
maxsize 67108864
access to attrs=userPassword by anonymous auth by * none
access to dn.subtree="{staff}" by dn.exact="{searcher}" read by anonymous auth by * none
access to * by * read
"""


def find_slapd():
    """Returns the path of slapd, which may be outside PATH, or None when it is not installed."""
    return shutil.which("slapd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin:/usr/libexec")


def schemas():
    for folder in ("/etc/ldap/schema", "/etc/openldap/schema", "/usr/local/etc/openldap/schema"):
        if os.path.exists(os.path.join(folder, "core.schema")):
            return ["include %s/%s.schema" % (folder, name)
                    for name in ("core", "cosine", "inetorgperson")]
    raise AssertionError("no LDAP schemas")


def modules():
    """Returns the module lines: Debian builds the database backends as modules, others build them
    in."""
    found = glob.glob("/usr/lib/ldap/back_mdb.la") + glob.glob("/usr/lib*/openldap/back_mdb.la")
    return ["modulepath " + os.path.dirname(found[0]), "moduleload back_mdb"] if found else []


def entries():
    yield "dn: %s\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: example" % BASE
    for ou in (PEOPLE, STAFF):
        yield "dn: %s\nobjectClass: organizationalUnit\nou: %s" % (ou, ou[3:].split(",")[0])
    yield ("dn: %s\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\n"
           "cn: searcher\nuserPassword: %s" % (SEARCHER, SEARCHER_SECRET))
    for uid, ou, secret in USERS:
        yield ("dn: uid=%s,%s\nobjectClass: inetOrgPerson\nuid: %s\ncn: %s\nsn: %s\n"
               "mail: %s@example.net\nuserPassword: %s" % (uid, ou, uid, uid, uid, uid, secret))


class Slapd:
    """One running directory. Clients connect to `host`, the name in its certificate."""

    host = "127.0.0.1"  # libldap knows localhost by another name.

    def __init__(self):
        self.account = waiting.unprivileged()
        self.dir = waiting.scratch("ldaptest")
        self.port, self.tls_port = waiting.PORTS.take(), waiting.PORTS.take()
        self.process = None
        self.output = open(os.path.join(self.dir, "log"), "ab")

    def path(self, name):
        return os.path.join(self.dir, name)

    @property
    def ca_file(self):
        return self.path("cert.pem")

    def env(self):
        """Returns the variables to add to the environment of the program under test: trust in the
        certificate, and DNS records by which it finds the directory for BASE. SRV_MISSING says why
        the DNS records are not available."""
        env = {"LDAPTLS_CACERT": self.ca_file}
        library = waiting.find_library("libresolv_wrapper.so", "libresolv_wrapper.so.0")
        if not library:
            return dict(env, SRV_MISSING="libresolv_wrapper is not installed")
        self.write("dns", "SRV _ldap._tcp.example.net localhost %d\n" % self.port)
        return dict(env, RESOLV_WRAPPER_HOSTS=self.path("dns"), **waiting.preload(library))

    def run(self, *command, **options):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              cwd=self.dir, **waiting.run_as(self.account), **options)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def create(self):
        self.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                 "-subj", "/CN=slapd", "-addext", "subjectAltName=IP:" + self.host,
                 "-keyout", "key.pem", "-out", "cert.pem")
        self.run("mkdir", "data")
        self.write("slapd.conf", CONF.format(
            dir=self.dir, base=BASE, staff=STAFF, searcher=SEARCHER,
            modules="\n".join(modules()), schemas="\n".join(schemas())))
        self.write("users.ldif", "\n\n".join(entries()) + "\n")
        # slapd runs as slapadd: it is the same program, selected by its name or by -T.
        self.run(find_slapd(), "-T", "add", "-f", "slapd.conf", "-l", "users.ldif")
        self.start()
        return self

    def write(self, name, content):
        with open(self.path(name), "w") as file:
            file.write(content)
        os.chmod(self.path(name), 0o644)

    def start(self):
        addresses = "ldap://127.0.0.1:%d ldaps://127.0.0.1:%d" % (self.port, self.tls_port)
        # With -d slapd stays in the foreground.
        self.process = subprocess.Popen(
            [find_slapd(), "-d", "stats", "-f", self.path("slapd.conf"), "-h", addresses],
            stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output, cwd=self.dir,
            **waiting.run_as(self.account))
        waiting.wait_for(self.is_up, "slapd accepts connections", 30)

    def is_up(self):
        assert self.process.poll() is None, self.log()[-2000:]
        try:
            for port in (self.port, self.tls_port):
                socket.create_connection(("127.0.0.1", port)).close()
            return True
        except OSError:
            return False

    def freeze(self):
        """Stops the process with SIGSTOP: the kernel still accepts connections, but no request is
        answered."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process:
            self.thaw()
            self.process.terminate()
            self.process.wait(30)
            self.process = None

    def remove(self):
        self.stop()
        self.output.close()
        waiting.discard(self.dir)

    def log(self):
        with open(self.path("log"), errors="replace") as log:
            return log.read()


def main():
    """slapd.py PROGRAM ARGUMENT...: runs the program and exits with its exit code."""
    env = dict(os.environ)
    if not find_slapd():
        return subprocess.call(sys.argv[1:], env=dict(env, SLAPD_MISSING="slapd is not installed"))
    directory = Slapd()
    try:
        directory.create()
        env.update(directory.env(), SLAPD_HOST=directory.host, SLAPD_PORT=str(directory.port),
                   SLAPD_TLS_PORT=str(directory.tls_port), SLAPD_PID=str(directory.process.pid))
        return subprocess.call(sys.argv[1:], env=env)
    finally:
        directory.remove()


if __name__ == "__main__":
    sys.exit(main())
