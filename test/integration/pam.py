"""A scratch PAM service `pgbouncer`: libpam_wrapper makes programs use it, and pam_matrix
keeps its passwords.

Run as a program it makes one, runs the command it is given in an environment where PAM
is that service, and removes it.
"""

import glob
import os
import subprocess
import sys

import keeper
import waiting

SERVICE = "pgbouncer"
USERS = {
    "pam_ann": "ann pamsecret 6b3",
    "pam_bob": "bob pamsecret 2c8",
    "pam_locked": "locked pamsecret 4e1",
}
for known in USERS.values():
    keeper.learn(known)
LOCKED = "pam_locked"  # This user can prove the password, but has no account.
# The addresses from which clients may connect, by PAM_RHOST.
HOSTS = "127.0.0.1:unix"

WRAPPER = ("libpam_wrapper.so", "libpam_wrapper.so.0")
MATRIX = "pam_wrapper/pam_matrix.so"

def missing():
    """Returns the names of missing packages, or "" when all are installed."""
    if not waiting.find_library(*WRAPPER):
        return "libpam_wrapper is not installed"
    if not waiting.find_library(MATRIX):
        return "pam_matrix.so is not installed"
    return ""


class Pam:
    """The files of the service, and the environment in which a program uses it."""

    def __init__(self):
        self.dir = waiting.scratch("pamtest")
        matrix = waiting.find_library(MATRIX)
        passwords = self.write("passwords", "".join(
            "%s:%s:%s\n" % (name, secret, SERVICE) for name, secret in USERS.items()))
        self.services = os.path.join(self.dir, "services")
        os.mkdir(self.services)
        os.chmod(self.services, 0o755)
        self.write("services/" + SERVICE,
                   "auth required %s passdb=%s\n"
                   "account required pam_succeed_if.so quiet rhost in %s\n"
                   "account required pam_succeed_if.so quiet user != %s\n" % (
                       matrix, passwords, HOSTS, LOCKED))
        self.write("services/other", "auth required pam_deny.so\naccount required pam_deny.so\n")
        for path in (self.services, *glob.glob(self.dir + "/*")):
            waiting.give(path)

    def write(self, name, content):
        path = os.path.join(self.dir, name)
        with open(path, "w") as file:
            file.write(content)
        os.chmod(path, 0o644)
        return path

    def env(self):
        """Returns the variables to add to the environment of the program under test."""
        return dict(waiting.preload(waiting.find_library(*WRAPPER)), PAM_WRAPPER="1",
                    PAM_WRAPPER_SERVICE_DIR=self.services)

    def remove(self):
        waiting.discard(self.dir)


def main():
    """pam.py PROGRAM ARGUMENT...: runs the program and exits with its exit code."""
    env = dict(os.environ)
    if missing():
        return subprocess.call(sys.argv[1:], env=dict(env, PAM_MISSING=missing()))
    service = Pam()
    try:
        return subprocess.call(sys.argv[1:], env=dict(env, **service.env()))
    finally:
        service.remove()


if __name__ == "__main__":
    sys.exit(main())
