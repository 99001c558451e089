/*
 * Administrators, who look at everything and disturb everybody: at the end, and from
 * time to time, one of them puts everything right again.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "sim_login.h"
#include "sim_process.h"
#include "sim_tls.h"
#include "views/views.def"
#include "wire/codec.h"

enum { ADMINS = 3, COMMAND = 100, PORT = 6432, COLUMNS = 64, CALM_US = 25000000 };

struct admin {
	struct actor actor; /* first */
	struct event next;
	uint64_t rng;
	unsigned id;
	enum { AWAY, COMING, WAITING, READY } state;
	char command[COMMAND];
	uint64_t asked_us;
	size_t columns; /* of the rows that come; 0: none */
	size_t id_column;
	unsigned repairs; /* how many commands of a repair are done */
	bool is_repairing;
	char victim[24]; /* the id of some client */
	struct sim_proof proof;
};

static struct admin admins[ADMINS];
static uint64_t repaired_us;
static bool is_finishing;

enum { DATABASES = 6, LAST_REPAIR = 2 * DATABASES + 2 };
static const char *const databases[DATABASES] = {
    "app", "sess", "stmt", "named", "both", "kept"};
#define NAME_OF_VIEW(name, ...) #name,
static const char *const views[] = {VIEWS(NAME_OF_VIEW)};

static bool is_on(void)
{
	return world.options.faults & (FAULT_ADMIN | FAULT_RELOAD);
}

/* ---- what it orders ---- */

static void order(struct admin *a, const char *command)
{
	struct buf b;

	snprintf(a->command, sizeof(a->command), "%s", command);
	note_bytes("command", a->id, command, strlen(command));
	SEEN("admin %u: %s", a->id, command);
	world.counts.commands++;
	a->state = WAITING;
	a->columns = 0;
	a->asked_us = world.now_us;
	buf_init(&b, 0);
	codec_put_query(&b, command);
	actor_send(&a->actor, b.bytes, b.len);
	buf_done(&b);
}

static void order_for(struct admin *a, const char *verb, unsigned all_per_mille)
{
	char command[COMMAND];
	bool is_all = draw_chance(&a->rng, all_per_mille);

	snprintf(command, sizeof(command), "%s %s", verb,
	    is_all ? "" : databases[draw_below(&a->rng, DATABASES)]);
	sim_disturb();
	order(a, command);
}

static void order_view(struct admin *a)
{
	char command[COMMAND];
	size_t count = sizeof(views) / sizeof(views[0]);
	const char *view = views[draw_below(&a->rng, count)];

	/* those need another kind of connection, or show nothing that is in order */
	if (strcmp(view, "FDS") == 0)
		view = "CLIENTS";
	snprintf(command, sizeof(command), "SHOW %s", view);
	order(a, command);
}

static void order_set(struct admin *a)
{
	static const char *const settings[] = {"default_pool_size=%u",
	    "server_idle_timeout=%u", "server_lifetime=%u", "reserve_pool_size=%u",
	    "max_db_connections=%u", "server_check_delay=%u", "min_pool_size=%u",
	    "query_wait_timeout=%u", "client_idle_timeout=%u",
	    "max_prepared_statements=%u"};
	char command[COMMAND];
	size_t i = draw_below(&a->rng, 10);
	unsigned value =
	    (unsigned)draw_between(&a->rng, i < 7 ? 1 : 20, i < 7 ? 10 : 90);

	snprintf(command, sizeof(command), "SET ");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(command + 4, sizeof(command) - 4, settings[i], value);
#pragma GCC diagnostic pop
	order(a, command);
}

static void order_reload(struct admin *a)
{
	config_write_random(&a->rng);
	if (draw_chance(&a->rng, 300))
		process_signal(process_serving(), SIGHUP);
	else
		order(a, "RELOAD");
	if (a->state == READY)
		order(a, "SHOW STATE");
}

