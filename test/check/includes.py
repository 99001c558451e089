"""Includes go down the floors and name their floor, and only one module includes a library."""
import fnmatch
import re

import tree

# A library's headers, and the only files that may include them, separated by blanks.
OWNERS = (
    (r"event2/(?:http|buffer|bufferevent|bufferevent_ssl|listener|keyvalq_struct)\.h", "src/net/http*"),
    (r"event2?/|event\.h|evutil\.h", "src/net/loop* src/net/poller* src/net/http*"),
    (r"ares", "src/net/dns*"),
    (r"openssl/ssl\.h", "src/net/tls*"),
    (r"liburing", "src/net/ring* include/net/ring*"),
    (r"ncurses|curses", "src/top/display.*"),
    (r"security/pam|ldap\.h", "src/auth/external_auth_*"),
    (r"jansson\.h|curl/", "src/auth/oauth_*"),
    (r"gssapi/|krb5\.h", "src/auth/gssapi.c"),
)

# Unit tests of these floors share test/unit/stage, a site with clients and servers.
STAGED = ("session", "broker", "cancel", "handoff", "login", "relay", "stage")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def allowed_floors(root, path):
    """The floors a file may include from, or None when it is free to."""
    floor = tree.floor_of(path)
    parts = path.split("/")
    if floor is None and parts[:2] == ["test", "unit"] and len(parts) > 3:
        floor = parts[2]
    if floor is not None:
        if parts[0] == "test" and floor in STAGED:
            return [f for f in tree.LEVELS if tree.may_include("login", f) or f == "relay"]
        return [f for f in tree.LEVELS if tree.may_include(floor, f)] if floor in tree.LEVELS else []
    if parts[:2] in (["test", "prop"], ["test", "fuzz"]):
        links = re.match(r"/\* links:([a-z\s*]*)\*/", tree.text(root, path))
        return links.group(1).replace("*", " ").split() if links else None
    return None


def project_problem(root, path, target):
    """What is wrong with #include "target" in path, or None."""
    parts = target.split("/")
    if target == "config.h":
        return None
    if len(parts) == 1:
        if not path.startswith(("src/", "include/")):
            return None
        return "names no floor"
    if parts[0] not in tree.LEVELS:
        return "names a floor that does not exist" if path.startswith(("src/", "include/")) else None
    allowed = allowed_floors(root, path)
    if allowed is not None and parts[0] not in allowed:
        return "goes up, or to a sibling"
    return None


def library_problem(path, target):
    if not path.startswith(("src/", "include/")):
        return None
    for header, owners in OWNERS:
        if re.match(header, target) and not any(fnmatch.fnmatch(path, o) for o in owners.split()):
            return "belongs to %s alone" % owners.replace(" ", " and ")
    return None


def check(options):
    problems = []
    for path in tree.files(options.root):
        if not path.endswith((".c", ".h", ".def")) or path.startswith("test/fuzz/corpus/"):
            continue
        content = tree.text(options.root, path)
        if tree.floor_of(path) not in (None, *tree.LEVELS):
            problems.append("%s: is on no floor" % path)
        for found in INCLUDE.finditer(content):
            target = found.group(2)
            if found.group(1) == '"':
                reason = project_problem(options.root, path, target)
            else:
                reason = library_problem(path, target)
            if reason:
                line = content.count("\n", 0, found.start()) + 1
                problems.append("%s:%d: #include of %s %s" % (path, line, target, reason))
    return problems
