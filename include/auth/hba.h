/*
 * The HBA file: rules that say who may log in from where and by which method.  It
 * supports what PgBouncer supports, and also what PostgreSQL 16 does: include,
 * include_if_exists, include_dir, lines continued with a backslash, host names,
 * samehost, samenet and /regular expressions (POSIX extended; they match anywhere
 * unless anchored).  PostgreSQL documentation: "The pg_hba.conf File".
 */
#ifndef AUTH_HBA_H
#define AUTH_HBA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diagnostic.h"
#include "base/err.h"

struct hba; /* an immutable snapshot of the rules */
struct ident;

enum hba_method {
	HBA_TRUST,
	HBA_REJECT,
	HBA_MD5,
	HBA_PLAIN, /* "password" in the file */
	HBA_PEER,
	HBA_CERT,
	HBA_SCRAM,
	HBA_LDAP,
	HBA_PAM,
	HBA_OAUTH,
	HBA_GSS,
};
/* Returns the method as files spell it, such as "scram-sha-256". */
const char *hba_method_name(enum hba_method method);

/* One rule; it lives as long as its struct hba. */
struct hba_rule {
	enum hba_method method;
	/* the map named by map=NAME; NULL: none (always so with ldap and pam) */
	const char *map;
	/* HBA_GSS: the realm of the principal has no part in its name
	 * (include_realm=0); the only realm that is let in (krb_realm), or NULL */
	bool is_realm_left_out;
	const char *realm;
	/* HBA_LDAP: options that ldap_options_parse has accepted; otherwise NULL */
	const char *options;
	/* HBA_OAUTH, otherwise NULL: who issues the tokens, and for what; is_delegated:
	 * whoever judges the token decides also which user it is for */
	const char *issuer, *scope;
	bool is_delegated;
	const char *file; /* the file that has the rule */
	unsigned line;    /* its line; of several continued lines the first */
	/* the rule without comment and LDAP options, so that it has no secret */
	const char *text;
};

/* Reads the file and the files it includes.  A line that cannot be read is reported as
 * a fault, and once more with the text that log watchers know ("could not parse hba
 * config line N").  One such line refuses the whole file, because a missing `reject`
 * would let people in.  ident (NULL: there are no maps) is used during the call only,
 * to check that maps exist.  Returns NULL and fills err when the file is refused, or
 * cannot be opened; in the latter case there is no report, and err is "could not open
 * hba config file F: strerror". */
struct hba *hba_load(const char *path, const struct ident *ident, diagnostic_fn *report,
    void *ctx, struct err *err);
/* Like hba_load, with the text of the file; path says where relative files are. */
struct hba *hba_parse(const char *path, const char *text, size_t len,
    const struct ident *ident, diagnostic_fn *report, void *ctx, struct err *err);
void hba_free(struct hba **hba);
size_t hba_count(const struct hba *hba); /* number of rules */
/* Returns a rule by its index; NULL behind the last one. */
const struct hba_rule *hba_rule_at(const struct hba *hba, size_t i);
/* Returns the first rule with this method, or NULL. */
const struct hba_rule *hba_find_method(const struct hba *hba, enum hba_method method);

enum hba_replication {
	HBA_REPLICATION_NONE,
	HBA_REPLICATION_LOGICAL,  /* replication=database */
	HBA_REPLICATION_PHYSICAL, /* replication=true and the other spellings of true */
};

enum hba_name {
	HBA_NAME_UNKNOWN, /* nobody has looked the name up yet */
	HBA_NAME_KNOWN,   /* the name is verified: it resolves to the peer's address */
	HBA_NAME_NONE,    /* the peer has no name, or it could not be verified */
};

/* The client that wants to log in.  Strings are borrowed for the call. */
struct hba_peer {
	/* connected by a Unix socket, so it has no address and no name */
	bool is_unix;
	bool is_tls;           /* its connection is encrypted now */
	uint16_t family;       /* AF_INET or AF_INET6 */
	uint8_t ip[16];        /* network order; IPv4 in the first four bytes */
	enum hba_name name;    /* what is known of host_name */
	const char *host_name; /* only with HBA_NAME_KNOWN */
	enum hba_replication replication;
	const char *database, *user; /* as the client requested; they need not exist */
};

enum hba_result {
	HBA_MATCH,    /* *rule is the first rule that matches; it may be a `reject` */
	HBA_NO_MATCH, /* no rule matches: the login is refused */
	/* *rule has a host name: look the peer's name up and ask again */
	HBA_NEEDS_NAME,
	/* A rule with ldap, pam, gss or a delegated decision matches, but *rule, an
	 * earlier one, names the user in another spelling that a directory may not tell
	 * apart from the peer's: the login is refused, because `reject` for alice must
	 * hold for ALICE. */
	HBA_OTHER_SPELLING,
};

/* Finds the first rule that matches the peer.  HBA_NEEDS_NAME is only returned when the
 * name is HBA_NAME_UNKNOWN. */
enum hba_result hba_match(
    const struct hba *hba, const struct hba_peer *peer, const struct hba_rule **rule);

#endif
