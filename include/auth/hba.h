/*
 * The HBA file: its rules say who may log in from where and by which method.  Besides
 * what PgBouncer reads it reads what PostgreSQL 16 does: include, include_if_exists,
 * include_dir, lines continued with a backslash, host names, samehost, samenet and
 * /regular expressions (POSIX extended; they match anywhere unless anchored).
 * PostgreSQL, "The pg_hba.conf File".
 */
#ifndef AUTH_HBA_H
#define AUTH_HBA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/remark.h"
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
	const char *map;     /* of map=NAME; NULL: none; never with ldap, pam */
	const char *options; /* HBA_LDAP: options that ldap_options_parse has accepted;
				NULL for other methods */
	const char *file;    /* where the rule is written */
	unsigned line;       /* the first, when it is continued */
	const char *text;    /* without comment and LDAP options: may be shown */
};

/* Reads the file and the files it includes.  A line that cannot be read is reported
 * as a fault, and as known text: "could not parse hba config line N".  One such
 * line refuses the whole file, because a `reject` that was left out would let people
 * in.  ident (NULL: there are no maps) is asked only during the call whether maps
 * exist.  NULL and err when the file is refused, or when it cannot be opened, without a
 * remark: "could not open hba config file F: strerror". */
struct hba *hba_load(const char *path, const struct ident *ident, remark_fn *remark,
    void *ctx, struct err *err);
/* The same with the text of the file; path says where relative files are. */
struct hba *hba_parse(const char *path, const char *text, size_t len,
    const struct ident *ident, remark_fn *remark, void *ctx, struct err *err);
void hba_free(struct hba **hba);
size_t hba_count(const struct hba *hba); /* how many rules there are */
/* The i-th rule; NULL past the end. */
const struct hba_rule *hba_rule_at(const struct hba *hba, size_t i);
/* The first rule with this method; NULL when there is none. */
const struct hba_rule *hba_find_method(const struct hba *hba, enum hba_method method);

enum hba_replication {
	HBA_REPLICATION_NONE,
	HBA_REPLICATION_LOGICAL,  /* replication=database */
	HBA_REPLICATION_PHYSICAL, /* replication=true and its spellings */
};

enum hba_name {
	HBA_NAME_UNKNOWN, /* the name was not looked up yet */
	HBA_NAME_KNOWN,   /* the name was verified: it resolves to the peer's address */
	HBA_NAME_NONE,    /* the peer has no name, or it could not be verified */
};

/* The client that wants to log in.  Texts are borrowed for the call. */
struct hba_peer {
	bool is_unix;          /* it uses a unix socket and has no address or name */
	bool is_tls;           /* its connection is encrypted now */
	uint16_t family;       /* AF_INET or AF_INET6 */
	uint8_t ip[16];        /* network order; v4 in the first four */
	enum hba_name name;    /* state of host_name */
	const char *host_name; /* HBA_NAME_KNOWN only */
	enum hba_replication replication;
	const char *database, *user; /* as requested, whether they exist or not */
};

enum hba_result {
	HBA_MATCH,      /* *rule is the first that matches; it may be a `reject` */
	HBA_NO_MATCH,   /* no rule matches: the login is refused */
	HBA_NEEDS_NAME, /* *rule has a host name: look up peer->name and ask again */
};

/* The answer to HBA_NAME_KNOWN and HBA_NAME_NONE is never HBA_NEEDS_NAME. */
enum hba_result hba_match(
    const struct hba *hba, const struct hba_peer *peer, const struct hba_rule **rule);

#endif
