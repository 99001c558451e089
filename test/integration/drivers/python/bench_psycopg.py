"""For the benchmark: clients that send one text with new values for as long as they are told. Arguments
and output are those of node/bench_pg.mjs."""

import random
import re
import sys
import threading
import time

import psycopg

COUNT, SECONDS, TEXT = int(sys.argv[1]), float(sys.argv[2]), re.sub(r"\$\d", "%s", sys.argv[3])
MOST = [int(m) for m in sys.argv[4:]]


def work(client, until, took):
    now = time.monotonic()
    while now < until:
        begun = now
        # As in the first executions of a text, which the driver does not prepare.
        client.execute(TEXT, [random.randint(1, m) for m in MOST], prepare=False)
        now = time.monotonic()
        took.append(now - begun)


def work_all(clients, seconds):
    took, until = [], time.monotonic() + seconds
    threads = [threading.Thread(target=work, args=(client, until, took)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(took)


CLIENTS = [psycopg.connect(autocommit=True) for _ in range(COUNT)]
work_all(CLIENTS, 0.2)
print("begun", flush=True)
BEGUN = time.monotonic()
TOOK = work_all(CLIENTS, SECONDS)
print(len(TOOK), time.monotonic() - BEGUN, TOOK[len(TOOK) * 99 // 100] * 1000)
