"""Tests of the test tools."""

import os
import shutil
import subprocess
import sys

import pytest

import pg_regress
import toolchain
import waiting


@pytest.fixture
def locked():
    """A folder that only its owner may enter, like root's home."""
    folder = waiting.scratch("locked")
    os.chmod(folder, 0o700)
    os.chown(folder, os.getuid(), os.getgid())
    yield folder
    shutil.rmtree(folder)


def as_account(*command):
    return subprocess.run(command, cwd="/", capture_output=True, text=True,
                          **waiting.run_as(waiting.unprivileged()))


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second account")
def test_what_the_account_cannot_reach_is_copied(locked):
    os.mkdir(os.path.join(locked, "bin"), 0o700)
    program = shutil.copy("/bin/echo", os.path.join(locked, "bin", "say"))
    os.chmod(program, 0o700)
    for path, inside in ((program, ""), (locked, "bin/say")):
        with waiting.within_reach(path) as copy:
            assert copy != path
            assert as_account(os.path.join(copy, inside) if inside else copy, "hello").stdout == "hello\n"
        assert not os.path.exists(copy)


def test_what_the_account_can_reach_is_used_as_it_is():
    with waiting.within_reach("/bin/echo") as path:
        assert path == "/bin/echo"


def test_settings_of_a_run(make_pooler, monkeypatch):
    monkeypatch.setenv("POOLER_SETTINGS", "query_timeout = 7; stats_period=30;\nlisten_backlog = 9\n")
    config = make_pooler({}, settings={"stats_period": 20}).config()
    assert [config[k] for k in ("query_timeout", "stats_period", "listen_backlog")] == ["7", "20", "9"]


def test_runs_beside_each_other_get_different_ports():
    """Although nobody listens yet on a port that was handed out."""
    port = waiting.PORTS.take()
    other = "import waiting; p = waiting.Ports(); p.at = %d - p.first; print(p.take())" % (port - 1)
    env = dict(os.environ, PYTHONPATH=os.path.dirname(waiting.__file__))
    done = subprocess.run([sys.executable, "-c", other], env=env, capture_output=True, text=True)
    assert int(done.stdout) != port, done


def test_tests_of_postgresql_are_those_of_the_nearest_version():
    listed = ["15.6-1", "15.18-0+deb12u1", "15.20-0+deb12u1"]
    assert pg_regress.nearest(listed, "15.20-0+deb12u1") == listed[::-1]
    assert pg_regress.nearest(listed[:2], "15.8-1") == ["15.8-1", *listed[:2]]


def test_tests_of_postgresql_stay_when_there_are_no_others(monkeypatch, tmp_path):
    def fetch(*_):
        raise toolchain.Missing("no network")

    folder = tmp_path / "regress" / "15"
    monkeypatch.setattr(pg_regress, "fetch", fetch)
    monkeypatch.setattr(pg_regress, "version_of", lambda _: ("15", "15.20-0+deb12u1"))
    monkeypatch.setattr(pg_regress, "folder_of", lambda _: str(folder))
    with pytest.raises(toolchain.Missing):
        pg_regress.sources("")
    folder.mkdir(parents=True)
    (folder / "release").write_text("15.18-0+deb12u1")
    (folder / "postgresql-15_15.18-0+deb12u1.dsc").touch()
    assert pg_regress.sources("") == str(folder)
    assert not pg_regress.are_installed("")