/* Ends whatever somebody has begun, step by step. */
static void repair(struct admin *a)
{
	char command[COMMAND];
	unsigned step = a->repairs++;

	a->is_repairing = step < LAST_REPAIR;
	if (step == 0)
		config_write_calm();
	if (step == 0 || step == LAST_REPAIR - 1) {
		order(a, step ? "RELOAD" : "RESUME");
	} else if (step < LAST_REPAIR - 1) {
		snprintf(command, sizeof(command), "%s %s",
		    step % 2 ? "RESUME" : "ENABLE", databases[(step - 1) / 2]);
		order(a, command);
	} else {
		repaired_us = world.now_us;
		order(a, "SHOW LISTS");
	}
}

static void order_something(struct admin *a)
{
	uint64_t kind = draw_below(&a->rng, 100);
	char command[COMMAND];

	if (a->is_repairing || is_finishing ||
	    (world.now_us - repaired_us > CALM_US * (1 + a->id))) {
		if (!a->is_repairing)
			a->repairs = 0;
		repair(a);
	} else if (kind < 25 && draw_fault(&a->rng, FAULT_RELOAD, 1000000)) {
		order_reload(a);
	} else if (kind < 45 || !draw_fault(&a->rng, FAULT_ADMIN, 1000000)) {
		order_view(a);
	} else if (kind < 52 && a->id != 0) {
		order_for(a, "PAUSE", 300);
	} else if (kind < 62) {
		order_for(a, "RESUME", 500);
	} else if (kind < 68) {
		order_for(a, "RECONNECT", 300);
	} else if (kind < 72) {
		order_for(a, "KILL", 50);
	} else if (kind < 78 && a->victim[0]) {
		snprintf(command, sizeof(command), "KILL_CLIENT %s", a->victim);
		order(a, command);
	} else if (kind < 82 && a->id == 1) {
		order(a, "SUSPEND");
	} else if (kind < 85) {
		order_for(a, "DISABLE", 0);
	} else if (kind < 88) {
		order_for(a, "ENABLE", 0);
	} else if (kind < 91 && a->id == 2) {
		order_for(a, "WAIT_CLOSE", 500);
	} else if (kind < 94) {
		order(a, draw_chance(&a->rng, 500) ? "SWITCHOVER both TO 10.1.0.2"
						   : "SWITCHOVER both TO 10.1.0.1");
	} else if (kind < 97) {
		order_set(a);
	} else {
		order(a, "EXPLAIN LOGIN u1 app");
	}
}

static void next(struct event *e);

static void plan(struct admin *a, uint64_t us)
{
	a->next.run = next;
	event_in(&a->next, us);
}

/* ---- what it is told ---- */

static void note_victim(struct admin *a, const uint8_t *body, size_t len)
{
	const uint8_t *value;
	size_t count, size;
	struct cursor c;

	cursor_init(&c, body, len);
	if (codec_read_row_count(&c, &count) < 0)
		return;
	MUST(count == a->columns, "the console's %s has %zu columns and a row of %zu",
	    a->command, a->columns, count);
	for (size_t i = 0; i < count; i++) {
		MUST(codec_next_field(&c, &value, &size) == 0, "%s: a broken row",
		    a->command);
		if (i == a->id_column && value &&
		    strcmp(a->command, "SHOW CLIENTS") == 0 &&
		    draw_chance(&a->rng, 300))
			snprintf(a->victim, sizeof(a->victim), "%.*s", (int)size,
			    (const char *)value);
	}
}

static void note_columns(struct admin *a, const uint8_t *body, size_t len)
{
	struct cursor c;

	cursor_init(&c, body, len);
	a->columns = cursor_u16(&c);
	a->id_column = COLUMNS;
	for (size_t i = 0; i < a->columns; i++) {
		if (strcmp(cursor_str(&c), "id") == 0)
			a->id_column = i;
		(void)cursor_bytes(&c, 18);
	}
	MUST(!c.overrun && cursor_left(&c) == 0, "%s: broken columns", a->command);
}

static void prove(struct admin *a, const uint8_t *body, size_t len)
{
	struct buf b;

	buf_init(&b, 0);
	(void)sim_proof_answer(&a->proof, body, len, &b);
	actor_send(&a->actor, b.bytes, b.len);
	buf_done(&b);
}

