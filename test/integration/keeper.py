"""Records every secret that the test run uses, and searches for them in the output of poolers."""

import re

# Shorter secrets and plain words are not searched for: they occur in many lines by chance.
SHORTEST = 8
WORD = re.compile(r"[A-Za-z_.]*")

SECRETS = set()
# Servers that store secrets, as functions that read them. They are called after new secrets were
# set.
SERVERS = []
UNREAD = []

IN_FILES = (
    re.compile(r"\bpassword\s*=\s*(?:'((?:[^'\n]|'')*)'|([^\s']+))"),
    re.compile(r'\bldapbindpasswd=(?:"((?:[^"\n]|"")*)"|([^\s,"]+))'),
)
IN_SQL = re.compile(r"\bpassword\s+'((?:[^']|'')*)'", re.I)
PEM_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\n(.*?)-----END", re.S)


def learn(secret):
    """Adds a secret. From now on no pooler may reveal it or an equivalent part of it."""
    if not isinstance(secret, str) or len(secret) < SHORTEST or WORD.fullmatch(secret):
        return
    SECRETS.add(secret)
    if secret.startswith("SCRAM-SHA-256$"):
        SECRETS.update(part for part in re.split(r"[$:]", secret)[3:] if len(part) == 44)


def learn_file(text):
    """Adds the secrets in a file of settings or rules."""
    for pattern in IN_FILES:
        for quoted, bare in pattern.findall(text):
            learn(quoted.replace("''", "'").replace('""', '"') or bare)


def learn_sql(sql):
    for secret in IN_SQL.findall(sql) if isinstance(sql, str) else ():
        learn(secret.replace("''", "'"))
        UNREAD.append(secret)


def learn_stored():
    """Adds the secrets that servers derived from the passwords that were set, because auth_query
    may return them."""
    if UNREAD:
        UNREAD.clear()
        for server in SERVERS:
            server()


def learn_key(pem):
    for lines in PEM_KEY.findall(pem):
        for line in lines.split():
            learn(line)


def told(data):
    """Returns the secrets that occur in these bytes."""
    return sorted(s for s in SECRETS if s.encode() in data)
