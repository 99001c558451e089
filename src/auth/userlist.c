/*
 * Reads the user list file.  A malformed entry ends the reading, because nobody can
 * tell where the next entry begins.
 */
#include "auth/userlist.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "auth/secret.h"
#include "base/buf.h"
#include "base/cpu_time.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

struct user_entry {
	struct secret secret; /* SECRET_NONE if is_former */
	bool is_former;
	char name[];
};

struct userlist {
	struct map *entries; /* struct user_entry by name */
	size_t former_count;
	size_t
	    kind_counts[SECRET_MALFORMED + 1]; /* of users that are not former ones */
	struct rounds rounds;                  /* of their SCRAM secrets */
	atomic_uint refs;
};

struct reader {
	const char *path;
	const char *at, *end;
	unsigned line; /* line of `at` */
	diagnostic_fn *report;
	void *report_ctx;
	struct throttle *throttle; /* borrowed, may be NULL */
};

/* The raw text between quotes; quotes inside are doubled. */
struct quoted {
	const char *start;
	size_t len;
};

static void entry_free(struct user_entry *e)
{
	secret_done(&e->secret);
	mem_free(e);
}

/* Skips blanks and comment lines in front of an entry. */
static void skip_to_entry(struct reader *r)
{
	for (; r->at < r->end; r->at++) {
		if (*r->at == ';') {
			const char *eol = memchr(r->at, '\n', (size_t)(r->end - r->at));
			r->at = eol ? eol : r->end - 1;
		} else if (!strchr(" \t\r\n\v\f", *r->at)) {
			return;
		}
		if (*r->at == '\n')
			r->line++;
	}
}

/* Begins at the opening quote.  -1: the closing quote is missing. */
static int read_quoted(struct reader *r, struct quoted *q)
{
	unsigned line = r->line;

	q->start = r->at + 1;
	for (const char *p = q->start; p < r->end; p++) {
		if (*p == '\n')
			line++;
		if (*p != '"')
			continue;
		if (p + 1 < r->end && p[1] == '"') {
			p++;
			continue;
		}
		q->len = (size_t)(p - q->start);
		r->at = p + 1;
		r->line = line;
		return 0;
	}
	return -1;
}

/* Removes the doubling of quotes; out has room for q->len + 1. */
static void unquote(const struct quoted *q, char *out)
{
	for (size_t i = 0; i < q->len; i++) {
		*out++ = q->start[i];
		if (q->start[i] == '"')
			i++;
	}
	*out = '\0';
}

/* ---- reports ---- */

static void say(const struct reader *r, enum diagnostic kind, const char *text)
{
	struct buf where;

	if (!r->report)
		return;
	buf_init(&where, 0);
	buf_printf(&where, "%s:%u", r->path, r->line);
	r->report(r->report_ctx, kind, buf_text(&where), text);
	buf_done(&where);
}

/* Reports a fault; known is the text that log watchers know.  Returns -1. */
static int __attribute__((format(printf, 3, 4)))
fault(const struct reader *r, const char *known, const char *fmt, ...)
{
	char what[256];
	struct err text;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	err_set(&text, "%s: %s", known, what);
	say(r, DIAGNOSTIC_ERROR, text.text);
	return -1;
}

static int broken_at(const struct reader *r, const char *what)
{
	return fault(r, "broken auth file", "%s", what);
}

static void warn_of_secret(const struct reader *r, const char *name)
{
	struct err text;

	err_set(&text,
	    "the secret of user \"%.127s\" begins like an md5 or SCRAM-SHA-256 secret, "
	    "but it is malformed: no password matches it; copy it again from pg_authid",
	    name);
	say(r, DIAGNOSTIC_WARNING, text.text);
}

/* ---- reading ---- */

static int read_fields(struct reader *r, struct quoted *name, struct quoted *secret)
{
	unsigned line = r->line;

	if (*r->at != '"')
		return broken_at(r,
		    "a line begins with the user name in double quotes; write \"user\" "
		    "\"secret\"");
	if (read_quoted(r, name) < 0)
		return broken_at(r, "closing quote after user name is missing");
	if (name->len > USERLIST_NAME_MAX)
		return fault(r, "username too long in auth file",
		    "%zu bytes, shorten it to %d", name->len, USERLIST_NAME_MAX);
	/* skips everything between name and secret, line ends included */
	for (; r->at < r->end && *r->at != '"'; r->at++)
		if (*r->at == '\n')
			r->line++;
	if (r->at == r->end) {
		r->line = line;
		return broken_at(
		    r, "no secret follows the user name; write \"\" for none");
	}
	if (read_quoted(r, secret) < 0)
		return broken_at(r, "closing quote after secret is missing");
	if (secret->len > USERLIST_SECRET_MAX)
		return fault(r, "password too long in auth file",
		    "%zu bytes, shorten it to %d", secret->len, USERLIST_SECRET_MAX);
	return 0;
}

static void count_entry(struct userlist *u, const struct user_entry *e, int change)
{
	u->kind_counts[e->secret.kind] += (size_t)change;
	if (e->secret.kind == SECRET_SCRAM)
		rounds_count(&u->rounds, e->secret.scram.iterations, change);
}

