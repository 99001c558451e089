/*
 * Prepared statements across server connections: a client's statement name leads to a
 * shared text, and that to the statement's name on servers; Parse, Bind, Describe and
 * Close are rewritten accordingly.  PostgreSQL documentation: "Extended Query",
 * "Message Formats" (Parse, Bind, Describe, Close).
 *
 * There are four parts: the registry of texts (one per thread; the bytes of all
 * threads' texts are in wire/prepared_store), the names that a client gave
 * (prepared_names), the texts that a server connection holds (prepared_set, from which
 * the least recently used one is evicted), and the journal, which undoes changes when
 * their message gets no answer because an earlier one failed.  There are no sockets
 * here; the relay decides what is sent when.
 */
#ifndef WIRE_PREPARED_H
#define WIRE_PREPARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "wire/effects.h"
#include "wire/prepared_store.h"

/* ---- texts: shared, counted by reference ---- */
struct prepared_registry;

/* Bytes of a text that another object keeps; they are released with the text. */
struct prepared_body {
	void (*let_go)(struct prepared_body *body);
};

struct prepared_text {
	const struct stored_text *stored; /* the registry has taken it: id and bytes */
	const char *name;                 /* borrowed from there */
	uint32_t refs; /* references of names, sets, records in journals and callers */
	/* how many of them are names of clients, and sets of servers */
	uint32_t clients, servers;
	uint32_t hash; /* hash of the key in its context; 0 without a context */
	/* number of Bind and Describe messages that used it */
	uint64_t hits;
	/* set by the owner: Parses of the unnamed statement that it stood for, and
	 * those of them that no server got */
	uint64_t unnamed_parses, saved_parses;
	uint64_t last_use_us;
	bool is_lasting; /* set by the owner, see text_counts.h; false: not known */
	/* a server has parsed it and sent nothing but ParseComplete; has sent a notice,
	 * too */
	bool is_silent, is_told;
	struct sql_effects effects;         /* set by the owner: what the text does */
	struct prepared_registry *registry; /* borrowed */
	struct parse_context
	    *context; /* borrowed, the registry's; NULL: the text is private */
	/* owned; NULL: the key is complete.  Otherwise the key is only the beginning of
	 * the text, without types */
	struct prepared_body *body;
};

/* Does the text belong to this registry, or one of the same store? */
bool prepared_is_of(const struct prepared_text *t, const struct prepared_registry *r);

/* What the names of statements begin with: those of named Parses, and those of PREPARE.
 */
#define PREPARED_PREFIX     "PGBOUNCER_"
#define PREPARED_SQL_PREFIX "PGBOUNCER_SQL_"

/* Takes over the caller's reference to the store. */
struct prepared_registry *prepared_registry_new(struct prepared_store *store);
/* frees the registry; nobody may hold a text of it */
void prepared_registry_free(struct prepared_registry **r);
size_t prepared_registry_count(const struct prepared_registry *r);
/* Returns all texts in order of id; the caller frees the array with free(). */
struct prepared_text **prepared_registry_sorted(
    const struct prepared_registry *r, size_t *count);
/* See prepared_store_generation. */
atomic_uint *prepared_registry_generation(
    const struct prepared_registry *r, const char *database);
/* Returns the text for these bytes (everything behind the name in a Parse) with one
 * reference for the caller, and makes it if it does not exist.  How PostgreSQL
 * understands a text depends on the parameters at the time of Parse; `reading` (see
 * vars_reading) stands for their values, and the same bytes with another reading are
 * another text.  It may have a generation (prepared_put_reading), so that clients that
 * have prepared it before a change of the schema keep a statement of their own, with
 * the types that they were told.  NULL: no memory. */
struct prepared_text *prepared_intern(
    struct prepared_registry *r, const char *reading, const uint8_t *key, size_t len);
/* Returns the text if it exists, with one reference for the caller, or NULL. */
struct prepared_text *prepared_find(
    struct prepared_registry *r, const char *reading, const uint8_t *key, size_t len);
