/*
 * Reader of the user list file.  One malformed entry ends the reading, because nobody
 * can tell where the next one would begin.  What a secret means is not known here.
 */
#include "auth/userlist.h"

#include <string.h>

#include "auth/secret.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

struct user_entry {
	struct secret secret;
	char name[];
};

struct userlist {
	struct map *entries; /* struct user_entry by name */
};

struct reader {
	const char *path;
	const char *at, *end;
	unsigned line; /* of `at` */
};

/* Text between quotes: as it stands, doubled quotes included. */
struct quoted {
	const char *start;
	size_t len;
};

static void entry_free(struct user_entry *e)
{
	secret_done(&e->secret);
	mem_free(e);
}

/* Blanks and whole comment lines in front of an entry. */
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

/* Whatever stands between name and secret is skipped, line ends too. */
static void skip_to_quote(struct reader *r)
{
	for (; r->at < r->end && *r->at != '"'; r->at++)
		if (*r->at == '\n')
			r->line++;
}

static void skip_line(struct reader *r)
{
	const char *eol = memchr(r->at, '\n', (size_t)(r->end - r->at));
	r->at = eol ? eol : r->end;
}

/* r->at is at the opening quote.  -1 when no closing one comes. */
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

/* out has room for q->len + 1. */
static void unquote(const struct quoted *q, char *out)
{
	for (size_t i = 0; i < q->len; i++) {
		*out++ = q->start[i];
		if (q->start[i] == '"')
			i++;
	}
	*out = '\0';
}

static int broken_at(const struct reader *r, struct err *broken, const char *what)
{
	return err_set(broken, "%s:%u: broken auth file: %s", r->path, r->line, what);
}

static int read_fields(
    struct reader *r, struct quoted *name, struct quoted *secret, struct err *broken)
{
	unsigned line = r->line;

	if (*r->at != '"')
		return broken_at(r, broken,
		    "a line begins with the user name in double quotes; write \"user\" "
		    "\"secret\"");
	if (read_quoted(r, name) < 0)
		return broken_at(r, broken, "closing quote after user name is missing");
	if (name->len > USERLIST_NAME_MAX)
		return err_set(broken,
		    "%s:%u: username too long in auth file: %zu bytes, shorten it to "
		    "%d",
		    r->path, r->line, name->len, USERLIST_NAME_MAX);
	skip_to_quote(r);
	if (r->at == r->end) {
		r->line = line;
		return broken_at(
		    r, broken, "no secret follows the user name; write \"\" for none");
	}
	if (read_quoted(r, secret) < 0)
		return broken_at(r, broken, "closing quote after secret is missing");
	if (secret->len > USERLIST_SECRET_MAX)
		return err_set(broken,
		    "%s:%u: password too long in auth file: %zu bytes, shorten it to "
		    "%d",
		    r->path, r->line, secret->len, USERLIST_SECRET_MAX);
	return 0;
}

/* The last of several entries with one name counts. */
static void add_entry(
    struct userlist *u, const struct quoted *name, const struct quoted *secret)
{
	struct user_entry *e = mem_zero(sizeof(*e) + name->len + 1), *old;
	char *text = mem_alloc(secret->len + 1);

	unquote(name, e->name);
	unquote(secret, text);
	secret_init(&e->secret, text);
	mem_wipe(text, secret->len + 1);
	mem_free(text);
	old = map_put_str(u->entries, e->name, e);
	if (old)
		entry_free(old);
}

struct userlist *userlist_parse(
    const char *path, const char *text, size_t len, struct err *broken)
{
	struct userlist *u = mem_zero(sizeof(*u));
	/* Names and secrets are C strings: nothing counts behind a NUL. */
	const char *end = text + strnlen(text, len);
	struct reader r = {.path = path, .at = text, .end = end, .line = 1};
	struct quoted name, secret;

	u->entries = map_new();
	broken->text[0] = '\0';
	for (skip_to_entry(&r); r.at < r.end; skip_to_entry(&r)) {
		if (read_fields(&r, &name, &secret, broken) < 0)
			break;
		add_entry(u, &name, &secret);
		skip_line(&r);
	}
	return u;
}

struct userlist *userlist_load(const char *path, struct err *broken, struct err *err)
{
	struct userlist *u;
	size_t len;
	char *text = text_read_file(path, &len, err);

	broken->text[0] = '\0';
	if (!text) {
		err_prefix(err, "could not open auth_file %s: ", path);
		return NULL;
	}
	u = userlist_parse(path, text, len, broken);
	mem_wipe(text, len);
	mem_free(text);
	return u;
}

void userlist_free(struct userlist **u)
{
	struct user_entry *e;
	size_t at = 0;

	if (!*u)
		return;
	while ((e = map_next((*u)->entries, &at))) {
		map_del_str((*u)->entries, e->name);
		entry_free(e);
	}
	map_free(&(*u)->entries);
	mem_free(*u);
	*u = NULL;
}

size_t userlist_count(const struct userlist *u)
{
	return map_count(u->entries);
}

const struct secret *userlist_find(const struct userlist *u, const char *name)
{
	const struct user_entry *e = map_get_str(u->entries, name);
	return e ? &e->secret : NULL;
}

bool userlist_next(const struct userlist *u, size_t *at, const char **name,
    const struct secret **secret)
{
	const struct user_entry *e = map_next(u->entries, at);

	if (!e)
		return false;
	*name = e->name;
	*secret = &e->secret;
	return true;
}
