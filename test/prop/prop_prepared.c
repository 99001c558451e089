/* links: wire base */
/*
 * Prepared statements against naive models: several clients and servers, pipelines with
 * failures anywhere, links that end in the middle.  Names and sets must be what remains
 * without the changes that failed; a server must really hold what its set says; no text
 * is freed too early, and none is kept too long.
 */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "prop.h"
#include "wire/codec.h"
#include "wire/prepared.h"

enum {
	ROUNDS = 3000,
	STEPS = 120,
	CLIENTS = 3,
	SERVERS = 2,
	NAMES = 4,
	TEXTS = 6,
	NOWHERE = -1,
	NONE = -1,
	FLIGHT_MOST = STEPS * 8,
};

static uint64_t random_state;

static unsigned below(unsigned n)
{
	return (unsigned)(random_next(&random_state) >> 33) % n;
}

/* One change of a name or a set, and the value it gave. */
struct change {
	uint32_t tag;
	int thing; /* index of the name, or of the text */
	int value; /* of a name: text or NONE; of a set: 1 or 0 */
	bool is_of_name, has_failed, is_struck;
};

/* A message under way to a server. */
struct message {
	char type; /* P C B S, or 0: the pooler makes up the answer and sends nothing */
	uint32_t tag;
	uint64_t id; /* of the message's text */
};

struct client {
	struct prepared_names *names;
	int base[NAMES]; /* text of each name before the link */
	int server;      /* or NOWHERE */
};

struct server {
	struct prepared_set *set;
	bool base[TEXTS];
	int client;
	/* These belong to the link. */
	struct prepared_journal *journal;
	struct change changes[FLIGHT_MOST];
	size_t change_count;
	struct message flight[FLIGHT_MOST];
	size_t sent, answered;
	uint32_t tag;
	/* What a real server would know. */
	uint64_t held[TEXTS];
	size_t held_count;
	bool skips;
};

static struct prepared_registry *registry;
static struct client clients[CLIENTS];
static struct server servers[SERVERS];
static size_t set_most;

/* ---- names and texts by number ---- */

static const char *name_of(int i)
{
	static const char *const names[NAMES] = {"s1", "s2", "S_1", "longer than that"};

	return names[i];
}

static const char *sql_of(int i)
{
	static const char *const texts[TEXTS] = {
	    "select 1", "select $1", "", "select 2", "  select 1", "discard all"};

	return texts[i];
}

static int text_index(const struct prepared_text *t)
{
	for (int i = 0; i < TEXTS; i++)
		if (strcmp(prepared_sql(t), sql_of(i)) == 0)
			return i;
	abort();
}

/* Through a Parse message, as a client sends it. */
static struct prepared_text *text_from_parse(int name, int text)
{
	struct buf b;
	const char *read;
	size_t rest;

	buf_init(&b, 0);
	codec_put_parse(&b, name_of(name), sql_of(text));
	assert(prepared_look(b.bytes, b.len, b.len, &read, &rest) == PREPARED_NAMED);
	assert(strcmp(read, name_of(name)) == 0);
	struct prepared_text *t =
	    prepared_intern(registry, "", b.bytes + rest, b.len - rest);
	assert(text_index(t) == text);
	buf_done(&b);
	return t;
}

/* ---- sending ---- */

static void note(struct server *s, uint32_t tag, enum prepared_change change, int thing,
    struct prepared_text *t)
{
	bool is_of_name =
	    change == PREPARED_NAME_ADDED || change == PREPARED_NAME_REMOVED;
	int value = change == PREPARED_NAME_ADDED     ? text_index(t)
		    : change == PREPARED_NAME_REMOVED ? NONE
						      : change == PREPARED_SET_ADDED;

	assert(!prepared_journal_note(
	    &s->journal, tag, change, is_of_name ? name_of(thing) : NULL, t));
	assert(s->change_count < FLIGHT_MOST);
	s->changes[s->change_count++] = (struct change){
	    .tag = tag, .thing = thing, .value = value, .is_of_name = is_of_name};
}

/* Tags wrap around and skip 0. */
static uint32_t next_tag(struct server *s)
{
	if (!++s->tag)
		s->tag = 1;
	return s->tag;
}

static void send_message(struct server *s, char type, uint32_t tag, uint64_t id)
{
	assert(s->sent < FLIGHT_MOST);
	s->flight[s->sent++] = (struct message){type, tag, id};
}

static void evict(struct server *s)
{
	struct prepared_text *t;

	while ((t = prepared_set_evict(&s->set, set_most))) {
		uint32_t tag = next_tag(s);
		note(s, tag, PREPARED_SET_REMOVED, text_index(t), t);
		send_message(s, 'C', tag, t->stored->id);
		prepared_unref(t);
	}
	assert(prepared_set_count(s->set) <= set_most);
}

