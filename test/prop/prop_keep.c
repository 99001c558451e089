/* links: login relay handoff cancel broker session pool wire auth net conf base */
/*
 * session_state=keep: clients on a few servers set parameters, make temporary tables
 * and take locks, in blocks or not, in functions that the text does not show, and
 * leave.  A server of the model answers what it is asked from its own state alone.
 * Whenever a client's statement reaches a server, the session there is the one that
 * this client would have on a connection of its own: nothing of another client, and
 * nothing lost. When all is quiet, a server is pinned if something is left on it, and
 * only then.
 */
#include "../unit/stage/stage.c"
#include "pool/pins.h"
#include "prop.h"

enum { STEPS = 1500, RUNS = 60, CLIENTS = 5, CALM_STEPS = 60, PATIENCE = 30000 };

/* What no report tells; the last one is known by its name only. */
enum { PARAMETERS = 3, PLACEHOLDER = 2, TEXT_MOST = 120, SQL_MOST = 8192 };
static const char *const parameters[PARAMETERS] = {"work_mem", "lock_timeout", "app.a"};

static uint64_t random_state;
static unsigned compared, pinned_seen, refused_seen, left_with_pin;

static unsigned pick(unsigned n)
{
	return (unsigned)(random_next(&random_state) >> 33) % n;
}

/* ---- the session of a client, as PostgreSQL has it ---- */

struct session {
	/* values, 0 is the default: in force, behind COMMIT, and behind ROLLBACK */
	unsigned now[PARAMETERS], committed[PARAMETERS], before[PARAMETERS];
	bool has_temp, had_temp;
	unsigned locks;
	char status;
};

static bool is_pinning(const struct session *s)
{
	return s->has_temp || s->locks;
}

static void set(struct session *s, unsigned i, unsigned value, bool is_local)
{
	s->now[i] = value;
	if (!is_local)
		s->committed[i] = value;
}

static void end_block(struct session *s, bool is_committed)
{
	memcpy(s->now, is_committed ? s->committed : s->before, sizeof(s->now));
	memcpy(s->committed, s->now, sizeof(s->now));
	if (!is_committed)
		s->has_temp = s->had_temp;
	s->status = 'I';
}

static const char *end_command(struct session *s, bool is_commit)
{
	bool is_committed = is_commit && s->status == 'T';

	if (s->status != 'I')
		end_block(s, is_committed);
	return is_committed || (is_commit && s->status == 'I') ? "COMMIT" : "ROLLBACK";
}

/* The tag, or NULL: it fails. */
static const char *execute(struct session *s, const char *text)
{
	unsigned value = 0, i = 0;
	char verb[20], name[20];

	if (strncmp(text, "commit", 6) == 0 || strncmp(text, "rollback", 8) == 0)
		return end_command(s, *text == 'c');
	if (s->status == 'E')
		return NULL;
	if (strncmp(text, "begin", 5) == 0) {
		s->status = 'T';
		return "BEGIN";
	}
	if (sscanf(text, "set %19[a-z] %19[a-z_.] = '%u'", verb, name, &value) == 3) {
		while (strcmp(parameters[i], name) != 0)
			i++;
		if (strcmp(verb, "session") == 0 || s->status == 'T')
			set(s, i, value, strcmp(verb, "local") == 0);
		return "SET";
	}
	if (sscanf(text, "select set_config('%19[a-z_.]', '%u'", name, &value) == 2) {
		while (strcmp(parameters[i], name) != 0)
			i++;
		set(s, i, value, false);
	} else if (strncmp(text, "reset all", 9) == 0) {
		for (i = 0; i < PARAMETERS; i++)
			set(s, i, 0, false);
		return "RESET";
	} else if (sscanf(text, "reset %19[a-z_.]", name) == 1) {
		while (strcmp(parameters[i], name) != 0)
			i++;
		set(s, i, 0, false);
		return "RESET";
	} else if (strncmp(text, "discard all", 11) == 0) {
		if (s->status == 'T')
			return NULL;
		*s = (struct session){.status = 'I'};
		return "DISCARD ALL";
	} else if (strncmp(text, "create temp", 11) == 0 ||
		   strncmp(text, "select makes_temp", 17) == 0) {
		if (s->has_temp)
			return NULL;
		s->has_temp = true;
		return *text == 'c' ? "CREATE TABLE" : "SELECT 1";
	} else if (strncmp(text, "drop table", 10) == 0) {
		if (!s->has_temp)
			return NULL;
		s->has_temp = false;
		return "DROP TABLE";
	} else if (strncmp(text, "select pg_advisory_unlock_all", 29) == 0) {
		s->locks = 0;
	} else if (strncmp(text, "select pg_advisory_unlock", 25) == 0) {
		s->locks -= s->locks > 0;
	} else if (strncmp(text, "select pg_advisory_lock", 23) == 0 ||
		   strncmp(text, "select locks", 12) == 0) {
		s->locks++;
	} else if (sscanf(text, "select sets_app(%u)", &value) == 1) {
		set(s, PLACEHOLDER, value, false);
	} else if (strncmp(text, "fail", 4) == 0 ||
		   strncmp(text, "SELECT \"", 8) == 0) {
		return NULL;
	}
	return "SELECT 1";
}

