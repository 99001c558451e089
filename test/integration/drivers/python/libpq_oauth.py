"""libpq 18 with an OAuth token, which it reads from standard input: prints who it is, or the error.

The hook gives the token in place of libpq's own flow; where the token is to be got, libpq has asked the
server before."""

import ctypes
import glob
import os
import sys

import psycopg
import psycopg_binary

BEARER_TOKEN = 1  # PQAUTHDATA_OAUTH_BEARER_TOKEN
TOKEN = sys.stdin.read().strip().encode()


class Request(ctypes.Structure):
    """PGoauthBearerRequest"""
    _fields_ = [("openid_configuration", ctypes.c_char_p), ("scope", ctypes.c_char_p),
                ("fetch", ctypes.c_void_p), ("cleanup", ctypes.c_void_p), ("token", ctypes.c_char_p),
                ("user", ctypes.c_void_p)]


def give(kind, _conn, data):
    if kind != BEARER_TOKEN:
        return 0
    request = ctypes.cast(data, ctypes.POINTER(Request)).contents
    print(request.openid_configuration.decode(), request.scope.decode())
    request.token = TOKEN
    return 1


(path,) = glob.glob(os.path.join(os.path.dirname(psycopg_binary.__file__), "..", "psycopg_binary.libs", "libpq-*"))
HOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(give)
ctypes.CDLL(path).PQsetAuthDataHook(HOOK)
try:
    with psycopg.connect(sys.argv[1]) as conn:
        print(conn.execute("select current_user").fetchone()[0])
except psycopg.OperationalError as error:
    print("refused:", error)