static void send_parse(struct server *s, uint32_t tag, struct prepared_text *t)
{
	note(s, tag, PREPARED_SET_ADDED, text_index(t), t);
	assert(!prepared_set_add(&s->set, t));
	send_message(s, 'P', tag, t->stored->id);
	evict(s);
}

static void client_parses(struct client *c, struct server *s)
{
	int name = (int)below(NAMES), text = (int)below(TEXTS);
	uint32_t tag;

	if (prepared_names_find(c->names, name_of(name)))
		return;
	struct prepared_text *t = text_from_parse(name, text);
	tag = next_tag(s);
	note(s, tag, PREPARED_NAME_ADDED, name, t);
	assert(!prepared_names_put(&c->names, name_of(name), t, 0));
	if (prepared_set_has(s->set, t))
		send_message(s, 0, tag, 0);
	else
		send_parse(s, tag, t);
	prepared_unref(t);
}

/* A Bind that was renamed to the pooler's name must be read back with that name. */
static void check_bind(int name, const struct prepared_text *t)
{
	struct buf in, out;
	const char *read;
	size_t rest;

	buf_init(&in, 0);
	buf_init(&out, 0);
	size_t at = codec_begin(&in, 'B');
	buf_put_str(&in, "portal");
	buf_put_str(&in, name_of(name));
	buf_put(&in, "values", 6);
	codec_end(&in, at);
	prepared_rename(in.bytes, in.len, in.len, t->name, &out, &rest);
	buf_put(&out, in.bytes + rest, in.len - rest);
	assert(!out.failed && get_u32(out.bytes + 1) == out.len - 1);
	assert(
	    prepared_look(out.bytes, out.len, out.len, &read, &rest) == PREPARED_NAMED);
	assert(strcmp(read, t->name) == 0 && out.len - rest == 6);
	buf_done(&in);
	buf_done(&out);
}

static void client_binds(struct client *c, struct server *s)
{
	int name = (int)below(NAMES);
	struct prepared_text *t = prepared_names_find(c->names, name_of(name));

	if (!t)
		return;
	check_bind(name, t);
	if (!prepared_set_has(s->set, t))
		send_parse(s, next_tag(s), t);
	prepared_set_touch(s->set, t);
	send_message(s, 'B', next_tag(s), t->stored->id);
}

static void client_closes(struct client *c, struct server *s)
{
	int name = (int)below(NAMES);
	struct prepared_text *t = prepared_names_find(c->names, name_of(name));
	uint32_t tag = next_tag(s);

	if (t) {
		note(s, tag, PREPARED_NAME_REMOVED, name, t);
		assert(prepared_names_del(&c->names, name_of(name)));
	}
	send_message(s, 0, tag, 0);
}

/* ---- answering ---- */

static size_t held_at(const struct server *s, uint64_t id)
{
	size_t i = 0;

	while (i < s->held_count && s->held[i] != id)
		i++;
	return i;
}

/* Does what PostgreSQL does; returns false when the message fails. */
static bool carry_out(struct server *s, const struct message *m)
{
	size_t at = held_at(s, m->id);
	bool holds = at < s->held_count;

	if (m->type == 'P' && (holds || !below(6)))
		return false;
	if (m->type == 'B' && (!holds || !below(6)))
		return false;
	if (m->type == 'P') {
		/* The server holds each text once, so never more than there are. */
		assert(s->held_count < TEXTS);
		s->held[s->held_count++] = m->id;
	}
	if (m->type == 'C' && holds)
		s->held[at] = s->held[--s->held_count];
	return true;
}

static void fail_changes(struct server *s, uint32_t tag)
{
	prepared_journal_fail(&s->journal, tag);
	for (size_t i = 0; i < s->change_count; i++)
		if (s->changes[i].tag == tag)
			s->changes[i].has_failed = true;
}

static void undo(struct server *s)
{
	struct client *c = &clients[s->client];

	assert(!prepared_journal_undo(&s->journal, &c->names, &s->set));
	for (size_t i = 0; i < s->change_count; i++)
		s->changes[i].is_struck = s->changes[i].has_failed;
}

static void server_answers(struct server *s)
{
	if (s->answered == s->sent)
		return;
	const struct message *m = &s->flight[s->answered++];
	if (m->type == 'S') {
		if (s->skips && below(4)) /* else the change is undone later */
			undo(s);
		s->skips = false;
	} else if (s->skips || !carry_out(s, m)) {
		s->skips = true;
		fail_changes(s, m->tag);
	} else {
		prepared_journal_commit(&s->journal, m->tag);
	}
}

