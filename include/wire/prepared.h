/*
 * Prepared statements across server connections: client statement name -> shared text
 * -> server statement name, and the rewriting of Parse, Bind, Describe and Close.
 * Documentation: "Extended Query", "Message Formats" (Parse, Bind, Describe, Close).
 *
 * Four things: the registry of texts (one per process), the names a client gave
 * (prepared_names), the texts a server holds (prepared_set, least recently used first
 * out), and the journal of changes that are undone when their message gets no answer
 * because an earlier one failed.  No sockets; what is sent when is the relay's.
 */
#ifndef WIRE_PREPARED_H
#define WIRE_PREPARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "wire/effects.h"

/* ---- texts: shared, counted by reference ---- */
struct prepared_registry;
struct prepared_shelf; /* texts that were read under the same parameters */

/* Bytes that somebody else keeps for a text; let go with it. */
struct prepared_body {
	void (*let_go)(struct prepared_body *body);
};

struct prepared_text {
	uint64_t id;    /* from 1 */
	size_t key_len; /* query text with its NUL, then the types as in Parse */
	uint32_t refs;  /* names and sets that hold it, in-flight journal records */
	uint32_t clients, servers; /* of them names of clients, sets of servers */
	uint32_t key_hash;         /* the shelf's, of the key; 0 without a shelf */
	uint64_t hits;             /* Bind and Describe that used it */
	uint64_t last_use_us;
	struct sql_effects effects;         /* the owner's: what the text does */
	char name[32];                      /* "PGBOUNCER_<id>" */
	struct prepared_registry *registry; /* borrowed */
	struct prepared_shelf *shelf;       /* borrowed; NULL: it is private */
	/* owned; NULL: the key is everything, else only a beginning without types */
	struct prepared_body *body;
	uint8_t key[];
};

struct prepared_registry *prepared_registry_new(void);
/* The same for texts whose names begin otherwise; prefix is constant and short. */
struct prepared_registry *prepared_registry_new_named(const char *prefix);
void prepared_registry_free(struct prepared_registry **r); /* all texts unreferenced */
size_t prepared_registry_count(const struct prepared_registry *r);
/* All texts in order of id; caller frees the array with free(). */
struct prepared_text **prepared_registry_sorted(
    const struct prepared_registry *r, size_t *count);
/* The text for these bytes (everything of a Parse body behind the name), made if
 * needed; one reference for the caller.  What PostgreSQL makes of a text when it
 * prepares it depends on parameters: `reading` (vars_reading) stands for their values,
 * and the same bytes under another reading are another text.  NULL: no memory. */
struct prepared_text *prepared_intern(
    struct prepared_registry *r, const char *reading, const uint8_t *key, size_t len);
/* The same if there is one already: one reference for the caller, or NULL. */
struct prepared_text *prepared_find(
    struct prepared_registry *r, const char *reading, const uint8_t *key, size_t len);
/* Does the caller have the only reference?  So it is with a text that was just made. */
bool prepared_is_unshared(const struct prepared_text *t);
/* A text that nobody else gets, whatever it says: a new one each time. */
struct prepared_text *prepared_intern_private(
    struct prepared_registry *r, const uint8_t *key, size_t len);
/* The same with bytes that are kept elsewhere, of which `begin` are the first.  The
 * text takes the body over, if there is memory. */
struct prepared_text *prepared_intern_body(struct prepared_registry *r,
    const uint8_t *begin, size_t len, struct prepared_body *body);
/* The text that a server gets for this one when it is prepared under this reading, or
 * with reading NULL under one that is not known; one reference for the caller.  A
 * private text stays what it is.  NULL: no memory. */
struct prepared_text *prepared_variant(struct prepared_text *t, const char *reading);
/* Was it read, or is it private? */
bool prepared_is_read_as(const struct prepared_text *t, const char *reading);
/* Under which it was read; NULL: it is private. */
const char *prepared_reading(const struct prepared_text *t);
/* For texts of another process whose servers become ours.  Ids: those of our own texts
 * come behind this one from now on; the last one given.  The text with this id, made if
 * needed; one reference for the caller.  It is private when there is one already for
 * these bytes.  NULL: no memory, or the id is that of another text. */
