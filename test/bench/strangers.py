#!/usr/bin/env python3
"""Opens many connections of strangers, who send garbage, beside one client that is served, and prints what
becomes of the pooler's memory, descriptors and log, and of that client's latency."""

import argparse
import multiprocessing
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))

import conftest  # noqa: E402
import postgres  # noqa: E402
import strangers  # noqa: E402
import waiting  # noqa: E402
from pooler import Pooler  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(",")[0])
    parser.add_argument("--pooler", required=True)
    parser.add_argument("--count", type=int, default=50000)
    parser.add_argument("--seconds", type=float, default=5, help="how long the quiet client is measured")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the pooler")
    options = parser.parse_args()
    pg = postgres.Postgres(conftest.find_pg_bin()).create()
    settings = {"auth_type": "scram-sha-256", "pool_mode": "transaction", "max_client_conn": 1000,
                "max_login_clients": 200, "log_lines_per_address": 20}
    settings.update(pair.split("=", 1) for pair in options.set)
    pooler = None
    try:
        with waiting.within_reach(os.path.abspath(options.pooler)) as binary:
            pooler = Pooler(binary, {"db": pg.conn(pool_size=2)}, settings=settings).start()
            client = pooler.connect(user="scram_user")
            client.query("select 1")
            strangers.flood(pooler, 1000, 1)
            end = time.monotonic() + options.seconds
            quiet = strangers.durations(client, lambda count: time.monotonic() > end)
            before, fds, began = pooler.rss(), pooler.fds(), time.monotonic()
            flood = multiprocessing.Process(target=strangers.flood, args=(pooler, options.count, 2))
            flood.start()
            beside = strangers.durations(client, lambda count: not flood.is_alive())
            flood.join()
            spent = time.monotonic() - began
            waiting.wait_for(lambda: pooler.fds() <= fds + 2, "the connections are closed")
            quiet, beside = ([strangers.percentile(took, share) * 1e6 for share in (0.5, 0.99)]
                             for took in (quiet, beside))
            print("strangers         %d, %.0f per second" % (options.count, options.count / spent))
            print("memory            %+.1f MB of %.1f" % ((pooler.rss() - before) / 2**20, before / 2**20))
            print("lines of the log  %d" % len(pooler.log().splitlines()))
            print("latency, quiet    p50 %.0f us, p99 %.0f us" % tuple(quiet))
            print("latency, beside   p50 %.0f us, p99 %.0f us, %.1f times" % (*beside, beside[1] / quiet[1]))
            client.close()
            pooler.stop()
    finally:
        if pooler:
            pooler.remove()
        pg.remove()


if __name__ == "__main__":
    main()
