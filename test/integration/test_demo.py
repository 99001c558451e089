"""`make demo`, as somebody sees it on a terminal of 80 columns and 24 lines."""

import fcntl
import os
import pty
import re
import struct
import termios

import documents

LINES, COLUMNS = 24, 80
ROWS = ("direct, a new connection per transaction", "direct, connections kept",
        "pooled, a new connection per transaction", "pooled, connections kept")


def shown_until_ctrl_c(binary):
    """Returns (exit code, lines) of a demo that is ended when it says how."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(os.path.join(documents.TOP, "test/demo/run"), ["run"],
                  {**os.environ, "POOLER": binary, "SECONDS_EACH": "1"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    shown, ended = b"", False
    try:
        while part := os.read(terminal, 1000):
            shown += part
            if not ended and shown.endswith(b"until Ctrl-C\r\n"):
                os.write(terminal, b"\x03")
                ended = True
    except OSError:
        pass  # The other end is closed.
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode().replace("^C", "").splitlines()


def test_demo(binary):
    code, lines = shown_until_ctrl_c(binary)
    said = "\n".join(lines)
    assert code == 0, said
    assert len(lines) < LINES and max(map(len, lines)) <= COLUMNS, said
    # The comparison is the last table.
    table = lines[lines.index(next(line for line in lines if line.startswith("pgbench -S"))) + 2:][:len(ROWS)]
    for row, line in zip(ROWS, table, strict=True):
        assert re.fullmatch(r"  %s +[1-9]\d* +\d+\.\d\d" % row, line), said
    assert re.search(r"^ *demo +\d+ +\d+ +10 +0 +\d+$", said, re.M), said
    assert lines[-1].strip() == "" or lines[-1].endswith("until Ctrl-C"), "nothing follows: %s" % said
    assert "Terminated" not in said and "Killed" not in said
