"""The socket settings, checked on the sockets of the running process."""

import ctypes
import os
import socket

import pytest

import waiting

PIDFD_GETFD = 438
libc = ctypes.CDLL(None, use_errno=True)


def sockets(pooler):
    """Returns duplicates of all sockets of the process."""
    pidfd = os.pidfd_open(pooler.pid)
    found = []
    try:
        for number in os.listdir("/proc/%d/fd" % pooler.pid):
            if not os.readlink("/proc/%d/fd/%s" % (pooler.pid, number)).startswith("socket:"):
                continue
            fd = libc.syscall(PIDFD_GETFD, pidfd, int(number), 0)
            if fd < 0:
                pytest.skip("descriptors of other processes: %s" % os.strerror(ctypes.get_errno()))
            found.append(socket.socket(fileno=fd))
    finally:
        os.close(pidfd)
    return found


def options_of(pooler, is_wanted):
    """Returns the options of the one socket for which is_wanted(own address, peer's address) is
    true."""
    found = []
    for sock in sockets(pooler):
        with sock:
            if sock.family == socket.AF_UNIX or not sock.getsockopt(
                    socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM:
                continue
            try:
                peer = sock.getpeername()
            except OSError:
                continue  # The socket is a listening one.
            if is_wanted(sock.getsockname(), peer):
                found.append({
                    "tcp_keepalive": sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                    "tcp_keepidle": sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
                    "tcp_keepintvl": sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
                    "tcp_keepcnt": sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
                    "tcp_user_timeout": sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
                    # The kernel doubles the requested size.
                    "tcp_socket_buffer": sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2,
                })
    assert len(found) == 1, found
    return found[0]


SETTINGS = {"tcp_keepalive": 1, "tcp_keepidle": 77, "tcp_keepintvl": 33, "tcp_keepcnt": 5,
            "tcp_user_timeout": 123456, "tcp_socket_buffer": 65536}


def both_sides(pooler, pg):
    """Returns the options of a new client's socket and of its server's socket."""
    with pooler.connect() as client:
        client.query("begin")
        own = client.sock.getsockname()
        yield options_of(pooler, lambda _, peer: peer == own)
        yield options_of(pooler, lambda _, peer: peer[1] == pg.port)


def test_tcp_settings_of_clients_and_servers(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings=SETTINGS)
    for options in both_sides(pooler, pg):
        assert options == SETTINGS
    # The new values apply to later connections.
    waiting.wait_for(lambda: not any(row["state"] == "active" for row in pooler.show("SERVERS")), "idle")
    changed = dict(SETTINGS, tcp_keepidle=99, tcp_keepintvl=44, tcp_keepcnt=6, tcp_user_timeout=7000,
                   tcp_socket_buffer=131072)
    pooler.change(**changed)
    pooler.admin.query("RECONNECT")
    pooler.wait_pool(sv_idle=0)
    for options in both_sides(pooler, pg):
        assert options == changed


def test_without_keepalive(make_pooler, pg):
    pooler = make_pooler({"db": pg.conn()}, settings={"tcp_keepalive": 0})
    for options in both_sides(pooler, pg):
        assert options["tcp_keepalive"] == 0