/* Appends the reading with a generation, with a NUL. */
void prepared_put_reading(const char *reading, uint32_t generation, struct buf *out);
/* The generation of the text's reading. */
uint32_t prepared_generation(const struct prepared_text *t);
/* Whether the caller has the only reference, as with a text that was just made. */
bool prepared_is_unshared(const struct prepared_text *t);
/* Makes a private text: it is never shared, even with equal bytes. */
struct prepared_text *prepared_intern_private(
    struct prepared_registry *r, const uint8_t *key, size_t len);
/* Makes a private text whose bytes another object keeps; `begin` are the first of
 * them.  The text takes the body over unless there is no memory. */
struct prepared_text *prepared_intern_body(struct prepared_registry *r,
    const uint8_t *begin, size_t len, struct prepared_body *body);
/* Returns the text that stands for the same bytes under another reading (NULL: a
 * reading that is not known) in the same generation, with one reference for the caller.
 * A private text is returned as it is.  NULL: no memory. */
struct prepared_text *prepared_variant(struct prepared_text *t, const char *reading);
/* Whether the text belongs to this reading, in any generation, or is private. */
bool prepared_is_read_as(const struct prepared_text *t, const char *reading);
/* The reading that the text belongs to, with its generation; NULL: it is private. */
const char *prepared_reading(const struct prepared_text *t);
/* These three are for texts that come with a server or client from another thread, or
 * from another process that is taken over.  prepared_registry_skip: ids of new texts
 * will be greater than this one, in all registries of the same store.
 * prepared_registry_last: the id given last.  prepared_restore: returns the text with
 * this id, made if needed, with one reference for the caller; it is private when these
 * bytes have a text with another id.  NULL: no memory, or the id belongs to another
 * text. */
void prepared_registry_skip(struct prepared_registry *r, uint64_t id);
uint64_t prepared_registry_last(const struct prepared_registry *r);
struct prepared_text *prepared_restore(struct prepared_registry *r, uint64_t id,
    const char *reading, const uint8_t *key, size_t len);
/* For a text that goes to the registry of another thread: makes a copy, without a body,
 * that belongs to no registry and keeps the bytes in the store.  prepared_unpack makes
 * a text of r of it, with one reference for the caller, and frees it; NULL: no memory.
 * prepared_drop_packed only frees it. */
struct prepared_text *prepared_pack(const struct prepared_text *t);
struct prepared_text *prepared_unpack(
    struct prepared_registry *r, struct prepared_text *packed);
void prepared_drop_packed(struct prepared_text *packed);
struct prepared_text *prepared_ref(struct prepared_text *t);
void prepared_unref(struct prepared_text *t); /* t may be NULL */
/* A statement name that no text ever gets.  It is sent when the client's name is
 * unknown, so that the server reports an unknown statement. */
#define PREPARED_NONE PREPARED_PREFIX "0"
/* Appends a Parse of the text under its server-side name.  The text must not have a
 * body. */
void prepared_put_parse(const struct prepared_text *t, struct buf *out);
/* Appends the beginning of a Parse up to and with the name; the caller sends the other
 * body_len bytes.  out fails when the message would be too long. */
void prepared_put_parse_begin(
    const struct prepared_text *t, size_t body_len, struct buf *out);
/* Appends a Close of the statement with this name. */
void prepared_put_close(const char *name, struct buf *out);
/* The query text (NUL-terminated; only its beginning when there is a body), and its
 * parameter types. */
const char *prepared_sql(const struct prepared_text *t);
size_t prepared_type_count(const struct prepared_text *t);
uint32_t prepared_type(const struct prepared_text *t, size_t i);

/* ---- names of one client; NULL pointer = none ---- */
struct prepared_names;
/* PostgreSQL tells names of statements apart by so many bytes (NAMEDATALEN - 1). */
enum { PREPARED_NAME_MOST = 63 };
/* NULL: the client has no such name. */
struct prepared_text *prepared_names_find(struct prepared_names *n, const char *name);
/* As prepared_names_find; *generation gets the one (see prepared_store_generation) in
 * which the client has prepared it; 0: unknown. */
struct prepared_text *prepared_names_look(
    struct prepared_names *n, const char *name, uint32_t *generation);
/* Puts a name, or replaces what it stands for; takes a reference of its own.  -1: no
 * memory. */
int prepared_names_put(struct prepared_names **n, const char *name,
    struct prepared_text *text, uint32_t generation);
/* Marks all names as doubtful: the server may have forgotten the statements in a way
 * that the pooler cannot see. */