/* Adds an entry; of several with the same name the last one counts. */
static void add_entry(struct userlist *u, const struct reader *r,
    const struct quoted *name, const struct quoted *secret)
{
	struct user_entry *e = mem_zero(sizeof(*e) + name->len + 1), *old;
	char *text = mem_alloc(secret->len + 1);

	unquote(name, e->name);
	if (strlen(e->name) > USERLIST_NAME_USED)
		e->name[USERLIST_NAME_USED] = '\0';
	unquote(secret, text);
	secret_init(&e->secret, text);
	mem_wipe(text, secret->len + 1);
	mem_free(text);
	if (e->secret.kind == SECRET_MALFORMED)
		warn_of_secret(r, e->name);
	count_entry(u, e, 1);
	old = map_put_str(u->entries, e->name, e);
	if (!old)
		return;
	count_entry(u, old, -1);
	entry_free(old);
}

struct userlist *userlist_parse(const char *path, const char *text, size_t len,
    struct throttle *throttle, diagnostic_fn *report, void *ctx)
{
	struct reader r = {.path = path,
	    .at = text,
	    /* names and secrets are C strings, so the text ends at a NUL byte */
	    .end = text + strnlen(text, len),
	    .line = 1,
	    .report = report,
	    .report_ctx = ctx,
	    .throttle = throttle};
	struct userlist *u = mem_zero(sizeof(*u));
	struct quoted name, secret;

	u->entries = map_new();
	u->refs = 1;
	for (skip_to_entry(&r); r.at < r.end; skip_to_entry(&r)) {
		if (read_fields(&r, &name, &secret) < 0)
			break;
		add_entry(u, &r, &name, &secret);
		const char *eol = memchr(r.at, '\n', (size_t)(r.end - r.at));
		r.at = eol ? eol : r.end;
		throttle_take(throttle, 1);
	}
	return u;
}

struct userlist *userlist_load(const char *path, struct throttle *throttle,
    diagnostic_fn *report, void *ctx, struct err *err)
{
	size_t len;
	char *text = text_read_slowly(path, throttle, &len, err);

	if (!text) {
		err_prefix(err, "could not open auth_file %s: ", path);
		return NULL;
	}
	struct userlist *u = userlist_parse(path, text, len, throttle, report, ctx);
	text_free_secret_slowly(text, len, throttle);
	return u;
}

static void put_quoted(struct buf *out, const char *text)
{
	buf_put_u8(out, '"');
	for (; *text; text++) {
		if (*text == '"')
			buf_put_u8(out, '"');
		buf_put_u8(out, (uint8_t)*text);
	}
	buf_put_u8(out, '"');
}

void userlist_put(struct buf *out, const char *name, const char *secret)
{
	put_quoted(out, name);
	buf_put_u8(out, ' ');
	put_quoted(out, secret);
	buf_put_u8(out, '\n');
}

struct userlist *userlist_ref(struct userlist *u)
{
	if (u)
		atomic_fetch_add_explicit(&u->refs, 1, memory_order_relaxed);
	return u;
}

void userlist_unref(struct userlist **u)
{
	userlist_unref_slowly(u, NULL);
}

void userlist_unref_slowly(struct userlist **up, struct throttle *throttle)
{
	struct userlist *u = *up;
	struct user_entry *e;
	size_t at = 0;

	*up = NULL;
	if (!u || atomic_fetch_sub(&u->refs, 1) > 1)
		return;
	while ((e = map_next(u->entries, &at))) {
		map_del_str(u->entries, e->name);
		entry_free(e);
		throttle_take(throttle, 1);
	}
	map_free(&u->entries);
	mem_free(u);
}

void userlist_remember(
    struct userlist *u, const struct userlist *earlier, struct throttle *throttle)
{
	const char *name;
	size_t at = 0;

	while ((name = userlist_next_known(earlier, &at))) {
		if (!userlist_knows(u, name)) {
			size_t size = strlen(name) + 1;
			struct user_entry *e = mem_zero(sizeof(*e) + size);
			memcpy(e->name, name, size);
			secret_init(&e->secret, "");
			e->is_former = true;
			map_put_str(u->entries, e->name, e);
			u->former_count++;
		}
		throttle_take(throttle, 1);
	}
}

size_t userlist_count(const struct userlist *u)
{
	return map_count(u->entries) - u->former_count;
}

const struct secret *userlist_find(const struct userlist *u, const char *name)
{
	const struct user_entry *e = map_get_str(u->entries, name);

	return e && !e->is_former ? &e->secret : NULL;
}

bool userlist_is_mostly_scram(const struct userlist *u)
{
	return u->kind_counts[SECRET_SCRAM] >
	       u->kind_counts[SECRET_PLAIN] + u->kind_counts[SECRET_MD5];
}

uint32_t userlist_rounds_like(const struct userlist *u, uint32_t rounds, uint32_t pick)
{
	return rounds_like(
	    &u->rounds, (uint32_t)u->kind_counts[SECRET_PLAIN], rounds, pick);
}

bool userlist_next(const struct userlist *u, size_t *at, const char **name,
    const struct secret **secret)
{
	const struct user_entry *e;

	while ((e = map_next(u->entries, at)))
		if (!e->is_former) {
			*name = e->name;
			*secret = &e->secret;
			return true;
		}
	return false;
}

size_t userlist_known_count(const struct userlist *u)
{
	return map_count(u->entries);
}

bool userlist_knows(const struct userlist *u, const char *name)
{
	return map_get_str(u->entries, name) != NULL;
}

const char *userlist_next_known(const struct userlist *u, size_t *at)
{
	const struct user_entry *e = map_next(u->entries, at);

	return e ? e->name : NULL;
}
