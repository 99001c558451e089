/*
 * Reads roles by one query.
 */
#include "tools/roles.h"

#include <string.h>

#include "base/mem.h"
#include "tools/pg_client.h"

/* All names have their schema, so that no search_path can redirect them. */
static const char query[] =
    "SELECT rolname, rolpassword, CASE WHEN rolvaliduntil OPERATOR(pg_catalog.<) "
    "pg_catalog.now() THEN rolvaliduntil END FROM pg_catalog.pg_authid "
    "WHERE rolcanlogin ORDER BY rolname";

struct role_reader {
	struct pg_client *pg_client;
	struct roles *roles; /* borrowed */
	bool is_asked;
};

/* ---- the list ---- */

static char *text_of(const uint8_t *value, size_t len)
{
	char *text;

	if (!value)
		return NULL;
	text = mem_alloc(len + 1);
	memcpy(text, value, len);
	text[len] = '\0';
	return text;
}

void roles_done(struct roles *roles)
{
	for (size_t i = 0; i < roles->count; i++) {
		mem_free(roles->list[i].name);
		mem_free_secret(roles->list[i].secret);
		mem_free(roles->list[i].expired_at);
	}
	mem_free(roles->list);
	*roles = (struct roles){.list = NULL};
}

/* ---- the answer ---- */

static int take_row(void *ctx, const struct pg_client_row *row)
{
	struct role_reader *r = ctx;
	struct role *role;

	if (row->count != 3 || !row->values[0])
		return -1;
	if (r->roles->count == r->roles->room) {
		size_t room = r->roles->room ? 2 * r->roles->room : 64;
		struct role *list = mem_zero(room * sizeof(*list));

		if (r->roles->count)
			memcpy(list, r->roles->list, r->roles->count * sizeof(*list));
		mem_free(r->roles->list);
		r->roles->list = list;
		r->roles->room = room;
	}

	role = &r->roles->list[r->roles->count++];
	role->name = text_of(row->values[0], row->lens[0]);
	role->secret = text_of(row->values[1], row->lens[1]);
	role->expired_at = text_of(row->values[2], row->lens[2]);
	return 0;
}

static int take_error(
    void *ctx, const char *user, const struct error_fields *fields, struct err *err)
{
	(void)ctx;
	if (strcmp(fields->sqlstate, SQLSTATE_INSUFFICIENT_PRIVILEGE) == 0)
		return err_set(err,
		    "role \"%s\" may not read pg_authid, where secrets are: log in as "
		    "a "
		    "superuser, or let one run GRANT SELECT ON pg_authid TO \"%s\"; "
		    "where nobody may, use auth_query with a function",
		    user, user);
	return err_set(
	    err, "the server refuses to tell its roles: %s", fields->message);
}

static void ready(void *ctx)
{
	struct role_reader *r = ctx;

	if (r->is_asked)
		pg_client_end(r->pg_client);
	else
		pg_client_ask(r->pg_client, query);
	r->is_asked = true;
}

static const struct pg_client_ops reading_ops = {
    .row = take_row,
    .error = take_error,
    .ready = ready,
};

enum pg_client_answer roles_read(
    struct roles *roles, const char *entry, int verbose, struct err *err)
{
	struct role_reader r = {.roles = roles};
	enum pg_client_answer answer = PG_CLIENT_FAILED;

	r.pg_client = pg_client_new(entry, verbose, &reading_ops, &r, err);
	if (r.pg_client)
		answer = pg_client_run(r.pg_client);
	pg_client_free(&r.pg_client);
	return answer;
}
