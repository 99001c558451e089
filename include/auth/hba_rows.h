/*
 * The parts of an HBA rule: names, addresses, the row.  Private to auth/hba.
 */
#ifndef AUTH_HBA_ROWS_H
#define AUTH_HBA_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/hba.h"
#include "auth/pattern.h"
#include "auth/rule_file.h"
#include "base/map.h"
#include "base/mem.h"

/* ---- the fields DATABASE and USER (hba_names.c) ---- */

enum hba_column { HBA_DATABASE, HBA_USER };

struct hba_names {
	bool is_all, is_same_user;
	bool has_replication;     /* the keyword, in the database field only */
	struct map *names;        /* arena strings by themselves; NULL: none */
	struct pattern *patterns; /* owned: regular expressions */
	size_t pattern_count;
};

/* Reads a list, from the current token of f up to the token behind the list. */
int hba_names_parse(struct hba_names *n, enum hba_column column,
    const struct rule_reader *r, struct rule_file *f, struct err *err);
void hba_names_done(struct hba_names *n);
/* Is the name, which is the peer's database or user, in the list? */
enum pattern_result hba_names_match(
    const struct hba_names *n, const char *name, const struct hba_peer *peer);

/* ---- the fields ADDRESS and MASK (hba_address.c) ---- */

enum hba_address_kind {
	HBA_ANYWHERE,
	HBA_NETWORK,
	HBA_SAME_HOST,
	HBA_SAME_NET,
	HBA_HOST,   /* matches the host name */
	HBA_DOMAIN, /* matches host names that end in this text, which begins with a dot
		     */
};

struct hba_address {
	enum hba_address_kind kind;
	uint16_t family; /* HBA_NETWORK */
	uint8_t ip[16], mask[16];
	const char *name; /* HBA_HOST, HBA_DOMAIN; in the arena */
};

/* Reads from the current token of f up to the method. */
int hba_address_parse(struct hba_address *a, const struct rule_reader *r,
    struct rule_file *f, struct err *err);
/* Drops the bits of a network's address that lie outside its mask. */
void hba_address_apply_mask(struct hba_address *a);
bool hba_address_is_name(const struct hba_address *a);
/* Does the address match the peer?  For a host name the caller has looked up the peer's
 * name before. */
bool hba_address_has(const struct hba_address *a, const struct hba_peer *peer);

/* ---- rows ---- */

enum hba_tls { HBA_TLS_ANY, HBA_TLS_ONLY, HBA_TLS_NEVER };

struct hba_row {
	struct hba_rule rule;
	bool is_local;
	enum hba_tls tls;
	struct hba_names databases, users;
	struct hba_address address; /* not for local ones */
};

/* Reads the current line of f; ident may be NULL.  The row needs hba_row_done even
 * after a failure. */
int hba_row_parse(struct hba_row *row, const struct ident *ident,
    const struct rule_reader *r, struct rule_file *f, struct err *err);
void hba_row_done(struct hba_row *row);

struct hba {
	struct arena *arena;   /* rows and their texts */
	struct hba_row **rows; /* in the order of the file */
	size_t count;
};

#endif