void prepared_registry_skip(struct prepared_registry *r, uint64_t id);
uint64_t prepared_registry_last(const struct prepared_registry *r);
struct prepared_text *prepared_restore(struct prepared_registry *r, uint64_t id,
    const char *reading, const uint8_t *key, size_t len);
struct prepared_text *prepared_ref(struct prepared_text *t);
void prepared_unref(struct prepared_text *t); /* NULL is fine */
/* A server-side name that no text ever gets: what is unknown stays unknown. */
#define PREPARED_NONE "PGBOUNCER_0"
/* A Parse for it under its server-side name; not for one with a body. */
void prepared_put_parse(const struct prepared_text *t, struct buf *out);
/* The beginning of a Parse, up to and with the name; body_len bytes follow.  out fails
 * when it would grow too long. */
void prepared_put_parse_begin(
    const struct prepared_text *t, size_t body_len, struct buf *out);
/* A Close of statement `name`. */
void prepared_put_close(const char *name, struct buf *out);
/* Query text (NUL-terminated; of one with a body the beginning) and its parameter
 * types.
 */
const char *prepared_sql(const struct prepared_text *t);
size_t prepared_type_count(const struct prepared_text *t);
uint32_t prepared_type(const struct prepared_text *t, size_t i);

/* ---- names of one client; NULL pointer = none ---- */
struct prepared_names;
/* NULL when the name is not known. */
struct prepared_text *prepared_names_find(
    const struct prepared_names *n, const char *name);
/* Takes a reference of its own.  Replaces.  -1: no memory. */
int prepared_names_put(
    struct prepared_names **n, const char *name, struct prepared_text *text);
/* Mark all names: the statements may be gone without the pooler having seen it. */
void prepared_names_doubt(struct prepared_names *n);
/* Is this name marked?  It is not any more once it is put again. */
bool prepared_names_is_doubtful(const struct prepared_names *n, const char *name);
/* False when it was not there. */
bool prepared_names_del(struct prepared_names **n, const char *name);
void prepared_names_clear(struct prepared_names **n);
size_t prepared_names_count(const struct prepared_names *n);
/* One of a list: the name of a client for it, or NULL; doubtful or spoilt. */
struct prepared_item {
	const char *name;
	struct prepared_text *text;
	bool is_marked;
};
/* All of them, in no order, into as many as prepared_names_count says. */
void prepared_names_list(const struct prepared_names *n, struct prepared_item *items);

/* ---- what one server holds; NULL pointer = nothing ---- */
struct prepared_set;
bool prepared_set_has(const struct prepared_set *s, const struct prepared_text *text);
/* Makes it the most recently used. */
void prepared_set_touch(struct prepared_set *s, struct prepared_text *text);
/* -1: no memory. */
int prepared_set_add(struct prepared_set **s, struct prepared_text *text);
/* Add as the least recently used one: takes back an eviction.  -1: no memory. */
int prepared_set_restore(struct prepared_set **s, struct prepared_text *text);
void prepared_set_del(struct prepared_set **s, struct prepared_text *text);
/* What the server has of it is of no use any more: to be closed before it is parsed
 * again (which makes it as good as new). */
void prepared_set_spoil(struct prepared_set *s, const struct prepared_text *text);
/* The same of all that it has. */
void prepared_set_spoil_all(struct prepared_set *s);
bool prepared_set_is_spoilt(
    const struct prepared_set *s, const struct prepared_text *text);
/* The one of this server-side name, or NULL; walks the whole set. */
struct prepared_text *prepared_set_find(const struct prepared_set *s, const char *name);
/* The least recently used one when there are more than max.  NULL: there are not. */
struct prepared_text *prepared_set_oldest(const struct prepared_set *s, size_t max);
/* The same, taken out; the caller gets the set's
 * reference.  NULL: there are not. */