/* What a statement outside of a block does is committed, unless it fails. */
static const char *run_text(struct session *s, const char *text)
{
	struct session was = *s;
	const char *tag;

	if (s->status == 'I') {
		memcpy(s->before, s->now, sizeof(s->now));
		memcpy(s->committed, s->now, sizeof(s->now));
		s->had_temp = s->has_temp;
	}
	tag = execute(s, text);
	if (!tag && was.status == 'I')
		*s = was;
	else if (!tag)
		s->status = 'E';
	return tag;
}

static void show(const char *whose, const struct session *s)
{
	fprintf(stderr, "%s: '%c', temp %d, %u locks", whose, s->status, s->has_temp,
	    s->locks);
	for (unsigned i = 0; i < PARAMETERS; i++)
		fprintf(stderr, ", %s %u", parameters[i], s->now[i]);
	fprintf(stderr, "\n");
}

static bool is_same_session(const struct session *a, const struct session *b)
{
	bool is_block = a->status == 'T';

	return a->status == b->status && a->has_temp == b->has_temp &&
	       a->locks == b->locks &&
	       (a->status == 'E' || memcmp(a->now, b->now, sizeof(a->now)) == 0) &&
	       (!is_block || memcmp(a->before, b->before, sizeof(a->before)) == 0);
}

/* ---- the model of a client ---- */

struct front {
	struct peer *peer; /* NULL: not connected */
	unsigned serial;
	bool is_in, is_waiting, is_full;
	struct session session;
};

struct fixture {
	struct stage *stage;
	struct front fronts[CLIENTS];
	unsigned serials;
};

static void say(struct front *f, uint8_t type, const void *body, size_t len)
{
	peer_put(f->peer, type, body, len);
}

static void say_text(struct front *f, const char *sql)
{
	char text[TEXT_MOST + 4] = "";
	int len = snprintf(text + 1, TEXT_MOST, "%s /* c%u */", sql, f->serial);

	f->is_waiting = true;
	if (pick(2)) {
		say(f, 'Q', text + 1, (size_t)len + 1);
		return;
	}
	say(f, 'P', text, (size_t)len + 4); /* the unnamed statement, no parameters */
	say(f, 'B', "\0\0\0\0\0\0\0\0", 8);
	say(f, 'E', "\0\0\0\0\0", 5);
	say(f, 'S', "", 0);
}

static void say_something(struct front *f)
{
	static const char *const plain[] = {"select 1", "fail", "reset all",
	    "discard all", "create temp table t (a int)", "select makes_temp()",
	    "drop table t", "drop table t", "select pg_advisory_lock(1)",
	    "select locks()", "select pg_advisory_unlock(1)",
	    "select pg_advisory_unlock(1)", "select pg_advisory_unlock_all()"};
	static const char *const setting[] = {"set session %s = '%u'",
	    "set session %s = '%u'", "set local %s = '%u'",
	    "select set_config('%s', '%u', false)", "reset %s"};
	char sql[TEXT_MOST];

	if (f->session.status == 'I' ? pick(5) == 0 : pick(4) == 0) {
		const char *end = pick(2) ? "commit" : "rollback";
		say_text(f, f->session.status == 'I' ? "begin" : end);
	} else if (pick(2)) {
		say_text(f, plain[pick(sizeof(plain) / sizeof(plain[0]))]);
	} else if (pick(6) == 0) {
		snprintf(sql, sizeof(sql), "select sets_app(%u)", 1 + pick(8));
		say_text(f, sql);
	} else {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(sql, sizeof(sql), setting[pick(5)],
		    parameters[pick(PARAMETERS)], 1 + pick(8));
#pragma GCC diagnostic pop
		say_text(f, sql);
	}
}