static void got(struct admin *a, uint8_t type, const uint8_t *body, size_t len)
{
	struct error_fields f;

	switch (type) {
	case 'T':
		note_columns(a, body, len);
		return;
	case 'D':
		MUST(a->columns, "%s: a row without columns", a->command);
		note_victim(a, body, len);
		return;
	case 'E':
		MUST(codec_read_error(body, len, &f) == 0, "%s: a broken error",
		    a->command);
		SEEN("admin %u: %s", a->id, f.message);
		note_bytes("admin error", a->id, f.message, strlen(f.message));
		return;
	case 'Z':
		MUST(*body == 'I', "a console in a transaction");
		a->state = READY;
		plan(a, a->is_repairing || is_finishing
			    ? 1000
			    : draw_between(&a->rng, 1000,
				  draw_chance(&a->rng, 300) ? 100000 : 8000000));
		return;
	case 'R':
		prove(a, body, len);
		return;
	case 'C':
	case 'N':
	case 'S':
	case 'K':
	case 'I':
		return;
	default:
		failed("an administrator got '%c'", type);
	}
}

static void received(struct actor *actor)
{
	struct admin *a = (struct admin *)actor;
	const uint8_t *p;
	size_t len, size;

	while (actor_is_open(actor)) {
		p = actor_bytes(actor, &len);
		if (len < 5 || len < (size = 1 + get_u32(p + 1)))
			return;
		got(a, p[0], p + 5, size - 5);
		actor_take(actor, size);
	}
}

static void ended(struct actor *actor, int errnum)
{
	struct admin *a = (struct admin *)actor;

	(void)errnum;
	actor_close(actor, false);
	a->state = AWAY;
	a->is_repairing = false;
	plan(a, 100000);
}

static void connected(struct actor *actor)
{
	struct admin *a = (struct admin *)actor;
	struct buf b;

	sim_proof_begin(&a->proof, "adm", false);
	buf_init(&b, 0);
	size_t at = codec_begin_startup(&b, 0x30000);
	codec_put_param(&b, "user", "adm");
	codec_put_param(&b, "database", "pgbouncer");
	codec_end_startup(&b, at);
	actor_send(actor, b.bytes, b.len);
	buf_done(&b);
}

/* ---- what it does next ---- */

static void next(struct event *e)
{
	struct admin *a = container_of(e, struct admin, next);
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(19000)};

	if (a->state == AWAY && !(is_finishing && a->id != 0)) {
		inet_pton(AF_INET, "10.3.0.1", &from.sin_addr);
		a->state = COMING;
		actor_connect(&a->actor, &from, "127.0.0.1", PORT);
		sim_tls_connect(&a->actor, sim_tls_sure());
		return;
	}
	if (a->state != READY)
		return;
	if (is_finishing &&
	    (a->id != 0 || (a->repairs > LAST_REPAIR && !a->is_repairing))) {
		actor_close(&a->actor, false);
		a->state = AWAY;
		a->repairs = 100;
		return;
	}
	if (draw_chance(&a->rng, 20) && !is_finishing) {
		actor_close(&a->actor, draw_chance(&a->rng, 500));
		ended(&a->actor, 0);
		return;
	}
	order_something(a);
}

void admin_init(void)
{
	static const struct actor_ops ops = {connected, received, ended};

	repaired_us = world.now_us;
	for (unsigned i = 0; i < ADMINS && is_on(); i++) {
		struct admin *a = &admins[i];
		a->id = i;
		a->rng = rng_for("admin", i);
		actor_init(&a->actor, &ops);
		plan(a, draw_between(&a->rng, 1000000, 5000000));
	}
}

/* The first one puts everything right; the others go. */
void admin_finish(void)
{
	is_finishing = true;
	for (unsigned i = 0; i < ADMINS && is_on(); i++) {
		struct admin *a = &admins[i];
		a->repairs = 0;
		a->is_repairing = false;
		if (a->id != 0) {
			actor_close(&a->actor, false);
			event_cancel(&a->next);
			a->state = AWAY;
		} else if (a->state == READY || a->state == AWAY) {
			plan(a, 0);
		}
	}
}

/* A SUSPEND locks out consoles that have left, while another one keeps it up. */
void admin_watch(void)
{
	if (is_on() && world.now_us - repaired_us > 4 * CALM_US)
		process_signal(process_serving(), SIGUSR2);
}

bool admin_is_done(void)
{
	return !is_on() || (admins[0].state == AWAY && admins[0].repairs >= 100);
}
