#include "tools/ask_reload.h"

#include <stdbool.h>
#include <stdio.h>

#include "tools/libpq_entry.h"
#include "tools/pg_client.h"

static const struct libpq_defaults of_console = {
    .dbname = "pgbouncer", .port = "6432", .is_console = true};

struct ask_reload {
	const char *program;
	bool is_refused;
};

static int take_error(
    void *ctx, const char *user, const struct error_fields *fields, struct err *err)
{
	struct ask_reload *a = ctx;

	(void)user;
	(void)err;
	a->is_refused = true;
	fprintf(stderr, "%s: %s\n", a->program, fields->message);
	if (fields->detail)
		fprintf(stderr, "%s\n", fields->detail);
	return 0;
}

static const struct pg_client_ops reload_ops = {.error = take_error};

static int ask(struct ask_reload *a, const struct options *options,
    struct libpq_entry *entry, struct err *err)
{
	enum pg_client_answer answer;

	if (libpq_entry_read(entry, options->conninfo, &of_console, err) < 0)
		return -1;
	answer = pg_client_query(
	    buf_text(&entry->text), options->verbose, &reload_ops, a, "RELOAD", err);
	if (answer == PG_CLIENT_PASSWORD_WANTED)
		return err_set(err,
		    "the pooler asks for a password; PGPASSWORD or a password file can "
		    "hold it");
	if (answer == PG_CLIENT_FAILED)
		libpq_entry_explain(entry, err);
	return answer == PG_CLIENT_DONE ? 0 : -1;
}

int ask_reload(const struct options *options)
{
	struct ask_reload a = {.program = options->program};
	struct libpq_entry entry;
	struct err err = {.text = ""};
	int rc;

	libpq_entry_init(&entry);
	rc = ask(&a, options, &entry, &err);
	if (rc < 0)
		fprintf(stderr, "%s: %s\n", options->program, err.text);
	libpq_entry_done(&entry);
	return rc < 0 ? 2 : a.is_refused;
}
