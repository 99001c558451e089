/*
 * The parts of an HBA rule: names, address, and the whole row.  Private to auth/hba.
 */
#ifndef AUTH_HBA_ROWS_H
#define AUTH_HBA_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/hba.h"
#include "auth/rule_file.h"
#include "base/map.h"
#include "base/mem.h"

/* ---- the fields DATABASE and USER (hba_names.c) ---- */

enum hba_column { HBA_DATABASE, HBA_USER };

struct hba_names {
	bool is_all, is_same_user;
	/* the keyword "replication"; in the database column only */
	bool has_replication;
	/* the strings are their own keys, in the arena; NULL: none */
	struct map *names;
	/* the column of users: the same names as a directory may compare them */
	struct map *folded;
	struct pattern *patterns; /* owned: regular expressions */
	size_t pattern_count;
};

/* Reads a list of names.  Begins at the current token of f and stops at the token
 * behind the list. */
int hba_names_parse(struct hba_names *n, enum hba_column column,
    const struct rule_reader *r, struct rule_file *f, struct err *err);
void hba_names_done(struct hba_names *n);
/* Whether the name (the peer's database or user) is in the list. */
enum pattern_result hba_names_match(
    const struct hba_names *n, const char *name, const struct hba_peer *peer);

/* Whether a directory may take the name for one in the list: other letter case, blanks,
 * or characters that Unicode holds for compatible. */
bool hba_names_match_folded(const struct hba_names *n, const char *folded);
/* Returns the name as such a comparison sees it; the caller frees it with mem_free.
 * NULL: no memory. */
char *hba_names_fold(const char *name);

/* ---- the fields ADDRESS and MASK (hba_address.c) ---- */

enum hba_address_kind {
	HBA_ANYWHERE,
	HBA_NETWORK,
	HBA_SAME_HOST,
	HBA_SAME_NET,
	HBA_HOST,   /* matches this host name */
	HBA_DOMAIN, /* matches all host names with this end, which begins with a dot */
};

struct hba_address {
	enum hba_address_kind kind;
	uint16_t family; /* only for HBA_NETWORK */
	uint8_t ip[16], mask[16];
	const char *name; /* only for HBA_HOST and HBA_DOMAIN; in the arena */
};

/* Reads the address from the current token of f up to the method. */
int hba_address_parse(struct hba_address *a, const struct rule_reader *r,
    struct rule_file *f, struct err *err);
/* Clears the bits of a network's address that lie outside its mask. */
void hba_address_apply_mask(struct hba_address *a);
bool hba_address_is_name(const struct hba_address *a);
/* Whether the address matches the peer.  For a host name the peer's name must have been
 * looked up before. */
bool hba_address_has(const struct hba_address *a, const struct hba_peer *peer);

/* ---- rows ---- */

enum hba_tls { HBA_TLS_ANY, HBA_TLS_ONLY, HBA_TLS_NEVER };

struct hba_row {
	struct hba_rule rule;
	bool is_local;
	enum hba_tls tls;
	struct hba_names databases, users;
	struct hba_address address; /* unused in `local` rules */
};

/* Reads the current line of f; ident may be NULL.  hba_row_done must be called even
 * after a failure. */
int hba_row_parse(struct hba_row *row, const struct ident *ident,
    const struct rule_reader *r, struct rule_file *f, struct err *err);
void hba_row_done(struct hba_row *row);

struct hba {
	struct arena *arena;   /* has the rows and their strings */
	struct hba_row **rows; /* in the order of the files */
	size_t count;
};

#endif
