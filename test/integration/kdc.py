"""A scratch realm of Kerberos: MIT's KDC on loopback, and tokens as a client of GSSAPI makes them."""

import contextlib
import ctypes
import ctypes.util
import os
import shutil
import socket
import struct
import subprocess
import threading

import waiting

REALM, OTHER = "EXAMPLE.COM", "OTHER.EXAMPLE"
# The services, by the names of their hosts.
SERVICES = ("postgres/127.0.0.1", "postgres/localhost")

KRB5_CONF = """
[libdefaults]
 default_realm = {realm}
 dns_lookup_realm = false
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 rdns = false
 {more}
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = {realm}
 127.0.0.1 = {realm}
"""

KDC_CONF = """
[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {dir}/principals
  key_stash_file = {dir}/stash
  max_life = 10h
  supported_enctypes = aes256-cts:normal
 }}
[logging]
 kdc = FILE:{dir}/kdc.log
"""


def program(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")


def missing():
    """Returns why there can be no realm, or None."""
    for name in ("krb5kdc", "kadmin.local", "kdb5_util", "kinit"):
        if not program(name):
            return name + " is not installed"
    return None


class Kdc:
    """One realm. It listens on a port that stays the same when it is stopped and started."""

    def __init__(self, realm=REALM):
        self.realm = realm
        self.account = waiting.unprivileged()
        self.dir = waiting.scratch("kdc")
        self.port = waiting.PORTS.take()
        self.process = None

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        waiting.give(self.path(name))
        return self.path(name)

    def krb5_conf(self, name="krb5.conf", port=None, more=""):
        return self.write(name, KRB5_CONF.format(realm=self.realm, port=port or self.port, more=more))

    def env(self, cache=None, config=None):
        """The variables for a program that is to know this realm, with this credential cache."""
        return {"KRB5_CONFIG": config or self.path("krb5.conf"),
                "KRB5CCNAME": "FILE:" + self.path(cache or "no-cache")}

    def run(self, name, *args, **options):
        env = dict(os.environ, **self.env(), KRB5_KDC_PROFILE=self.path("kdc.conf"))
        env.update(options.pop("env", {}))
        done = subprocess.run([program(name), *args], cwd=self.dir, env=env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **waiting.run_as(self.account), **options)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def admin(self, *commands):
        return self.run("kadmin.local", "-r", self.realm, input="".join(c + "\n" for c in commands))

    def create(self):
        self.krb5_conf()
        self.write("kdc.conf", KDC_CONF.format(realm=self.realm, port=self.port, dir=self.dir))
        self.run("kdb5_util", "create", "-s", "-r", self.realm, "-P", "the master key 61f")
        self.start()
        return self

    def start(self):
        env = dict(os.environ, **self.env(), KRB5_KDC_PROFILE=self.path("kdc.conf"))
        with open(self.path("output"), "ab") as output:
            self.process = subprocess.Popen(
                [program("krb5kdc"), "-n", "-r", self.realm], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                cwd=self.dir, env=env, **waiting.run_as(self.account))
        waiting.wait_for(self.is_up, "the KDC is up", 30)

    def is_up(self):
        assert self.process.poll() is None, "the KDC has ended"
        return waiting.can_connect(self.port)

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(30)
            self.process = None

    @contextlib.contextmanager
    def away(self):
        self.stop()
        try:
            yield
        finally:
            self.start()

    def remove(self):
        self.stop()
        waiting.discard(self.dir)

    def add(self, *names, more="", keytab=None):
        """Adds principals and returns the path of a keytab that has them."""
        keytab = keytab or self.path(names[0].replace("/", "-") + ".keytab")
        self.admin(*["addprinc -randkey %s %s" % (more, name) for name in names],
                   *["ktadd -k %s %s" % (keytab, name) for name in names])
        return keytab

    def kinit(self, name, keytab=None, cache=None):
        """Gets a ticket and returns the name of the cache."""
        cache = cache or name.replace("/", "-") + ".cache"
        self.run("kinit", "-k", "-t", keytab or self.path(name.replace("/", "-") + ".keytab"), name,
                 env=self.env(cache))
        return cache


@contextlib.contextmanager
def black_hole():
    """Returns a port that takes what is sent to it and never answers, by UDP and TCP."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
        udp.bind(("127.0.0.1", waiting.PORTS.take()))
        tcp.bind(udp.getsockname())
        tcp.listen(100)
        yield udp.getsockname()[1]


# tokens


class Buffer(ctypes.Structure):
    _fields_ = [("length", ctypes.c_size_t), ("value", ctypes.c_void_p)]


class Oid(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint32), ("elements", ctypes.c_char_p)]


HOSTBASED = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04"
KRB5 = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"
MUTUAL = 2
# The library reads the environment of this process, in whatever thread.
ENVIRONMENT = threading.Lock()


class Initiator:
    """The client's side of an exchange, in this process, as the user of a cache."""

    def __init__(self, kdc, cache, service="postgres@127.0.0.1"):
        self.env = kdc.env(cache)
        self.gssapi = ctypes.CDLL(ctypes.util.find_library("gssapi_krb5"))
        self.context, self.name, self.is_done = ctypes.c_void_p(), ctypes.c_void_p(), False
        minor, text = ctypes.c_uint32(), service.encode()
        name = Buffer(len(text), ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p))
        kind = Oid(len(HOSTBASED), HOSTBASED)
        assert self.gssapi.gss_import_name(
            ctypes.byref(minor), ctypes.byref(name), ctypes.byref(kind), ctypes.byref(self.name)) == 0
        self.token = self.step(b"")

    def step(self, token):
        """Returns the next token; raises if the other side's is wrong."""
        minor, out, kind = ctypes.c_uint32(), Buffer(), Oid(len(KRB5), KRB5)
        given = Buffer(len(token), ctypes.cast(ctypes.c_char_p(token), ctypes.c_void_p))
        with ENVIRONMENT:
            before = {name: os.environ.get(name) for name in self.env}
            os.environ.update(self.env)
            major = self.gssapi.gss_init_sec_context(
                ctypes.byref(minor), None, ctypes.byref(self.context), self.name, ctypes.byref(kind),
                ctypes.c_uint32(MUTUAL), ctypes.c_uint32(0), None, ctypes.byref(given), None, ctypes.byref(out),
                None, None)
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value
        assert major & 0xffff0000 == 0, (hex(major & 0xffffffff), minor.value)
        self.is_done = major == 0
        return ctypes.string_at(out.value, out.length) if out.length else b""