static void front_come(struct fixture *w, struct front *f)
{
	*f = (struct front){.serial = ++w->serials, .session.status = 'I'};
	f->peer = stage_client(w->stage);
	peer_start(f->peer, "u", "d", NULL, NULL);
	f->is_waiting = true;
}

static void front_go(struct front *f)
{
	if (f->peer)
		peer_close(f->peer);
	*f = (struct front){0};
}

static void front_hear(struct front *f)
{
	size_t size;

	while (f->peer && (size = peer_message(f->peer))) {
		const uint8_t *m = f->peer->in.bytes;
		struct error_fields e = {0};
		if (m[0] == 'E') {
			codec_read_error(m + 5, size - 5, &e);
			f->is_full = f->is_full || strcmp(e.sqlstate, "53400") == 0;
			if (strcmp(e.severity, "FATAL") == 0)
				fprintf(stderr, "lost: %s\n", e.message);
			CHECK(strcmp(e.severity, "FATAL") != 0);
		}
		if (m[0] == 'Z') {
			f->is_in = true;
			f->is_waiting = false;
			/* what would keep one server too many is lost, or was not run
			 */
			if (f->is_full && m[5] == 'I')
				f->session.has_temp = false, f->session.locks = 0;
			if (f->is_full && m[5] == 'E')
				f->session.status = 'E';
			refused_seen += f->is_full;
			f->is_full = false;
			CHECK((char)m[5] == f->session.status);
		}
		buf_shift(&f->peer->in, size);
	}
	CHECK(!f->peer || !f->peer->has_ended);
}

/* ---- the model of a server ---- */

struct backend {
	struct fixture *fixture;
	struct peer *peer;
	struct session session;
	bool is_skipping;
	char parsed[SQL_MOST];
};

static void put_row(struct backend *b, const char *kind, const char *name, int value)
{
	char column[64], hex[16] = "";
	struct buf row;

	snprintf(column, sizeof(column), "%s%s", kind, name);
	if (value > 0)
		snprintf(hex, sizeof(hex), "3%d", value);
	buf_init(&row, 0);
	buf_put_u16(&row, 2);
	buf_put_u32(&row, (uint32_t)strlen(column));
	buf_put_text(&row, column);
	buf_put_u32(&row, value < 0 ? UINT32_MAX : (uint32_t)strlen(hex));
	buf_put_text(&row, value < 0 ? "" : hex);
	peer_put(b->peer, 'D', row.bytes, row.len);
	buf_done(&row);
}

/* Answers what is in the text, and nothing else. */
static void answer_question(struct backend *b, const char *sql)
{
	const struct session *s = &b->session;
	const char *names = strstr(sql, "unnest(ARRAY[");

	if (strstr(sql, "pg_my_temp_schema") && s->has_temp)
		put_row(b, "t", "", -1);
	if (strstr(sql, "pg_lock_status") && s->locks)
		put_row(b, "a", "", -1);
	if (!strstr(sql, "pg_show_all_settings"))
		return;
	for (unsigned i = 0; i < PLACEHOLDER; i++)
		if (s->now[i])
			put_row(b, "s", parameters[i], (int)s->now[i]);
	/* by its name, or by the function that sets it */
	if ((names && strstr(names, parameters[PLACEHOLDER])) || strstr(sql, "pg_proc"))
		put_row(b, "u", parameters[PLACEHOLDER], (int)s->now[PLACEHOLDER]);
}

/* The pooler puts settings in force: ('name','hex') or ('name',NULL). */
static void take_settings(struct backend *b, const char *sql)
{
	for (unsigned i = 0; i < PARAMETERS; i++)
		for (const char *at = sql; (at = strstr(at, parameters[i])); at++) {
			const char *value = at + strlen(parameters[i]) + 1;
			CHECK(b->session.status == 'I');
			set(&b->session, i,
			    strncmp(value, ",'3", 3) == 0 ? (unsigned)value[3] - '0'
							  : 0,
			    false);
		}
}

