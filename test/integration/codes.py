"""The SQLSTATEs of what the pooler refuses: those that PostgreSQL gives in the same case."""

import re

# The beginnings of texts. What is not here is a violation of the protocol.
CODES = {
    "no more connections allowed": "53300",  # sorry, too many clients already
    "client connections exceeded": "53300",
    "too many ": "53300",
    "no username supplied": "28000",  # no PostgreSQL user name specified in startup packet
    "username too long": "28000",
    "old V2 protocol not supported": "0A000",  # unsupported frontend protocol
    "unsupported startup parameter": "42704",  # unrecognized configuration parameter
    "unsupported options startup parameter": "42601",  # invalid command-line argument
    "SSL required": "28000",  # no pg_hba.conf entry
    "password authentication failed": "28P01",
    "SASL authentication failed": "28P01",
    "empty password returned by client": "28P01",
    '"trust" authentication failed': "28000",
    "certificate authentication failed": "28000",
    "unix socket login rejected": "28000",
    "LDAP authentication failed": "28000",
    "PAM authentication failed": "28000",
    "OAuth bearer authentication failed": "28000",
    "OAuth bearer token required": "28000",
    "OAuth tokens are accepted only inside TLS": "28000",
    "login rejected": "28000",
    "no authentication method is found": "28000",
    "no such user": "28000",  # role does not exist
    "channel binding is required": "28000",
    "auth_ldap_options is null": "F0000",
    "bouncer config error": "F0000",
    "not allowed": "42501",  # permission denied for database
    "no such database": "3D000",
    "database [^ ]* is disabled": "55000",  # is not currently accepting connections
    "authentication database [^ ]* is disabled": "55000",
    "pooler is shutting down": "57P03",
    "server shutting down": "57P01",
    "pooler was taken over": "57P01",
    "takeover_drain_timeout": "57P01",
    r"client_login_timeout \(server down\)": "57P03",
    "client_login_timeout": "57014",  # canceling authentication due to timeout
    "client_idle_timeout": "57P05",
    "query_wait_timeout": "53300",
    "query_timeout": "57014",
    "query timeout": "57014",
    "idle transaction timeout": "25P03",
    "transaction timeout": "25P04",
    "suspend_timeout": "57P01",
    "invalid server parameter": "22023",
    "transaction blocks not allowed": "0A000",
    "admin forced disconnect": "57P01",
    "PQexec disallowed": "0A000",
    "out of memory": "53200",
    "login failed": "08006",
    "server login failed": "08006",
    "server login has been failing": "57P03",
    "server conn crashed": "08006",
    "database removed": "57P04",
    "database configuration changed": "57P01",
}


def code_of(text):
    """Returns the SQLSTATE of a FATAL with this text of the pooler's own."""
    for beginning, code in CODES.items():
        if re.match(beginning, text):
            return code
    return "08P01"


def fatal(text):
    """Returns the fields of such an error."""
    return [("S", "FATAL"), ("C", code_of(text)), ("M", text)]