# a ticket with much in it


class Data(ctypes.Structure):
    """krb5_data"""
    _fields_ = [("magic", ctypes.c_int32), ("length", ctypes.c_uint), ("data", ctypes.c_char_p)]


class Made(ctypes.Structure):
    """The same, whose bytes are no text."""
    _fields_ = [("magic", ctypes.c_int32), ("length", ctypes.c_uint), ("value", ctypes.c_void_p)]


class AuthData(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_int32), ("type", ctypes.c_int32), ("length", ctypes.c_uint),
                ("contents", ctypes.c_char_p)]


class Credentials(ctypes.Structure):
    """krb5_creds"""
    _fields_ = [("magic", ctypes.c_int32), ("client", ctypes.c_void_p), ("server", ctypes.c_void_p),
                ("key_magic", ctypes.c_int32), ("enctype", ctypes.c_int32), ("key_length", ctypes.c_uint),
                ("key", ctypes.c_void_p), ("times", ctypes.c_int32 * 4), ("is_skey", ctypes.c_uint),
                ("flags", ctypes.c_int32), ("addresses", ctypes.c_void_p), ("ticket", Data), ("second_ticket", Data),
                ("authdata", ctypes.POINTER(ctypes.POINTER(AuthData)))]


GSS_CHECKSUM, MUTUAL_REQUIRED = 0x8003, 0x20000000


def big_token(kdc, cache, principal, size):
    """Returns a valid token whose ticket has `size` bytes of authorization data, as a PAC of Active
    Directory is."""
    krb5 = ctypes.CDLL(ctypes.util.find_library("krb5"))
    context, ccache, auth = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()

    def call(name, *args):
        code = getattr(krb5, name)(*args)
        assert code == 0, (name, code)

    wanted, got, made = Credentials(), ctypes.POINTER(Credentials)(), Made()
    entry = AuthData(0, -77, size, b"g" * size)
    wanted.authdata = (ctypes.POINTER(AuthData) * 2)(ctypes.pointer(entry), None)
    checksum = struct.pack("<I16sI", 16, b"", MUTUAL)
    with ENVIRONMENT:
        before = os.environ.get("KRB5_CONFIG")
        os.environ["KRB5_CONFIG"] = kdc.path("krb5.conf")
        call("krb5_init_context", ctypes.byref(context))
        call("krb5_cc_resolve", context, b"FILE:" + kdc.path(cache).encode(), ctypes.byref(ccache))
        client, server = ctypes.c_void_p(), ctypes.c_void_p()
        call("krb5_cc_get_principal", context, ccache, ctypes.byref(client))
        call("krb5_parse_name", context, principal.encode(), ctypes.byref(server))
        wanted.client, wanted.server = client.value, server.value
        call("krb5_get_credentials", context, 0, ccache, ctypes.byref(wanted), ctypes.byref(got))
        # otherwise the authenticator beside the ticket would have it, too
        got.contents.authdata = None
        call("krb5_auth_con_init", context, ctypes.byref(auth))
        call("krb5_auth_con_set_req_cksumtype", context, auth, GSS_CHECKSUM)
        call("krb5_mk_req_extended", context, ctypes.byref(auth), MUTUAL_REQUIRED,
             ctypes.byref(Data(0, len(checksum), checksum)), got, ctypes.byref(made))
        request = ctypes.string_at(made.value, made.length)
        os.environ.pop("KRB5_CONFIG")
        if before is not None:
            os.environ["KRB5_CONFIG"] = before
    inner = b"\x06" + bytes([len(KRB5)]) + KRB5 + b"\x01\x00" + request
    return b"\x60\x83" + len(inner).to_bytes(3, "big") + inner
