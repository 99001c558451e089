"""Clients that insert rows without end, and what they have seen of a failover."""

import threading
import time

import wire

TABLE = "create table written (writer int, at int)", "grant all on written to public"


class Writer(threading.Thread):
    """Inserts one row in each transaction, and notes when each was acknowledged. `connect` logs a
    client in; `anew`: for each row."""

    def __init__(self, connect, number, anew=False):
        super().__init__(daemon=True)
        self.connect, self.number, self.anew = connect, number, anew
        self.acknowledged, self.errors, self.ends = [], [], False

    def run(self):
        client, at = None, 0
        while not self.ends:
            try:
                client = client or self.connect()
                at += 1
                if client.query("insert into written values (%d, %d)" % (self.number, at)).tag:
                    self.acknowledged.append((time.monotonic(), at))
                if self.anew:
                    client = client.close()
            except (wire.Refused, wire.Closed, OSError) as error:
                self.errors.append(str(error))
                client = client and client.close()
                time.sleep(0.01)
        if client:
            client.close()


def finish(writers):
    for writer in writers:
        writer.ends = True
    for writer in writers:
        writer.join(120)


def moments(writers):
    """Returns when rows were acknowledged."""
    return sorted(moment for writer in writers for moment, _ in writer.acknowledged)


def lost(writers, client):
    """Returns how many acknowledged rows are not there, and were so lost or written elsewhere."""
    rows = {tuple(map(int, row)) for row in client.query("select * from written").rows}
    return sum((writer.number, at) not in rows for writer in writers for _, at in writer.acknowledged)