void prepared_names_doubt(struct prepared_names *n);
/* Whether this name is doubtful.  Putting it again ends that. */
bool prepared_names_is_doubtful(struct prepared_names *n, const char *name);
/* Removes a name; false when it did not exist. */
bool prepared_names_del(struct prepared_names **n, const char *name);
void prepared_names_clear(struct prepared_names **n);
size_t prepared_names_count(const struct prepared_names *n);
/* One item of a list.  name: a client's name, NULL in a list of a set.  The flag says
 * that a name is doubtful or a server's statement is spoilt. */
struct prepared_item {
	const char *name;
	struct prepared_text *text;
	bool is_marked;
	uint32_t generation;
};
/* Fills items, which has room for prepared_names_count of them, in no special order. */
void prepared_names_list(const struct prepared_names *n, struct prepared_item *items);

/* Whether some text is so long that it has a body. */
bool prepared_names_has_long(const struct prepared_names *n);

/* Names of a client that goes to another thread, as with prepared_set_pack; none may be
 * of a text with a body.  prepared_names_unpack, -1: no memory; the names may only be
 * cleared. */
void prepared_names_pack(struct prepared_names **n);
int prepared_names_unpack(struct prepared_names **n, struct prepared_registry *registry,
    struct prepared_registry *sql_registry);
void prepared_names_drop_packed(struct prepared_names **n);

/* ---- what one server holds; NULL pointer = nothing ---- */
struct prepared_set;
bool prepared_set_has(const struct prepared_set *s, const struct prepared_text *text);
/* Makes the text the most recently used one. */
void prepared_set_touch(struct prepared_set *s, struct prepared_text *text);
/* Whether the server has the text, which is not spoilt and was prepared there in this
 * generation or later. */
bool prepared_set_is_good(const struct prepared_set *s,
    const struct prepared_text *text, uint32_t generation);
/* Sets the generation in which a text of the set was prepared. */
void prepared_set_date(
    struct prepared_set *s, const struct prepared_text *text, uint32_t generation);
/* Adds a text as the most recently used one.  Its generation is 0.  -1: no memory. */
int prepared_set_add(struct prepared_set **s, struct prepared_text *text);
/* Adds a text as the least recently used one, which undoes an eviction.  -1: no
 * memory. */
int prepared_set_restore(struct prepared_set **s, struct prepared_text *text);
void prepared_set_del(struct prepared_set **s, struct prepared_text *text);
/* Marks the text as spoilt: what the server has under this name is out of date.  It
 * must be closed there before it is parsed again, which makes it good again. */
void prepared_set_spoil(struct prepared_set *s, const struct prepared_text *text);
/* Marks all texts of the set as spoilt. */
void prepared_set_spoil_all(struct prepared_set *s);
bool prepared_set_is_spoilt(
    const struct prepared_set *s, const struct prepared_text *text);
/* Finds a text by its server-side name, or returns NULL.  Walks the whole set. */
struct prepared_text *prepared_set_find(const struct prepared_set *s, const char *name);
/* Returns the least recently used text if the set has more than max, else NULL. */
struct prepared_text *prepared_set_oldest(const struct prepared_set *s, size_t max);
/* Takes the least recently used text out if the set has more than max, and hands its
 * reference to the caller; else NULL. */
struct prepared_text *prepared_set_evict(struct prepared_set **s, size_t max);
void prepared_set_clear(struct prepared_set **s);
size_t prepared_set_count(const struct prepared_set *s);
/* Fills items with all texts, the least recently used first. */
void prepared_set_list(const struct prepared_set *s, struct prepared_item *items);

/* Texts of a set that goes to another thread: each is packed.  Nothing else may be done
 * with the set, until prepared_set_unpack finds each text in the registry that it
 * belongs to, or prepared_set_drop_packed frees it.  A text with a body has it only in
 * the registry where it was made; elsewhere the set has to know its name, to close it.
 * -1: no memory; some are missing. */
void prepared_set_pack(struct prepared_set **s);
int prepared_set_unpack(struct prepared_set **s, struct prepared_registry *registry,
    struct prepared_registry *sql_registry);
void prepared_set_drop_packed(struct prepared_set **s);

