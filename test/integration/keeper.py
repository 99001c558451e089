"""Every secret that the run uses, and the search for them in what poolers say."""

import re

# Shorter ones, or mere words, stand in many a line without being told.
SHORTEST = 8
WORD = re.compile(r"[A-Za-z_.]*")

SECRETS = set()
# Servers that store secrets: functions that learn them.  They are asked when new ones were set.
SERVERS = []
UNREAD = []

IN_FILES = (
    re.compile(r"\bpassword\s*=\s*(?:'((?:[^'\n]|'')*)'|([^\s']+))"),
    re.compile(r'\bldapbindpasswd=(?:"((?:[^"\n]|"")*)"|([^\s,"]+))'),
)
IN_SQL = re.compile(r"\bpassword\s+'((?:[^']|'')*)'", re.I)
PEM_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\n(.*?)-----END", re.S)


def learn(secret):
    """From now on nobody may be told this, nor a part of it that is as good."""
    if not isinstance(secret, str) or len(secret) < SHORTEST or WORD.fullmatch(secret):
        return
    SECRETS.add(secret)
    if secret.startswith("SCRAM-SHA-256$"):
        SECRETS.update(part for part in re.split(r"[$:]", secret)[3:] if len(part) == 44)


def learn_file(text):
    """The secrets in a file of settings or rules."""
    for pattern in IN_FILES:
        for quoted, bare in pattern.findall(text):
            learn(quoted.replace("''", "'").replace('""', '"') or bare)


def learn_sql(sql):
    for secret in IN_SQL.findall(sql) if isinstance(sql, str) else ():
        learn(secret.replace("''", "'"))
        UNREAD.append(secret)


def learn_stored():
    """What servers have made of the passwords that were set; auth_query may find it."""
    if UNREAD:
        UNREAD.clear()
        for server in SERVERS:
            server()


def learn_key(pem):
    for lines in PEM_KEY.findall(pem):
        for line in lines.split():
            learn(line)


def told(data):
    """The secrets in these bytes."""
    return sorted(s for s in SECRETS if s.encode() in data)