struct prepared_text *prepared_set_evict(struct prepared_set **s, size_t max);
void prepared_set_clear(struct prepared_set **s);
size_t prepared_set_count(const struct prepared_set *s);
/* All of them, the least recently used first. */
void prepared_set_list(const struct prepared_set *s, struct prepared_item *items);

/* ---- the journal: changes whose message is still in flight ---- */
enum prepared_change {
	PREPARED_NAME_ADDED,     /* undo: the name goes */
	PREPARED_NAME_REMOVED,   /* undo: the name comes back */
	PREPARED_SET_ADDED,      /* undo: the server does not hold it */
	PREPARED_SET_REMOVED,    /* undo: the server still holds it (an eviction) */
	PREPARED_SPOILT_REMOVED, /* the same of one that is of no use */
};

struct prepared_journal; /* NULL pointer = empty */
/* Record a change under a tag (> 0, chosen by the caller, rising).  name is copied
 * (NULL for changes of a set); a reference to text is taken.  -1: no memory. */
int prepared_journal_note(struct prepared_journal **j, uint32_t tag,
    enum prepared_change change, const char *name, struct prepared_text *text);
/* The message of this tag was answered well: its changes stand. */
void prepared_journal_commit(struct prepared_journal **j, uint32_t tag);
/* It failed or gets no answer: to be undone by the next prepared_journal_undo. */
void prepared_journal_fail(struct prepared_journal **j, uint32_t tag);
/* Undo all failed changes, the newest first.  Where a later change of the same name or
 * text has not failed, that one stands.  -1: no memory (something could not be brought
 * back): the client must be closed. */
int prepared_journal_undo(struct prepared_journal **j, struct prepared_names **names,
    struct prepared_set **set);
/* The server has forgotten all statements (DISCARD ALL, DEALLOCATE ALL) at this point
 * of the order: names and set are cleared, but for what messages still in flight added.
 * -1: no memory. */
int prepared_journal_forget(struct prepared_journal *j, struct prepared_names **names,
    struct prepared_set **set);
/* The link ends: name changes that are in flight are forgotten (the client keeps what
 * it has), set changes too. */
void prepared_journal_clear(struct prepared_journal **j);

/* ---- messages ---- */
enum prepared_target {
	PREPARED_PARTIAL, /* the names are not here whole: show it again with more */
	PREPARED_UNNAMED, /* the unnamed statement */
	PREPARED_NAMED,   /* *name is the statement's name */
	PREPARED_PORTAL,  /* Describe or Close of a portal */
	PREPARED_BROKEN,  /* cannot be read */
};
/* What a Parse, Bind, Describe or Close (type P B D C) is about.  bytes: from the type
 * byte on, `have` of `size` are here.  *name points into bytes (PREPARED_NAMED, else
 * "").  *rest (may be NULL) is the offset of what follows the name.  A Parse of a named
 * statement that is here whole is checked to its end: what follows its name can be
 * interned. */
enum prepared_target prepared_look(
    const uint8_t *bytes, size_t have, uint64_t size, const char **name, size_t *rest);
/* The same message with another statement name: its beginning, up to and with the name,
 * is appended to out; *rest is the offset in bytes from which the original goes on. out
 * fails when prepared_look finds no statement in it, or it would grow too long. */
void prepared_rename(const uint8_t *bytes, size_t have, uint64_t size, const char *name,
    struct buf *out, size_t *rest);
/* May a whole Bind of this text be sent again although the types of its parameters or
 * of its result may be others by now?  What the client wrote or will read must be text
 * then, or its type settled: parameters by the Parse, the result by a Describe. */
bool prepared_may_bind_again(const uint8_t *bytes, size_t size,
    const struct prepared_text *text, bool is_described);
/* An ErrorResponse that names `ours` (a server-side name) in its message, with `theirs`
 * in its place (once); other fields unchanged.  Appends the whole message. */
void prepared_put_error_renamed(const uint8_t *body, size_t len, const char *ours,
    const char *theirs, struct buf *out);

#endif