static struct front *find_front(struct fixture *w, const char *text)
{
	const char *tag = strstr(text, "/* c");
	unsigned serial = tag ? (unsigned)atoi(tag + 4) : 0;

	for (unsigned i = 0; serial && i < CLIENTS; i++)
		if (w->fronts[i].serial == serial)
			return &w->fronts[i];
	return NULL;
}

/* Runs a client's text or the pooler's.  False: it has failed. */
static bool serve_text(struct backend *b, const char *text)
{
	struct front *f = find_front(b->fixture, text);
	const char *tag;

	if (strncmp(text, "SELECT FROM (VALUES", 19) == 0) {
		take_settings(b, text);
		tag = "SELECT 0";
	} else if (strstr(text, "pg_catalog.")) {
		answer_question(b, text);
		tag = "SELECT 1";
	} else if (strcmp(text, "DISCARD ALL") == 0) {
		tag = run_text(&b->session, "discard all");
	} else {
		CHECK(f || strstr(text, "/* c") || text[0] == 'S');
		if (f && !is_same_session(&b->session, &f->session)) {
			fprintf(stderr, "%s at server %u\n", text, b->peer->number);
			show("the client's", &f->session);
			show("the server's", &b->session);
			CHECK(!"this is another client's session");
		}
		tag = run_text(&b->session, text);
		compared += f != NULL;
		if (f)
			f->session = b->session;
	}
	if (tag)
		peer_text(b->peer, 'C', tag);
	else
		peer_put(b->peer, 'E', "SERROR\0C42703\0Mfailed\0", 23);
	return tag != NULL;
}

static void serve_one(struct backend *b)
{
	struct buf *in = &b->peer->in;
	size_t size = peer_message(b->peer);
	const char *body = (const char *)in->bytes + 5;
	uint8_t type = size ? in->bytes[0] : 0;

	if (!size)
		return;
	if (type == 'S' || type == 'Q') {
		if (type == 'Q')
			(void)serve_text(b, body);
		b->is_skipping = false;
		peer_ready(b->peer, b->session.status);
	} else if (!b->is_skipping && type == 'P') {
		snprintf(b->parsed, sizeof(b->parsed), "%s", body + strlen(body) + 1);
		/* there is no such column */
		if (strncmp(b->parsed, "SELECT \"", 8) == 0)
			b->is_skipping = !serve_text(b, b->parsed);
		else
			peer_put(b->peer, '1', "", 0);
	} else if (!b->is_skipping && type == 'B') {
		peer_put(b->peer, '2', "", 0);
	} else if (!b->is_skipping && type == 'C') {
		peer_put(b->peer, '3', "", 0);
	} else if (!b->is_skipping && type == 'E') {
		b->is_skipping = !serve_text(b, b->parsed);
	} else {
		CHECK(b->is_skipping || type == 'H' || type == 'X');
	}
	buf_shift(in, size);
}

static void backend_free(struct peer *peer)
{
	mem_free(peer->ctx);
	peer_close(peer);
}

static void first_packet_step(struct fixture *w, struct peer *peer)
{
	struct buf *in = &peer->in;
	struct backend *b;

	if (in->len < 8 || in->len < get_u32(in->bytes))
		return;
	list_remove(&w->stage->fresh, &peer->fresh_node);
	peer->started = get_u32(in->bytes + 4);
	if (peer->started == STARTUP_CANCEL) {
		peer_close(peer);
		return;
	}
	buf_shift(in, get_u32(in->bytes));
	b = peer->ctx = mem_zero(sizeof(*b));
	*b = (struct backend){.fixture = w, .peer = peer, .session.status = 'I'};
	peer_greet(peer);
}

static void servers_step(struct fixture *w)
{
	struct peer *peer, *next;

	list_for_safe (peer, next, &w->stage->fresh, fresh_node)
		first_packet_step(w, peer);
	list_for_safe (peer, next, &w->stage->peers, node) {
		if (!peer->ctx || pick(2))
			continue;
		for (unsigned i = pick(8); i > 0; i--)
			serve_one(peer->ctx);
		if (peer->has_ended)
			backend_free(peer);
	}
}