/* ---- the journal: changes whose message is still in flight ---- */
enum prepared_change {
	PREPARED_NAME_ADDED,   /* to undo it, the name is removed */
	PREPARED_NAME_REMOVED, /* to undo it, the name is put back */
	PREPARED_SET_ADDED,    /* to undo it, the text is taken out of the set */
	/* (an eviction) to undo it, the text is put back into the set */
	PREPARED_SET_REMOVED,
	/* to undo it, the text is put back and marked as spoilt */
	PREPARED_SPOILT_REMOVED,
};

struct prepared_journal; /* a NULL pointer is an empty journal */
/* Records a change that belongs to the message with this tag.  The caller chooses tags,
 * which are greater than 0 and rise.  name is copied (NULL for changes of a set); the
 * journal takes a reference to text.  -1: no memory. */
int prepared_journal_note(struct prepared_journal **j, uint32_t tag,
    enum prepared_change change, const char *name, struct prepared_text *text);
/* Sets the generation that the name of the last record gets when it is put back. */
void prepared_journal_date(struct prepared_journal *j, uint32_t generation);
/* That no notice comes before the answer to the message of the last record says
 * nothing. */
void prepared_journal_mute(struct prepared_journal *j);
/* A notice comes before the answer to this message: see is_told. */
void prepared_journal_tell(const struct prepared_journal *j, uint32_t tag);
/* The message with this tag succeeded, so its changes are final. */
void prepared_journal_commit(struct prepared_journal **j, uint32_t tag);
/* The message with this tag failed or gets no answer; the next prepared_journal_undo
 * undoes its changes. */
void prepared_journal_fail(struct prepared_journal **j, uint32_t tag);
/* Undoes all failed changes, the newest first, except where a later change of the same
 * name or text has not failed.  -1: no memory, something could not be restored; the
 * client must be closed. */
int prepared_journal_undo(struct prepared_journal **j, struct prepared_names **names,
    struct prepared_set **set);
/* The server has forgotten all statements at this point (DISCARD ALL, DEALLOCATE ALL).
 * Removes all names and texts except those added by messages that are still in flight.
 * -1: no memory. */
int prepared_journal_forget(struct prepared_journal *j, struct prepared_names **names,
    struct prepared_set **set);
/* The link between client and server ends: forgets all records without undoing
 * anything, so that the client keeps its names as they are. */
void prepared_journal_clear(struct prepared_journal **j);

/* ---- messages ---- */
enum prepared_target {
	PREPARED_PARTIAL, /* the name is incomplete: call again with more bytes */
	PREPARED_UNNAMED, /* it is about the unnamed statement */
	PREPARED_NAMED,   /* it is about the statement *name */
	PREPARED_PORTAL,  /* it is a Describe or Close of a portal */
	PREPARED_BROKEN,  /* the message is malformed */
};
/* Finds the statement that a Parse, Bind, Describe or Close (type P B D C) is about.
 * bytes begins with the type byte; `have` of `size` bytes are there.  *name points into
 * bytes, and is "" unless the result is PREPARED_NAMED.  *rest (may be NULL) is the
 * offset of what follows the name.  A complete Parse of a named statement is checked to
 * its end, so that what follows the name can be interned. */
enum prepared_target prepared_look(
    const uint8_t *bytes, size_t have, uint64_t size, const char **name, size_t *rest);
/* Rewrites the message with another statement name: appends its beginning, up to and
 * with the name, to out.  *rest is the offset from which the original message goes on.
 * out fails when the message is malformed or would be too long. */
void prepared_rename(const uint8_t *bytes, size_t have, uint64_t size, const char *name,
    struct buf *out, size_t *rest);
/* Whether a complete Bind of this text may be sent again, although by then the types of
 * its parameters or columns may be different.  It may if those values are text, or if
 * their types are fixed: of parameters by the Parse, of columns by a Describe. */
bool prepared_may_bind_again(const uint8_t *bytes, size_t size,
    const struct prepared_text *text, bool is_described);
/* Appends an ErrorResponse in whose message `ours` (a server-side name) is replaced
 * once by `theirs` (the client's name).  Other fields are not changed. */
void prepared_put_error_renamed(const uint8_t *body, size_t len, const char *ours,
    const char *theirs, struct buf *out);

#endif
