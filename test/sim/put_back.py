#!/usr/bin/env python3
"""Show that the simulation finds: put faults back that were once found by hand, one at a time, and
simulate until one is found.

It works in a copy of the tree below the build folder. The last line is `N of N found`.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time

# (what it was, options of run.py, [(file, what stands there, what stood there)])
FAULTS = [
    ("a late cancel request hits the next client's query", ["--faults", str(1 | 2 | 8 | 32)], [
        ("src/pool/pool.c", "\tif (!slot->cancels_in_flight)\n\t\treturn (struct verdict){.kind = VERDICT_NONE",
         "\tif (true)\n\t\treturn (struct verdict){.kind = VERDICT_NONE")]),
    ("a cancel request ends the pooler's question after a RESET", ["--faults", str(1 | 2 | 8 | 32)], [
        ("src/cancel/cancel.c", "is_applying && server->status == 'I') {",
         "is_applying && client->conn.is_parked &&\n\t    server->status == 'I') {"),
        ("src/relay/relay.c", "if (server && server->link.params.owes_ready)", "if (false)")]),
    ("the data of a cancelled COPY takes the cancel request of the next query", ["--faults", str(1 | 2 | 8 | 32)], [
        ("src/relay/relay.c", "if (server && server->link.params.is_applying && row->flags & MSG_COPY)",
         "if (false)")]),
    ("a message in pieces frees a server whose client has not sent Sync", [], [
        ("src/relay/back.c", "if (!server->link.ready_came_early || !pipeline_may_speak(&server->pipeline))",
         "if (server->is_ready || server->link.idle_xact_us ||\n\t    !pipeline_may_speak(&server->pipeline) ||\n"
         "\t    !pipeline_is_settled(&server->pipeline))")]),
    ("bytes behind the message at which a server leaves for another worker stay", ["--workers", "3"], [
        ("src/session/conn.c", "step == STEP_NEXT && !conn->is_doomed && !conn->is_going)",
         "step == STEP_NEXT && !conn->is_doomed)")]),
    ("both processes of a takeover serve, because a call failed when the decision came", [
        "--faults", str(1 | 2 | 512 | 2048)], [
        ("src/daemon/fd_channel.c", "if (got < 0 && !is_last) {", "if (got < 0 && !is_last && false) {")]),
    ("an error of the pooler follows the FATAL error of a server", [], [
        ("src/relay/back.c", "if (m->type != 'E' || is_unused(server))\n\t\treturn false;\n\t(void)codec_read_error",
         "if (true)\n\t\treturn false;\n\t(void)codec_read_error")]),
    ("an answer of the pooler stands within a message of the server", [], [
        ("include/wire/pipeline.h", "return !p->is_amid && !p->is_over;", "return !p->is_over;")]),
    ("a server stays at its worker although a client of another one has waited for longer", ["--workers", "3"], [
        ("src/pool/exchange.c", "(!first || other->queued_us + PREFERENCE_US < first->queued_us)",
         "(!first && true)")]),
    ("what a block has changed, and a late cancel request takes back, is not the client's", [
        "--faults", str(1 | 2 | 8 | 32)], [
        ("src/relay/params.c", "bool is_undone = server->link.params.is_applying && server->status == 'E';",
         "bool is_undone = false;")]),
    ("a connection that listens begins while the one before it ends", ["--workers", "3"], [
        ("src/relay/listen_hub.c", "while (hub->server != server)", "while (false)")]),
]


def copy_tree(folder):
    os.makedirs(folder, exist_ok=True)
    for part in ("src", "include", "test/sim", "test/nth", "test/setup"):
        shutil.rmtree(os.path.join(folder, part), ignore_errors=True)
        shutil.copytree(part, os.path.join(folder, part))
    for name in ("Makefile", "configure.ac"):
        shutil.copy2(name, folder)


def build(folder):
    done = subprocess.run(["make", "-j2", "-C", folder, "VARIANT=debug", "build/debug/test/sim/sim"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(done.stdout.decode()[-3000:])


def put(folder, changes, is_back):
    for name, there, before in changes:
        path = os.path.join(folder, name)
        with open(path) as source:
            text = source.read()
        old, new = (there, before) if is_back else (before, there)
        if text.count(old) != 1:
            sys.exit("%s: the place where the fault was is not found" % name)
        with open(path, "w") as source:
            source.write(text.replace(old, new))


def simulate(folder, options, seconds, seed):
    """The seed that has found it, and how; or None."""
    begun = time.monotonic()
    done = subprocess.run(
        ["test/sim/run.py", os.path.join(folder, "build/debug/test/sim/sim"), "--seed", str(seed), "--seeds", "100000",
         "--seconds", "300", "--budget", str(seconds), "--shorten", "0"] + options,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    out = done.stdout.decode("utf-8", "replace")
    found = re.search(r"^seed (\d+) fails: (.*)$", out, re.M)
    return (found.group(1), found.group(2), time.monotonic() - begun) if found else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="real ones, for each fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="*", help="the numbers of faults")
    args = parser.parse_args()
    folder, found, tried = "build/put-back", 0, 0
    copy_tree(folder)
    build(folder)
    for number, (what, options, changes) in enumerate(FAULTS, 1):
        if args.only and number not in args.only:
            continue
        put(folder, changes, True)
        build(folder)
        result = simulate(folder, options, args.seconds, args.seed)
        put(folder, changes, False)
        tried += 1
        found += result is not None
        print("%2d %s: %s" % (number, what, "seed %s after %.0f s: %s" % (result[0], result[2], result[1])
                              if result else "not found in %.0f s" % args.seconds))
        sys.stdout.flush()
    print("%d of %d found" % (found, tried))
    return 0


if __name__ == "__main__":
    sys.exit(main())