/* ---- the run ---- */

static void turn(struct fixture *w)
{
	servers_step(w);
	stage_turn(w->stage);
	for (unsigned i = 0; i < CLIENTS; i++)
		front_hear(&w->fronts[i]);
}

static const struct session *session_of(struct fixture *w, const struct slot *slot)
{
	struct peer *peer;

	list_for (peer, &w->stage->peers, node)
		if (peer->ctx && peer->number == slot_server(slot)->remote_pid)
			return &((struct backend *)peer->ctx)->session;
	return NULL;
}

/* Everybody is answered and outside of a block. */
static void check_pins(struct fixture *w)
{
	struct pool *pool = stage_pool(w->stage);
	struct slot *slot;
	int pinned = 0;

	list_for (slot, &pool->slots[SLOT_ACTIVE], node) {
		const struct session *s = session_of(w, slot);
		CHECK(s && s->status == 'I');
		CHECK(slot->is_pinned && is_pinning(s));
		pinned++;
	}
	list_for (slot, &pool->slots[SLOT_IDLE], node) {
		const struct session *s = session_of(w, slot);
		CHECK(s && s->status == 'I');
		CHECK(!slot->is_pinned && !is_pinning(s));
	}
	CHECK(pins_count(pool) == pinned && pinned <= pins_most(pool));
	pinned_seen += (unsigned)pinned;
}

static bool is_calm(struct fixture *w)
{
	const struct pool *pool = stage_pool(w->stage);
	bool is_so = list_is_empty(&pool->slots[SLOT_NONE]) &&
		     list_is_empty(&pool->slots[SLOT_USED]) &&
		     list_is_empty(&pool->slots[SLOT_LOGIN]) &&
		     list_is_empty(&w->stage->fresh);

	for (unsigned i = 0; i < CLIENTS; i++) {
		struct front *f = &w->fronts[i];
		if (f->peer && !f->is_waiting && f->session.status != 'I')
			say_text(f, pick(2) ? "commit" : "rollback");
		is_so = is_so && !f->is_waiting;
	}
	return is_so;
}

static void calm_down(struct fixture *w)
{
	for (unsigned patience = PATIENCE; !is_calm(w); patience--) {
		CHECK(patience > 0);
		turn(w);
	}
	stage_settle(w->stage);
}

static void fixture_step(struct fixture *w)
{
	struct front *f = &w->fronts[pick(CLIENTS)];

	if (!f->peer) {
		front_come(w, f);
	} else if (f->is_in && pick(60) == 0) {
		left_with_pin += is_pinning(&f->session);
		front_go(f);
	} else if (f->is_in && !f->is_waiting) {
		say_something(f);
	}
	turn(w);
	if (step_number % CALM_STEPS == 0) {
		calm_down(w);
		check_pins(w);
	}
}

static void run(void)
{
	struct fixture *w = mem_zero(sizeof(*w));
	struct peer *peer, *next;
	char options[64];
	unsigned size = 1 + pick(3);

	snprintf(options, sizeof(options), "pool_size=%u max_pinned_servers=%u", size,
	    pick(2) ? 0 : 1 + pick(size));
	w->stage = stage_new(options, "session_state = keep\n");
	for (step_number = 1; step_number <= STEPS; step_number++)
		fixture_step(w);
	calm_down(w);
	for (unsigned i = 0; i < CLIENTS; i++)
		front_go(&w->fronts[i]);
	calm_down(w);
	list_for_safe (peer, next, &w->stage->peers, node)
		if (peer->ctx)
			backend_free(peer);
	stage_free(&w->stage);
	mem_free(w);
}

int main(int argc, char **argv)
{
	random_state = seed_of_run(argc, argv) * 2654435761u + 88172645463325252u;
	fflush(stdout);
	for (run_number = 0; run_number < RUNS; run_number++)
		run();
	printf("%u statements met their session; %u pins, %u refused, %u left behind\n",
	    compared, pinned_seen, refused_seen, left_with_pin);
	CHECK(pinned_seen && refused_seen && left_with_pin);
	return 0;
}