/* ---- links ---- */

static void link_peers(struct client *c, struct server *s)
{
	c->server = (int)(s - servers);
	s->client = (int)(c - clients);
	for (int i = 0; i < NAMES; i++) {
		const struct prepared_text *t =
		    prepared_names_find(c->names, name_of(i));
		c->base[i] = t ? text_index(t) : NONE;
	}
	memset(s->base, 0, sizeof(s->base));
	size_t count;
	struct prepared_text **all = prepared_registry_sorted(registry, &count);
	for (size_t i = 0; i < count; i++)
		s->base[text_index(all[i])] = prepared_set_has(s->set, all[i]);
	free(all);
}

static void unlink_peers(struct server *s)
{
	clients[s->client].server = NOWHERE;
	s->client = NOWHERE;
	s->change_count = s->sent = s->answered = 0;
	s->skips = false;
}

/* When everything is answered, the set is what the server knows. */
static void end_well(struct server *s)
{
	size_t count, held = 0;

	send_message(s, 'S', next_tag(s), 0);
	while (s->answered < s->sent)
		server_answers(s);
	undo(s);
	assert(!s->journal);
	struct prepared_text **all = prepared_registry_sorted(registry, &count);
	for (size_t i = 0; i < count; i++) {
		bool holds = held_at(s, all[i]->stored->id) < s->held_count;
		assert(prepared_set_has(s->set, all[i]) == holds);
		held += holds;
	}
	free(all);
	assert(held == s->held_count && held == prepared_set_count(s->set));
}

/* The server closes the connection; the client keeps its names. */
static void end_badly(struct server *s)
{
	prepared_journal_clear(&s->journal);
	assert(!s->journal);
	prepared_set_clear(&s->set);
	s->held_count = 0;
}

static void discard_all(struct server *s)
{
	prepared_set_clear(&s->set);
	prepared_names_clear(&clients[s->client].names);
	s->held_count = 0;
}

/* ---- checking ---- */

static void check_names(const struct client *c)
{
	int expected[NAMES];
	size_t count = 0;

	if (c->server == NOWHERE)
		return;
	const struct server *s = &servers[c->server];
	memcpy(expected, c->base, sizeof(expected));
	for (size_t i = 0; i < s->change_count; i++)
		if (s->changes[i].is_of_name && !s->changes[i].is_struck)
			expected[s->changes[i].thing] = s->changes[i].value;
	for (int i = 0; i < NAMES; i++) {
		const struct prepared_text *t =
		    prepared_names_find(c->names, name_of(i));
		assert((t ? text_index(t) : NONE) == expected[i]);
		count += expected[i] != NONE;
	}
	assert(prepared_names_count(c->names) == count && !count == !c->names);
}

static void check_set(const struct server *s)
{
	bool expected[TEXTS];
	size_t count, wanted = 0;

	if (s->client == NOWHERE)
		return;
	memcpy(expected, s->base, sizeof(expected));
	for (size_t i = 0; i < s->change_count; i++)
		if (!s->changes[i].is_of_name && !s->changes[i].is_struck)
			expected[s->changes[i].thing] = s->changes[i].value;
	struct prepared_text **all = prepared_registry_sorted(registry, &count);
	for (size_t i = 0; i < count; i++)
		assert(
		    prepared_set_has(s->set, all[i]) == expected[text_index(all[i])]);
	free(all);
	for (int i = 0; i < TEXTS; i++)
		wanted += expected[i];
	assert(prepared_set_count(s->set) == wanted && !wanted == !s->set);
}

/* A text has one reference for each name and set, and none exists without. */
static void check_counts(void)
{
	size_t count, in_flight = 0;
	struct prepared_text **all = prepared_registry_sorted(registry, &count);

	for (int i = 0; i < SERVERS; i++)
		in_flight += servers[i].journal != NULL;
	for (size_t i = 0; i < count; i++) {
		uint32_t named = 0, held = 0;
		for (int c = 0; c < CLIENTS; c++)
			for (int n = 0; n < NAMES; n++)
				named += prepared_names_find(
					     clients[c].names, name_of(n)) == all[i];
		for (int s = 0; s < SERVERS; s++)
			held += prepared_set_has(servers[s].set, all[i]);
		assert(all[i]->clients == named && all[i]->servers == held);
		assert(all[i]->refs >= named + held);
		assert(in_flight || all[i]->refs == named + held);
		assert(in_flight || all[i]->refs);
	}
	free(all);
}

static void check(void)
{
	for (int i = 0; i < CLIENTS; i++)
		check_names(&clients[i]);
	for (int i = 0; i < SERVERS; i++)
		check_set(&servers[i]);
	check_counts();
}

/* ---- random steps ---- */

