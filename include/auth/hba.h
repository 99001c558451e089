/*
 * Who may log in from where and by which method: the HBA file, read and asked.  Beyond
 * the reference's file it reads what PostgreSQL 16 does: include, include_if_exists,
 * include_dir, lines continued with a backslash, host names, samehost, samenet and
 * /regular expressions (POSIX extended, found anywhere unless anchored).
 * PostgreSQL, "The pg_hba.conf File".
 */
#ifndef AUTH_HBA_H
#define AUTH_HBA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct hba; /* one immutable snapshot of the rules */
struct ident;

enum hba_method {
	HBA_TRUST,
	HBA_REJECT,
	HBA_MD5,
	HBA_PLAIN, /* "password" */
	HBA_PEER,
	HBA_CERT,
	HBA_SCRAM,
	HBA_LDAP,
	HBA_PAM,
};
/* As the file writes it: "scram-sha-256". */
const char *hba_method_name(enum hba_method method);

/* One rule; lives as long as its hba. */
struct hba_rule {
	enum hba_method method;
	const char *map; /* of map=NAME; NULL: none; never with ldap, pam */
	const char
	    *options;     /* HBA_LDAP: the rest of the line as it stands; else NULL */
	const char *file; /* where the rule is written */
	unsigned line;    /* the first, when it is continued */
	const char *text; /* without comment and LDAP options: may be shown */
};

/* What is said about the files, in the order of their lines: where is "FILE:LINE", both
 * are borrowed for the call.  A line that is skipped gives up to two texts: what is
 * wrong, and "could not parse hba config line N" (for ident: "... ident config line
 * N").  All are warnings. */
typedef void hba_note_fn(void *ctx, const char *where, const char *text);

/* Lines with faults are noted and skipped, the others stay active.  ident (NULL: there
 * are no maps) is asked only during the call whether maps exist.  NULL and err when the
 * file itself cannot be read: "could not open hba config file F: strerror". */
struct hba *hba_load(const char *path, const struct ident *ident, hba_note_fn *note,
    void *ctx, struct err *err);
/* The same over text that was read already; path says where relative files are. */
struct hba *hba_parse(const char *path, const char *text, size_t len,
    const struct ident *ident, hba_note_fn *note, void *ctx);
void hba_free(struct hba **hba);
size_t hba_count(const struct hba *hba); /* rules that are active */

enum hba_replication {
	HBA_REPLICATION_NONE,
	HBA_REPLICATION_LOGICAL,  /* replication=database */
	HBA_REPLICATION_PHYSICAL, /* replication=true and its spellings */
};

enum hba_name {
	HBA_NAME_UNKNOWN, /* nobody looked it up yet */
	HBA_NAME_KNOWN,   /* verified: it resolves to the peer's address */
	HBA_NAME_NONE,    /* it has none, or it could not be verified */
};

/* Who asks to be let in.  Texts are borrowed for the call. */
struct hba_peer {
	bool is_unix;          /* by a unix socket: address and name do not count */
	bool is_tls;           /* by TLS now */
	uint16_t family;       /* AF_INET or AF_INET6 */
	uint8_t ip[16];        /* network order; v4 in the first four */
	enum hba_name name;    /* state of host_name */
	const char *host_name; /* HBA_NAME_KNOWN only */
	enum hba_replication replication;
	const char *database, *user; /* as requested, whether they exist or not */
};

enum hba_result {
	HBA_MATCH,      /* *rule is the first that fits; HBA_REJECT may be its method */
	HBA_NO_MATCH,   /* nobody is let in without a rule */
	HBA_NEEDS_NAME, /* *rule wants a host name: find out peer->name, ask again */
};

/* The answer to HBA_NAME_KNOWN and HBA_NAME_NONE is never HBA_NEEDS_NAME. */
enum hba_result hba_match(
    const struct hba *hba, const struct hba_peer *peer, const struct hba_rule **rule);

#endif
