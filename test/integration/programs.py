"""Runs real client programs against the pooler."""

import subprocess


class Program:
    """A started program. As a context manager it ends the program together with its test."""

    def __init__(self, command, env, stdin=None):
        self.command = command
        self.process = subprocess.Popen(
            command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL)

    def finish(self, timeout=300):
        """Waits for the end and returns (exit code, stdout, stderr)."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        return self.process.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def run(pooler, program, *args, user="trust_user", secret=None, timeout=300, check=True, **env):
    """Runs a program to its end and returns its stdout."""
    done = subprocess.run([program, *map(str, args)], env=dict(pooler.env_for(user, secret), **env),
                          capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    if check:
        assert done.returncode == 0, (args, done.stdout[-1500:], done.stderr[-1500:])
        return done.stdout
    return done


def psql(pooler, *args, **more):
    return run(pooler, "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", *args, **more)


def pgbench(pooler, pg, *args, **more):
    """Runs pgbench, requires that no transaction failed, and returns the number of transactions."""
    done = run(pooler, pg.program("pgbench"), *args, check=False, **more)
    assert_clean_bench(done.returncode, done.stdout, done.stderr)
    return transactions(done.stdout)


def assert_clean_bench(code, out, err):
    assert code == 0, (out[-1500:], err[-1500:])
    assert "aborted" not in err and "error" not in err.lower(), err[-1500:]
    assert "number of failed transactions: 0" in out or "initial" not in out, out


def transactions(out):
    for line in out.splitlines():
        if line.startswith("number of transactions actually processed:"):
            return int(line.split(":")[1].split("/")[0])
    return 0