static void step(struct server *s)
{
	if (s->client == NOWHERE) {
		struct client *c = &clients[below(CLIENTS)];
		if (c->server == NOWHERE)
			link_peers(c, s);
		return;
	}
	struct client *c = &clients[s->client];
	switch (below(16)) {
	case 0:
		end_well(s);
		check();
		if (!below(5))
			discard_all(s);
		unlink_peers(s);
		break;
	case 1:
		if (below(4))
			break;
		end_badly(s);
		unlink_peers(s);
		break;
	case 2:
		send_message(s, 'S', next_tag(s), 0);
		break;
	case 3:
		client_closes(c, s);
		break;
	case 4:
	case 5:
		client_binds(c, s);
		break;
	case 6:
	case 7:
	case 8:
		client_parses(c, s);
		break;
	default:
		server_answers(s);
	}
}

static void play(uint64_t seed)
{
	static const size_t sizes[] = {1, 2, 200};

	random_state = seed * 0x9e3779b97f4a7c15u + 1;
	set_most = sizes[below(3)];
	registry = prepared_registry_new(prepared_store_new(PREPARED_PREFIX));
	for (int i = 0; i < CLIENTS; i++)
		clients[i] = (struct client){.server = NOWHERE};
	memset(servers, 0, sizeof(servers));
	for (int i = 0; i < SERVERS; i++) {
		servers[i].client = NOWHERE;
		servers[i].tag = below(2) ? 0 : UINT32_MAX - below(40);
	}
	for (int i = 0; i < STEPS; i++) {
		step(&servers[below(SERVERS)]);
		check();
	}
	for (int i = 0; i < SERVERS; i++)
		end_badly(&servers[i]);
	for (int i = 0; i < CLIENTS; i++)
		prepared_names_clear(&clients[i].names);
	assert(prepared_registry_count(registry) == 0);
	prepared_registry_free(&registry);
}

/* ---- least recently used first ---- */

struct order {
	struct prepared_text *texts[TEXTS]; /* the least recently used first */
	size_t count;
};

static void order_take(struct order *o, const struct prepared_text *t)
{
	size_t i = 0;

	while (i < o->count && o->texts[i] != t)
		i++;
	if (i == o->count)
		return;
	o->count--;
	memmove(&o->texts[i], &o->texts[i + 1], (o->count - i) * sizeof(*o->texts));
}

static void order_insert(struct order *o, size_t at, struct prepared_text *t)
{
	memmove(&o->texts[at + 1], &o->texts[at], (o->count - at) * sizeof(*o->texts));
	o->texts[at] = t;
	o->count++;
}

static void order_step(
    struct order *o, struct prepared_set **set, struct prepared_text *t)
{
	bool has = prepared_set_has(*set, t);
	struct prepared_text *out;

	switch (below(5)) {
	case 0:
		assert(!prepared_set_add(set, t));
		order_take(o, t);
		order_insert(o, o->count, t);
		break;
	case 1:
		prepared_set_touch(*set, t);
		order_take(o, t);
		if (has)
			order_insert(o, o->count, t);
		break;
	case 2:
		assert(!prepared_set_restore(set, t));
		if (!has)
			order_insert(o, 0, t);
		break;
	case 3:
		prepared_set_del(set, t);
		order_take(o, t);
		break;
	default:
		out = prepared_set_evict(set, 3);
		assert(out == (o->count > 3 ? o->texts[0] : NULL));
		if (out)
			order_take(o, out);
		prepared_unref(out);
	}
}

static void play_order(void)
{
	struct prepared_set *set = NULL;
	struct prepared_text *texts[TEXTS], *out;
	struct order o = {.count = 0};

	registry = prepared_registry_new(prepared_store_new(PREPARED_PREFIX));
	for (int i = 0; i < TEXTS; i++)
		texts[i] = text_from_parse(0, i);
	for (int i = 0; i < 20 * STEPS; i++)
		order_step(&o, &set, texts[below(TEXTS)]);
	for (size_t i = 0; (out = prepared_set_evict(&set, 0)); i++) {
		assert(i < o.count && out == o.texts[i]);
		prepared_unref(out);
	}
	assert(!set);
	for (int i = 0; i < TEXTS; i++)
		prepared_unref(texts[i]);
	prepared_registry_free(&registry);
}

static unsigned current_round;

static void tell_round(int signal_number)
{
	(void)signal_number;
	fprintf(stderr, "round %u of this seed\n", current_round);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);

	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	signal(SIGABRT, tell_round);
	for (; current_round < ROUNDS; current_round++)
		play(seed * ROUNDS + current_round);
	for (int i = 0; i < 100; i++)
		play_order();
	return 0;
}
