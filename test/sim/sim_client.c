/*
 * Clients, which do what comes to their mind, and check everything that they are told:
 * each answer is the next one that they are owed, repeats their own tag, and comes from
 * a session with their own parameters.
 */
#include <arpa/inet.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim_login.h"
#include "sim_tls.h"
#include "wire/codec.h"

enum {
	OWED = 256,
	TAG = 40,
	STATEMENTS = 6,
	PORT = 6432,
	CANCELS = 4,
	PATIENCE_US = 400000000,
	/* A request that takes longer may have been given up before it arrives. */
	CANCEL_SURE_US = 900000,
	NOTE_PATIENCE_US = 200000000
};

enum owed_kind {
	OWES_PARSE, /* '1' */
	OWES_BIND,  /* '2' */
	OWES_CLOSE, /* '3' */
	OWES_DESCRIBED_STATEMENT,
	OWES_DESCRIBED,
	OWES_ROWS, /* of a tagged SELECT */
	OWES_TAG,  /* of a command */
	OWES_COPY_IN,
	OWES_COPY_OUT,
	OWES_EMPTY,
	OWES_READY,
};

enum effect {
	NO_EFFECT,
	BEGINS,
	COMMITS,
	ROLLS_BACK,
	SETS,
	SETS_LOCAL,
	RESETS,
	DISCARDS,
	LISTENS,
	UNLISTENS,
	MAKES_TEMP,
	DROPS_TEMP
};

struct owed {
	enum owed_kind kind;
	enum effect effect;
	char tag[TAG];
	char value[40];
	int guc;       /* of SETS, or a channel; -1: all */
	int statement; /* which prepared one it is about; -1: another */
	long rows, size;
	bool is_simple; /* its description comes with the rows */
	bool may_fail, has_notice, is_described, is_early, is_broken;
	bool may_lack; /* of OWES_BIND: nothing is prepared, perhaps */
	bool may_pin;  /* which too many may do */
	long seen;
	unsigned number; /* of all that the client has asked for */
};

enum state { GONE, CONNECTING, STARTING, SERVED };

/* A channel: whether the client listens, as far as is committed and in the transaction
 * that runs; what it must hear is newer than `since`. */
struct hearing {
	bool listens, listens_next;
	bool may, must;
	bool was_must; /* at its last ReadyForQuery */
	uint64_t since;
	uint64_t heard;   /* the number of the last notification */
	uint64_t checked; /* nothing is missing up to this number */
};

struct cancel {
	struct actor actor;    /* first */
	struct client *client; /* NULL: its connection is gone */
	uint64_t sent_us;
};

struct client {
	struct actor actor; /* first */
	struct event next;
	uint64_t rng;
	unsigned id;
	enum state state;
	const char *database;
	enum tls_way way;
	bool is_hasty;                 /* it leaves during the handshake */
	bool is_session, is_statement; /* the mode of its pool */
	bool is_kept;                  /* its session state is kept */
	bool is_in_crowd;              /* of those who use one pool */
	bool is_hearer;                /* it listens and soon leaves */
	struct hearing hearing[CHANNELS];
	long temp;       /* the number of its temporary table; 0: none */
	unsigned number; /* of its last tag */
	unsigned left;   /* how much it still does before it leaves */
	struct gucs model;
	char told[GUCS][GUC_LEN];
	char status;             /* of the last ReadyForQuery */
	bool has_failed;         /* since then */
	bool has[STATEMENTS];    /* what it has prepared, as answers have told */
	bool thinks[STATEMENTS]; /* with what is not answered yet */
	struct owed owed[OWED];
	unsigned first, count;
	struct buf out;
	uint8_t key[64];
	size_t key_len;
	uint64_t progress_us;
	struct cancel cancels[CANCELS];
	struct event cancel_due;
	unsigned asked;     /* how much it has asked for */
	unsigned cancel_to; /* what may be cancelled: up to this number */
	bool is_doubtful;   /* a request to cancel may be under way */
	bool was_cancelled; /* lately: it is impatient */
	bool is_finishing, is_dead;
	bool is_flushing; /* it has sent a Flush instead of a Sync */
	struct owed rest; /* what it executes then */
	bool has_select;  /* its unnamed statement is none but a SELECT */
	bool is_told_end; /* by a FATAL error */
	bool is_shut;     /* it has closed its half of the connection */
	struct sim_proof proof;
};

static struct client *clients;

static void next(struct event *e);

/* ---- what it asks for ---- */

static struct owed *owe(struct client *c, enum owed_kind kind)
{
	struct owed *o;

	MUST(c->count < OWED, "client %u asks for too much", c->id);
	o = &c->owed[(c->first + c->count++) % OWED];
	memset(o, 0, sizeof(*o));
	o->kind = kind;
	o->statement = -1;
	o->number = ++c->asked;
	return o;
}

static struct owed *head(struct client *c)
{
	return c->count ? &c->owed[c->first] : NULL;
}

static void drop_head(struct client *c)
{
	c->first = (c->first + 1) % OWED;
	c->count--;
}

static void flush(struct client *c)
{
	actor_send(&c->actor, c->out.bytes, c->out.len);
	buf_clear(&c->out);
}

static const char *next_tag(struct client *c)
{
	static char tag[TAG];

	snprintf(tag, sizeof(tag), "c%u.%u", c->id, ++c->number);
	return tag;
}

/* A literal for a server, and what it answers.  quick: it takes no time. */
static struct owed plan_rows(struct client *c, char *literal, size_t size)
{
	struct owed o = {.kind = OWES_ROWS, .statement = -1};
	long us = 0;

	snprintf(o.tag, sizeof(o.tag), "%s", next_tag(c));
	o.rows = (long)draw_below(&c->rng, 4);
	o.size = (long)draw_below(&c->rng, 60);
	if (draw_chance(&c->rng, 10)) {
		o.rows = (long)draw_between(&c->rng, 10, 400);
		o.size = (long)draw_between(&c->rng, 100, 3000);
	}
	o.may_fail = draw_chance(&c->rng, 40);
	o.has_notice = draw_chance(&c->rng, 30);
	if (draw_chance(&c->rng, world.habits.slow))
		us = (long)draw_between(&c->rng, 1,
		    draw_chance(&c->rng, 50) ? 4000000 : world.habits.slow_us);
	snprintf(literal, size, "%s rows=%ld size=%ld us=%ld%s%s", o.tag, o.rows,
	    o.size, us, o.may_fail ? " err=1" : "", o.has_notice ? " notice=1" : "");
	/* the server ends instead of answering */
	if (draw_fault(&c->rng, FAULT_SERVERS, 2000))
		snprintf(literal + strlen(literal), size - strlen(literal), " fatal=1");
	if (c->temp)
		snprintf(literal + strlen(literal), size - strlen(literal), " temp=%ld",
		    c->temp);
	return o;
}

static void put_back(struct client *c, const struct owed *plan)
{
	struct owed *o = owe(c, plan->kind);
	unsigned number = o->number;

	*o = *plan;
	o->number = number;
}

static void ask_simple(struct client *c)
{
	char literal[200];
	struct buf sql;
	unsigned n =
	    draw_chance(&c->rng, 150) ? (unsigned)draw_between(&c->rng, 2, 4) : 1;

	buf_init(&sql, 0);
	while (n--) {
		struct owed o = plan_rows(c, literal, sizeof(literal));
		o.is_simple = true;
		put_back(c, &o);
		buf_printf(&sql, "SELECT '%s'%s", literal, n ? "; " : "");
	}
	codec_put_query(&c->out, buf_text(&sql));
	buf_done(&sql);
	owe(c, OWES_READY);
}

static void ask_command(
    struct client *c, const char *sql, const char *tag, enum effect effect)
{
	struct owed *o = owe(c, OWES_TAG);

	snprintf(o->tag, sizeof(o->tag), "%s", tag);
	o->effect = effect;
	if (draw_chance(&c->rng, 300)) {
		codec_put_parse(&c->out, "", sql);
		c->has_select = false;
		codec_put_bind_text(&c->out, NULL, 0);
		codec_put_execute(&c->out);
		codec_put_sync(&c->out);
		struct owed command = *o;
		o->kind = OWES_PARSE;
		o->effect = NO_EFFECT;
		owe(c, OWES_BIND);
		put_back(c, &command);
	} else {
		codec_put_query(&c->out, sql);
	}
	owe(c, OWES_READY);
}

static void ask_begin(struct client *c)
{
	char sql[80];

	snprintf(sql, sizeof(sql), "BEGIN /* %s */", next_tag(c));
	ask_command(c, sql, "BEGIN", BEGINS);
}

static void ask_end(struct client *c)
{
	bool is_commit = c->status == 'T' && draw_chance(&c->rng, 700);

	ask_command(c, is_commit ? "COMMIT" : "ROLLBACK",
	    is_commit ? "COMMIT" : "ROLLBACK", is_commit ? COMMITS : ROLLS_BACK);
}

static const char *some_value(uint64_t *rng, int i)
{
	static const char *const values[GUCS][4] = {
	    {"UTF8", "LATIN1", "utf-8", "UTF8"},
	    {"ISO, MDY", "German, DMY", "iso", "SQL"},
	    {"Etc/UTC", "Europe/Berlin", "America/New_York", "UTC"},
	    {"app one", "app two", "x", "it''s"},
	    {"on", "on", "off", "true"},
	    {"postgres", "iso_8601", "sql_standard", "postgres"},
	    {"5s", "60000", "0", "1min"},
	    {"8MB", "4MB", "1GB", "64kB"},
	    {"public", "one, two", "three", "public"},
	};

	return values[i][draw_below(rng, 4)];
}

static void ask_set(struct client *c)
{
	int i = (int)draw_below(&c->rng, c->is_kept ? GUCS : REPORTED);
	const char *value = some_value(&c->rng, i), *quote;
	uint64_t kind = draw_below(&c->rng, 100);
	enum effect effect = kind < 55 ? SETS : kind < 75 ? SETS_LOCAL : RESETS;
	char sql[160];
	struct owed *o;

	if (kind >= 98 && c->status == 'I') {
		ask_command(c, "DISCARD ALL", "DISCARD ALL", DISCARDS);
		for (int k = 0; k < CHANNELS; k++)
			c->hearing[k].must = false;
		/* what is behind it in the model happens in order */
		return;
	}
	if (effect == RESETS && kind < 78)
		i = -1;
	if (effect == RESETS)
		snprintf(sql, sizeof(sql), "RESET %s", i < 0 ? "ALL" : guc_names[i]);
	else
		snprintf(sql, sizeof(sql), "SET %s%s %s '%s'",
		    effect == SETS_LOCAL ? "LOCAL " : "", guc_names[i],
		    draw_chance(&c->rng, 500) ? "=" : "TO", value);
	ask_command(c, sql, effect == RESETS ? "RESET" : "SET", effect);
	/* the command is the last but one that is owed */
	o = &c->owed[(c->first + c->count - 2) % OWED];
	o->guc = i;
	quote = strstr(value, "''");
	if (quote)
		snprintf(o->value, sizeof(o->value), "%.*s%s", (int)(quote - value + 1),
		    value, quote + 2);
	else
		snprintf(o->value, sizeof(o->value), "%s", value);
}

static struct owed *ask_with_effect(
    struct client *c, const char *sql, const char *tag, enum effect effect, int channel)
{
	ask_command(c, sql, tag, effect);
	struct owed *o = &c->owed[(c->first + c->count - 2) % OWED];
	o->guc = channel;
	for (unsigned i = 0; i < c->count; i++)
		c->owed[(c->first + i) % OWED].may_pin = effect != UNLISTENS;
	return o;
}

/* What outlives a transaction in a session, and is kept for it. */
static void ask_kept(struct client *c)
{
	static long last_temp;
	uint64_t kind = draw_below(&c->rng, 100);
	int channel = (int)draw_below(&c->rng, CHANNELS);
	char sql[80];

	if (c->is_hearer)
		kind = draw_between(&c->rng, 15, 50);
	if (kind < 15 && c->status == 'I') {
		bool is_made = !c->temp;
		long number = is_made ? ++last_temp : c->temp;
		snprintf(sql, sizeof(sql), "%s t%ld%s",
		    is_made ? "CREATE TEMP TABLE" : "DROP TABLE", number,
		    is_made ? " ()" : "");
		ask_with_effect(c, sql, is_made ? "CREATE TABLE" : "DROP TABLE",
		    is_made ? MAKES_TEMP : DROPS_TEMP, 0)
		    ->size = number;
	} else if (kind < 40 && !c->hearing[channel].may &&
		   c->is_hearer == (world.habits.hears > 0)) {
		c->hearing[channel].may = true;
		snprintf(sql, sizeof(sql), "LISTEN ch%d", channel);
		ask_with_effect(c, sql, "LISTEN", LISTENS, channel);
	} else if (kind < 50) {
		bool is_all = draw_chance(&c->rng, 200);
		for (int i = 0; i < CHANNELS; i++)
			c->hearing[i].must =
			    c->hearing[i].must && !is_all && i != channel;
		snprintf(
		    sql, sizeof(sql), is_all ? "UNLISTEN *" : "UNLISTEN ch%d", channel);
		ask_with_effect(c, sql, "UNLISTEN", UNLISTENS, is_all ? -1 : channel);
	} else {
		snprintf(sql, sizeof(sql), "NOTIFY ch%d, '%s'", channel, next_tag(c));
		ask_command(c, sql, "NOTIFY", NO_EFFECT);
	}
}

static void put_named(struct client *c, uint8_t type, const char *name, uint8_t what)
{
	size_t at = codec_begin(&c->out, type);

	if (what)
		buf_put_u8(&c->out, what);
	buf_put_str(&c->out, name);
	codec_end(&c->out, at);
}

static void put_bind(struct client *c, const char *name, const char *value)
{
	size_t at = codec_begin(&c->out, 'B');

	buf_put_str(&c->out, "");
	buf_put_str(&c->out, name);
	buf_put_u16(&c->out, 0);
	buf_put_u16(&c->out, 1);
	buf_put_u32(&c->out, (uint32_t)strlen(value));
	buf_put_text(&c->out, value);
	buf_put_u16(&c->out, 0);
	codec_end(&c->out, at);
}

/* One statement with a parameter, without its Sync. */
static void ask_prepared(struct client *c)
{
	int k = draw_chance(&c->rng, 300) ? -1 : (int)draw_below(&c->rng, STATEMENTS);
	char name[16] = "", text[80], literal[200];
	struct owed o = plan_rows(c, literal, sizeof(literal)), *p;

	if (k >= 0)
		snprintf(name, sizeof(name), "s%d", k);
	c->has_select = c->has_select || k < 0;
	if (k < 0 && draw_chance(&c->rng, 500))
		snprintf(text, sizeof(text), "SELECT $1 /* own c%u. */", c->id);
	else
		snprintf(text, sizeof(text), "SELECT $1 /* text %d */",
		    k >= 0 ? k : (int)draw_below(&c->rng, 3));
	if (k < 0 || !c->thinks[k]) {
		codec_put_parse(&c->out, name, text);
		p = owe(c, OWES_PARSE);
		p->statement = k;
		if (k >= 0)
			c->thinks[k] = true;
	}
	if (draw_chance(&c->rng, 150)) {
		put_named(c, 'D', name, 'S');
		owe(c, OWES_DESCRIBED_STATEMENT)->statement = k;
	}
	put_bind(c, name, literal);
	owe(c, OWES_BIND)->statement = k;
	if (draw_chance(&c->rng, 500)) {
		put_named(c, 'D', "", 'P');
		owe(c, OWES_DESCRIBED);
	}
	codec_put_execute(&c->out);
	put_back(c, &o);
	if (k >= 0 && draw_chance(&c->rng, 60)) {
		put_named(c, 'C', name, 'S');
		p = owe(c, OWES_CLOSE);
		p->statement = k;
		c->thinks[k] = false;
	}
}

static void ask_sync(struct client *c)
{
	codec_put_sync(&c->out);
	owe(c, OWES_READY);
}

static void ask_extended(struct client *c)
{
	unsigned n =
	    draw_chance(&c->rng, 250) ? (unsigned)draw_between(&c->rng, 2, 8) : 1;

	while (n--) {
		ask_prepared(c);
		if (n && draw_chance(&c->rng, 200))
			codec_end(&c->out, codec_begin(&c->out, 'H'));
		if (!n || draw_chance(&c->rng, 500))
			ask_sync(c);
	}
	if (draw_chance(&c->rng, 20)) {
		codec_put_parse(&c->out, "", "SELECT parse_error=1");
		owe(c, OWES_PARSE)->is_broken = true;
		ask_sync(c);
	}
}

/* Executes its unnamed statement once more, if there is one. */
static void ask_again(struct client *c)
{
	char literal[200];
	struct owed o = plan_rows(c, literal, sizeof(literal));

	put_bind(c, "", literal);
	owe(c, OWES_BIND)->may_lack = true;
	codec_put_execute(&c->out);
	put_back(c, &o);
	ask_sync(c);
}

/* Asks for the answers up to here, and goes on with the rest when they have come. */
static void ask_flushed(struct client *c)
{
	char literal[200];

	c->rest = plan_rows(c, literal, sizeof(literal));
	codec_put_parse(&c->out, "", "SELECT $1 /* flushed */");
	owe(c, OWES_PARSE);
	c->has_select = true;
	put_bind(c, "", literal);
	owe(c, OWES_BIND);
	put_named(c, 'D', "", 'P');
	owe(c, OWES_DESCRIBED);
	codec_end(&c->out, codec_begin(&c->out, 'H'));
	c->is_flushing = true;
}

static void ask_rest(struct client *c)
{
	c->is_flushing = false;
	if (!c->has_failed) {
		codec_put_execute(&c->out);
		put_back(c, &c->rest);
	}
	ask_sync(c);
	flush(c);
}

static void put_copy_data(struct client *c, const struct owed *o)
{
	char line[100];

	for (long i = 0; i < o->rows; i++) {
		size_t at = codec_begin(&c->out, 'd');
		snprintf(line, sizeof(line), "%s line %ld\n", o->tag, i);
		buf_put_text(&c->out, line);
		codec_end(&c->out, at);
	}
	if (o->may_fail) {
		size_t at = codec_begin(&c->out, 'f');
		buf_put_str(&c->out, "no more");
		codec_end(&c->out, at);
	} else {
		codec_end(&c->out, codec_begin(&c->out, 'c'));
	}
}

static void ask_copy(struct client *c)
{
	bool is_in = draw_chance(&c->rng, 500);
	struct owed *o = owe(c, is_in ? OWES_COPY_IN : OWES_COPY_OUT);
	char sql[160];

	snprintf(o->tag, sizeof(o->tag), "%s", next_tag(c));
	o->rows = (long)draw_below(&c->rng, draw_chance(&c->rng, 100) ? 3000 : 20);
	o->may_fail = draw_chance(&c->rng, 100);
	o->is_early = is_in && draw_chance(&c->rng, world.habits.early);
	snprintf(sql, sizeof(sql), "COPY t %s /* %s rows=%ld%s */",
	    is_in ? "FROM STDIN" : "TO STDOUT", o->tag, o->rows,
	    o->may_fail && !is_in ? " err=1" : "");
	codec_put_query(&c->out, sql);
	if (o->is_early)
		put_copy_data(c, o);
	owe(c, OWES_READY);
}

static void ask_several(struct client *c)
{
	unsigned n = (unsigned)draw_between(&c->rng, 2, 5);

	while (n--)
		draw_chance(&c->rng, 500) ? ask_simple(c) : ask_extended(c);
}

/* ---- cancelling ---- */

static void cancel_connected(struct actor *a)
{
	(void)a;
}

static void cancel_received(struct actor *a)
{
	size_t len;

	(void)actor_bytes(a, &len);
	actor_take(a, len);
}

/* What is asked for from now on is not cancelled, if the request was not lost. */
static void cancel_ended(struct actor *a, int errnum)
{
	const struct cancel *cancel = (struct cancel *)a;
	struct client *c = cancel->client;
	bool is_sure = !errnum && world.now_us - cancel->sent_us < CANCEL_SURE_US &&
		       !(world.options.faults & FAULT_KILL);

	actor_close(a, false);
	if (!c)
		return;
	c->is_doubtful = c->is_doubtful || !is_sure;
	for (int i = 0; i < CANCELS; i++)
		is_sure = is_sure && !actor_is_open(&c->cancels[i].actor);
	if (is_sure && !c->is_doubtful)
		c->cancel_to = c->asked;
}

static void address_of(const struct client *c, struct sockaddr_in *from)
{
	char ip[20];

	memset(from, 0, sizeof(*from));
	from->sin_family = AF_INET;
	from->sin_port = htons((uint16_t)(20000 + c->id));
	snprintf(ip, sizeof(ip), "10.2.%u.%u", c->id / 250, c->id % 250 + 1);
	inet_pton(AF_INET, ip, &from->sin_addr);
}

static void send_cancel(struct event *e)
{
	static const struct actor_ops ops = {
	    cancel_connected, cancel_received, cancel_ended};
	struct client *c = container_of(e, struct client, cancel_due);
	struct sockaddr_in from;
	struct buf b;

	if (c->state != SERVED)
		return;
	for (int i = 0; i < CANCELS; i++) {
		struct actor *a = &c->cancels[i].actor;
		if (actor_is_open(a))
			continue;
		actor_init(a, &ops);
		address_of(c, &from);
		c->cancels[i].client = c;
		c->cancels[i].sent_us = world.now_us;
		c->cancel_to = UINT_MAX;
		note("cancel", c->id, c->number);
		actor_connect(a, &from, "127.0.0.1", PORT);
		sim_tls_connect(a, c->way);
		buf_init(&b, 0);
		codec_put_cancel_request(&b, c->key, c->key_len);
		/* as some drivers do */
		if (draw_chance(&c->rng, 100))
			codec_put_terminate(&b);
		actor_send(a, b.bytes, b.len);
		buf_done(&b);
		if (c->way == TLS_WAY_NONE && draw_chance(&c->rng, 100)) {
			actor_shut(a);
			c->is_doubtful = true;
		}
		break;
	}
	if (draw_chance(&c->rng, 150))
		event_in(e, draw_below(&c->rng, 3000));
}

/* ---- its connection ---- */

static void forget_connection(struct client *c)
{
	event_cancel(&c->cancel_due);
	buf_done(&c->out);
	sim_proof_done(&c->proof);
	c->first = c->count = 0;
	c->state = GONE;
	c->status = 0;
	for (int i = 0; i < CANCELS; i++)
		c->cancels[i].client = NULL;
	c->cancel_to = c->asked = 0;
	c->is_doubtful = c->was_cancelled = false;
	c->has_failed = c->is_shut = c->is_told_end = false;
	c->has_select = c->is_flushing = false;
	memset(c->has, 0, sizeof(c->has));
	memset(c->thinks, 0, sizeof(c->thinks));
	memset(c->hearing, 0, sizeof(c->hearing));
	c->temp = 0;
	if (c->is_finishing)
		c->is_dead = true;
	else
		event_in(&c->next, draw_between(&c->rng, 1000,
				       c->is_hearer                ? 3000
				       : draw_chance(&c->rng, 300) ? 30000000
								   : 500000));
}

static void leave(struct client *c, bool is_reset)
{
	note("client leaves", c->id, is_reset);
	actor_close(&c->actor, is_reset);
	forget_connection(c);
}

static bool may_be_cut(void)
{
	return world.options.faults &
	       (FAULT_RESET | FAULT_SERVERS | FAULT_ADMIN | FAULT_RELOAD | FAULT_CALLS |
		   FAULT_DNS | FAULT_STALLS | FAULT_LATE | FAULT_KILL);
}

/* The last message may be incomplete, but nothing else stands in it.  Is it an error?
 * One that does not fit into the queue of a login is sent in part: nobody waits until a
 * stranger has taken the rest. */
static bool check_last(const struct client *c)
{
	size_t len;
	const uint8_t *p = actor_bytes(&c->actor, &len);

	MUST(len < 8 || !memmem(p + 8, len - 8, "SFATAL", 7),
	    "client %u got an error within a message of type '%c'", c->id, *p);
	return len && *p == 'E';
}

static void ended(struct actor *a, int errnum)
{
	struct client *c = (struct client *)a;

	bool is_cut_error = check_last(c) && c->state != SERVED;

	note("client is cut", c->id, (uint64_t)errnum);
	MUST(may_be_cut() || c->is_shut || c->is_told_end || is_cut_error ||
		 sim_tls_is_refused(c->way),
	    "client %u lost its connection (%s) without a reason", c->id,
	    errnum ? strerror(errnum) : "closed");
	world.counts.refused += c->state != SERVED;
	leave(c, false);
}

static void set_start(struct client *c, struct buf *b, int i)
{
	const char *value = some_value(&c->rng, i);

	if (strchr(value, '\''))
		return;
	codec_put_param(b, guc_names[i], value);
	gucs_start(&c->model, i, value);
}

static void connected(struct actor *a)
{
	struct client *c = (struct client *)a;
	bool is_asked = config_asks_for_proof() && strcmp(c->database, "app") == 0;
	bool is_wrong = config_asks_for_proof() && draw_chance(&c->rng, 20);
	char user[16];

	snprintf(user, sizeof(user), "u%u",
	    c->is_in_crowd ? 0 : (unsigned)draw_below(&c->rng, is_asked ? 4 : 3));
	sim_proof_begin(&c->proof, user, is_wrong);
	c->state = STARTING;
	gucs_init(&c->model);
	memset(c->told, 0, sizeof(c->told));
	size_t at = codec_begin_startup(&c->out, 0x30000);
	codec_put_param(&c->out, "user", user);
	codec_put_param(&c->out, "database", c->database);
	for (int i = 0; i < REPORTED; i++)
		if (draw_chance(&c->rng, world.habits.starts))
			set_start(c, &c->out, i);
	codec_end_startup(&c->out, at);
	flush(c);
}

static void connect_now(struct client *c)
{
	static const char *const databases[] = {
	    "app", "app", "sess", "stmt", "named", "both", "kept", "kept"};
	struct sockaddr_in from;

	/* those of session mode would wait for too long */
	static const char *const crowded[] = {"app", "stmt", "named", "both", "kept"};
	c->database = databases[draw_below(&c->rng, 8)];
	c->is_in_crowd = draw_chance(&c->rng, world.habits.crowd);
	if (c->is_in_crowd)
		c->database = crowded[world.habits.crowded % 5];
	c->is_kept = strcmp(c->database, "kept") == 0;
	c->is_session = strcmp(c->database, "sess") == 0;
	c->is_statement = strcmp(c->database, "stmt") == 0;
	/* those of session mode keep a server for as long */
	bool is_long = draw_chance(&c->rng, 300) && !c->is_session;
	c->is_hearer = c->is_kept && draw_chance(&c->rng, world.habits.hears);
	c->left = (unsigned)draw_between(&c->rng, 1,
	    c->is_hearer ? 3
	    : is_long    ? 400
			 : 30);
	c->state = CONNECTING;
	c->progress_us = world.now_us;
	address_of(c, &from);
	note("client connects", c->id, 0);
	actor_connect(&c->actor, &from, "127.0.0.1", PORT);
	c->way = sim_tls_choose(&c->rng);
	sim_tls_connect(&c->actor, c->way);
	c->is_hasty = c->way && draw_fault(&c->rng, FAULT_CLIENTS, 20000);
	if (c->is_hasty)
		event_in(&c->next, draw_below(&c->rng, 5000));
}

/* ---- what it is told ---- */

static void check_told(struct client *c)
{
	for (int i = 0; i < REPORTED; i++)
		MUST(strcmp(c->told[i], c->model.of[i].now.text) == 0,
		    "client %u was told that %s is \"%s\", and it is \"%s\"", c->id,
		    guc_names[i], c->told[i], c->model.of[i].now.text);
}

/* A transaction ends: what it hears from now on. */
static void end_transaction(struct client *c, bool is_commit)
{
	gucs_end(&c->model, is_commit);
	for (int i = 0; i < CHANNELS; i++) {
		struct hearing *h = &c->hearing[i];
		if (is_commit)
			h->listens = h->listens_next;
		h->listens_next = h->may = h->listens;
		if (h->listens && !h->must)
			h->since = notifications();
		h->must = h->listens;
	}
}

static void apply(struct client *c, const struct owed *o)
{
	if (!c->model.in_transaction)
		gucs_begin(&c->model);
	switch (o->effect) {
	case NO_EFFECT:
	case BEGINS:
		break;
	case COMMITS:
	case ROLLS_BACK:
		end_transaction(c, o->effect == COMMITS);
		break;
	case LISTENS:
		c->hearing[o->guc].listens_next = true;
		break;
	case UNLISTENS:
		for (int i = 0; i < CHANNELS; i++)
			if (o->guc < 0 || o->guc == i)
				c->hearing[i].listens_next = false;
		break;
	case MAKES_TEMP:
		c->temp = o->size;
		break;
	case DROPS_TEMP:
		c->temp = 0;
		break;
	case SETS:
	case SETS_LOCAL:
		(void)gucs_set(&c->model, o->guc, o->value, o->effect == SETS_LOCAL);
		break;
	case RESETS:
		gucs_reset(&c->model, o->guc);
		break;
	case DISCARDS:
		for (int i = 0; i < CHANNELS; i++)
			c->hearing[i].listens_next = false;
		gucs_end(&c->model, true);
		gucs_reset(&c->model, -1);
		memset(c->has, 0, sizeof(c->has));
		c->temp = 0;
		break;
	}
}

static char status_after(const struct client *c, const struct owed *o)
{
	switch (o->effect) {
	case BEGINS:
		return 'T';
	case COMMITS:
	case ROLLS_BACK:
		return 'I';
	default:
		return c->status;
	}
}

static void is_ready(struct client *c, uint8_t status)
{
	struct owed *o = head(c);

	MUST(o && o->kind == OWES_READY,
	    "client %u got ReadyForQuery while it is owed %d", c->id,
	    o ? (int)o->kind : -1);
	drop_head(c);
	if (!c->count)
		memcpy(c->thinks, c->has, sizeof(c->has));
	if (c->has_failed && c->status == 'T') {
		c->status = 'E';
		gucs_end(&c->model, false);
	}
	MUST(status == (uint8_t)c->status, "client %u is in state %c and was told %c",
	    c->id, c->status, status);
	if (status == 'I')
		end_transaction(c, !c->has_failed);
	c->has_failed = false;
	for (int i = 0; i < CHANNELS; i++)
		c->hearing[i].was_must = c->hearing[i].must;
	check_told(c);
	world.counts.queries++;
	world.counts.transactions += status == 'I';
	if (!c->count)
		event_in(&c->next, draw_chance(&c->rng, 100) && !c->is_hearer
				       ? draw_between(&c->rng, 1000,
					     c->status == 'I' ? 20000000 : 3000000)
				       : draw_below(&c->rng, 2000));
}

/* ERROR: what was skipped leaves nothing behind. */
static void has_failed(struct client *c)
{
	struct owed *o;

	c->has_failed = true;
	c->has_select = false;
	while ((o = head(c)) && o->kind != OWES_READY)
		drop_head(c);
	MUST(o || c->is_flushing, "client %u got an error that belongs to nothing",
	    c->id);
}

/* It has given a wrong password, or logs in together with too many others. */
static bool is_refused(const struct client *c, const char *sqlstate)
{
	return c->state != SERVED &&
	       ((c->proof.is_wrong && strcmp(sqlstate, "28P01") == 0) ||
		   strcmp(sqlstate, "53300") == 0);
}

static void got_error(struct client *c, const uint8_t *body, size_t len)
{
	struct owed *o = head(c);
	struct error_fields f;

	MUST(codec_read_error(body, len, &f) == 0,
	    "client %u got an error that is none", c->id);
	note_bytes("client error", c->id, f.message, strlen(f.message));
	SEEN("client %u: %s %s %s", c->id, f.severity, f.sqlstate, f.message);
	world.counts.errors++;
	if (strcmp(f.severity, "FATAL") == 0) {
		MUST(sim_tls_is_refused(c->way) ||
			 ((may_be_cut() || is_refused(c, f.sqlstate)) &&
			     strcmp(f.sqlstate, "08P01") != 0 &&
			     strcmp(f.sqlstate, "53200") != 0),
		    "client %u got FATAL %s: %s", c->id, f.sqlstate, f.message);
		world.counts.refused += c->state != SERVED;
		c->is_told_end = true;
		return;
	}
	SEEN("client %u is owed %d %s", c->id, o ? (int)o->kind : -1, o ? o->tag : "");
	MUST(c->state == SERVED && o, "client %u got ERROR %s: %s", c->id, f.sqlstate,
	    f.message);
	if (strcmp(f.sqlstate, "57014") == 0 && o->kind == OWES_COPY_IN &&
	    o->may_fail && strncmp(f.message, "COPY", 4) == 0)
		;
	else if (strcmp(f.sqlstate, "57014") == 0)
		MUST(o->number <= c->cancel_to,
		    "client %u was cancelled (%s) and has not asked for it", c->id,
		    o->tag);
	else if (strcmp(f.sqlstate, "53400") == 0)
		MUST(o->may_pin || (c->is_kept && o->kind == OWES_READY),
		    "client %u got ERROR %s: %s", c->id, f.sqlstate, f.message);
	else if (strcmp(f.sqlstate, "25P02") == 0)
		MUST(c->status == 'E', "client %u got ERROR %s: %s", c->id, f.sqlstate,
		    f.message);
	else if (strcmp(f.sqlstate, "26000") == 0 || strcmp(f.sqlstate, "42P05") == 0)
		MUST(o->may_lack || (o->statement >= 0 && c->has[o->statement] ==
							      (o->kind == OWES_PARSE)),
		    "client %u got ERROR %s: %s (%d)", c->id, f.sqlstate, f.message,
		    o->statement);
	else if (strcmp(f.sqlstate, "42601") == 0)
		MUST(o->is_broken, "client %u got ERROR %s: %s", c->id, f.sqlstate,
		    f.message);
	else
		MUST(strcmp(f.sqlstate, "22012") == 0 && o->may_fail &&
			 strcmp(f.message, o->tag) == 0,
		    "client %u (%s) got ERROR %s: %s", c->id, o->tag, f.sqlstate,
		    f.message);
	c->was_cancelled = strcmp(f.sqlstate, "57014") == 0;
	/* the transaction is committed, and what it has left in the session is lost */
	if (strcmp(f.sqlstate, "53400") == 0 && o->kind == OWES_READY) {
		for (int i = 0; i < CHANNELS; i++)
			c->hearing[i].listens_next =
			    c->hearing[i].must && c->hearing[i].was_must;
		end_transaction(c, true);
		for (int i = 0; i < CHANNELS; i++)
			c->hearing[i].may |= c->hearing[i].was_must;
		return;
	}
	has_failed(c);
}

static void got_row(struct client *c, const uint8_t *body, size_t len)
{
	struct owed *o = head(c);
	char parameters[GUCS * GUC_LEN];
	const uint8_t *value;
	size_t count, size;
	struct cursor cursor;

	MUST(o && o->kind == OWES_ROWS, "client %u got a row that nobody asked for",
	    c->id);
	cursor_init(&cursor, body, len);
	MUST(codec_read_row_count(&cursor, &count) == 0 && count == 3,
	    "client %u got a strange row", c->id);
	(void)codec_next_field(&cursor, &value, &size);
	MUST(size == strlen(o->tag) && memcmp(value, o->tag, size) == 0,
	    "client %u asked for %s and got %.*s", c->id, o->tag, (int)size,
	    (const char *)value);
	(void)codec_next_field(&cursor, &value, &size);
	gucs_text(&c->model, parameters, sizeof(parameters));
	MUST(size == strlen(parameters) && memcmp(value, parameters, size) == 0,
	    "client %u (%s) has %s and its server %.*s", c->id, o->tag, parameters,
	    (int)size, (const char *)value);
	(void)codec_next_field(&cursor, &value, &size);
	MUST(
	    (long)size == o->size, "client %u (%s) got %zu bytes", c->id, o->tag, size);
	for (size_t i = 0; i < size; i++)
		MUST(value[i] == 'a' + o->tag[strlen(o->tag) - 1] % 26,
		    "client %u (%s) got other bytes", c->id, o->tag);
	o->seen++;
}

/* It hears everything once, and in the order of commits. */
static void got_notification(struct client *c, const uint8_t *body, size_t len)
{
	const char *name, *payload;
	struct hearing *h;
	struct cursor cursor;
	uint64_t number;
	int channel;

	cursor_init(&cursor, body, len);
	(void)cursor_u32(&cursor);
	name = cursor_str(&cursor);
	payload = cursor_str(&cursor);
	MUST(!cursor.overrun && strchr(payload, ' '),
	    "client %u got a strange notification", c->id);
	channel = channel_find(name);
	number = strtoull(strchr(payload, ' '), NULL, 10);
	world.counts.notifications++;
	SEEN("client %u hears %s: %s", c->id, name, payload);
	MUST(channel == notification_channel(number) && c->hearing[channel].may,
	    "client %u heard %s of %s and does not listen", c->id, payload, name);
	h = &c->hearing[channel];
	MUST(number > h->heard, "client %u heard %s of %s after number %llu", c->id,
	    payload, name, (unsigned long long)h->heard);
	for (uint64_t n = (h->heard > h->since ? h->heard : h->since) + 1; n < number;
	     n++)
		MUST(!h->must || notification_channel(n) != channel,
		    "client %u heard number %llu, and not %llu of %s before it", c->id,
		    (unsigned long long)number, (unsigned long long)n, name);
	h->heard = number;
}

/* Nothing that it must hear comes too late.  It comes behind an answer, which may take
 * long to arrive. */
static void check_hearing(struct client *c)
{
	for (int i = 0; i < CHANNELS; i++) {
		struct hearing *h = &c->hearing[i];
		if (h->checked < h->heard)
			h->checked = h->heard;
		if (h->checked < h->since)
			h->checked = h->since;
		while (
		    h->must && h->checked < notifications() &&
		    notification_us(h->checked + 1) + NOTE_PATIENCE_US < world.now_us)
			MUST(notification_channel(++h->checked) != i,
			    "client %u has not heard number %llu of ch%d", c->id,
			    (unsigned long long)h->checked, i);
	}
}

static void got_complete(struct client *c, const char *tag)
{
	struct owed *o = head(c), was;
	char wanted[TAG + 8];

	MUST(o, "client %u got %s that nobody asked for", c->id, tag);
	was = *o;
	if (o->kind == OWES_ROWS)
		snprintf(wanted, sizeof(wanted), "SELECT %ld", o->rows);
	else if (o->kind == OWES_COPY_IN || o->kind == OWES_COPY_OUT)
		snprintf(wanted, sizeof(wanted), "COPY %ld", o->rows);
	else
		snprintf(wanted, sizeof(wanted), "%s", o->tag);
	MUST(o->kind >= OWES_ROWS && o->kind <= OWES_COPY_OUT &&
		 strcmp(tag, wanted) == 0 &&
		 (o->kind != OWES_ROWS || o->seen == o->rows),
	    "client %u is owed %s (%d) and got %s", c->id, wanted, (int)o->kind, tag);
	drop_head(c);
	apply(c, &was);
	c->status = status_after(c, &was);
}

static void expect(struct client *c, enum owed_kind kind, uint8_t type)
{
	struct owed *o = head(c);

	MUST(o && o->kind == kind, "client %u got '%c' while it is owed %d", c->id,
	    type, o ? (int)o->kind : -1);
	if (o->statement >= 0 && kind == OWES_BIND)
		MUST(c->has[o->statement], "client %u has not prepared s%d", c->id,
		    o->statement);
	if (o->statement >= 0 && (kind == OWES_PARSE || kind == OWES_CLOSE))
		c->has[o->statement] = kind == OWES_PARSE;
	drop_head(c);
}

static void got_description(struct client *c)
{
	struct owed *o = head(c);

	if (o && o->kind == OWES_ROWS && o->is_simple && !o->is_described) {
		o->is_described = true;
		return;
	}
	if (o && o->kind == OWES_DESCRIBED_STATEMENT && o->seen)
		expect(c, OWES_DESCRIBED_STATEMENT, 'T');
	else
		expect(c, OWES_DESCRIBED, 'T');
}

static void got_copy(struct client *c, uint8_t type, const uint8_t *body, size_t len)
{
	struct owed *o = head(c);
	char line[100];

	MUST(o && o->kind == (type == 'G' ? OWES_COPY_IN : OWES_COPY_OUT),
	    "client %u got '%c' and has no such COPY", c->id, type);
	if (type == 'G' && !o->is_early) {
		put_copy_data(c, o);
		flush(c);
	}
	if (type == 'd') {
		snprintf(line, sizeof(line), "%s %ld\n", o->tag, o->seen++);
		MUST(len == strlen(line) && memcmp(line, body, len) == 0,
		    "client %u (COPY %s) got other data", c->id, o->tag);
	}
}

static void got_served(struct client *c)
{
	MUST(c->key_len, "client %u has no key", c->id);
	c->state = SERVED;
	c->status = 'I';
	world.counts.logins++;
	check_told(c);
	event_in(&c->next, draw_below(&c->rng, 20000));
}

static void got(struct client *c, uint8_t type, const uint8_t *body, size_t len)
{
	const char *name, *value;
	uint8_t status;
	struct owed *o;
	int i;

	MUST(!c->is_told_end, "client %u got '%c' after a FATAL error", c->id, type);
	c->progress_us = world.now_us;
	switch (type) {
	case 'R':
		MUST(c->state == STARTING, "client %u: another login", c->id);
		(void)sim_proof_answer(&c->proof, body, len, &c->out);
		flush(c);
		return;
	case 'K':
		MUST(c->state == STARTING && len <= sizeof(c->key),
		    "client %u: another key", c->id);
		memcpy(c->key, body, len);
		c->key_len = len;
		return;
	case 'S':
		MUST(codec_read_parameter_status(body, len, &name, &value) == 0,
		    "no parameter");
		i = guc_find(name);
		if (i >= 0)
			snprintf(c->told[i], GUC_LEN, "%s", value);
		return;
	case 'N':
		return;
	case 'E':
		got_error(c, body, len);
		return;
	case 'Z':
		status = *body;
		c->state == STARTING ? got_served(c) : is_ready(c, status);
		return;
	case '1':
		expect(c, OWES_PARSE, type);
		return;
	case '2':
		expect(c, OWES_BIND, type);
		return;
	case '3':
		expect(c, OWES_CLOSE, type);
		return;
	case 't':
		o = head(c);
		MUST(o && o->kind == OWES_DESCRIBED_STATEMENT, "client %u got 't'",
		    c->id);
		o->seen = 1;
		return;
	case 'T':
		got_description(c);
		return;
	case 'D':
		got_row(c, body, len);
		return;
	case 'C':
		got_complete(c, (const char *)body);
		return;
	case 'A':
		got_notification(c, body, len);
		return;
	case 'G':
	case 'H':
	case 'd':
	case 'c':
		got_copy(c, type, body, len);
		return;
	default:
		failed("client %u got a message of type '%c'", c->id, type);
	}
}

static void received(struct actor *a)
{
	struct client *c = (struct client *)a;
	const uint8_t *p;
	size_t len, size;

	while (actor_is_open(a)) {
		p = actor_bytes(a, &len);
		if (len < 5 || len < (size = 1 + get_u32(p + 1)))
			return;
		uint8_t *copy = mem_dup(p, size);
		actor_take(a, size);
		got(c, copy[0], copy + 5, size - 5);
		mem_free(copy);
		if (actor_is_open(a) && c->is_flushing && !c->count)
			event_in(&c->next, draw_below(&c->rng, 3000));
	}
}

/* ---- what it does next ---- */

static void ask_something(struct client *c)
{
	uint64_t kind = draw_below(&c->rng, 100);

	if (c->is_kept && c->status != 'E' &&
	    (c->is_hearer || draw_chance(&c->rng, 200)))
		ask_kept(c);
	else if (c->status == 'E' || (c->status == 'T' && kind < 30))
		ask_end(c);
	else if (c->status == 'I' && kind < 25 && !c->is_statement)
		ask_begin(c);
	else if (kind < 28 && c->has_select)
		ask_again(c);
	else if (kind < 32)
		ask_flushed(c);
	else if (kind < 45)
		ask_simple(c);
	else if (kind < 70)
		ask_extended(c);
	else if (!c->is_statement &&
		 (kind < 80 ||
		     (world.habits.sets && draw_chance(&c->rng, world.habits.sets))))
		ask_set(c);
	else if (kind < 88)
		ask_copy(c);
	else
		ask_several(c);
	flush(c);
	if (draw_fault(&c->rng, FAULT_CANCEL,
		world.habits.cancels * (c->was_cancelled ? 3 : 1))) {
		static const uint64_t most_us[] = {100, 3000, 50000};
		c->cancel_due.run = send_cancel;
		event_in(&c->cancel_due,
		    draw_below(&c->rng, most_us[draw_below(&c->rng, 3)]));
	}
	c->was_cancelled = false;
	c->progress_us = world.now_us;
}

static void say_goodbye(struct client *c)
{
	if (draw_chance(&c->rng, 700)) {
		codec_put_terminate(&c->out);
		flush(c);
	}
	leave(c, false);
}

static void next(struct event *e)
{
	struct client *c = container_of(e, struct client, next);

	if (c->state == GONE) {
		if (c->is_finishing)
			c->is_dead = true;
		else
			connect_now(c);
		return;
	}
	if (c->is_hasty && c->state != SERVED) {
		leave(c, draw_chance(&c->rng, 500));
		return;
	}
	if (c->state != SERVED || c->count || c->is_shut)
		return;
	if (c->is_flushing) {
		ask_rest(c);
		return;
	}
	if ((c->is_finishing && c->status == 'I') ||
	    (c->left == 0 && c->status == 'I')) {
		say_goodbye(c);
		return;
	}
	if (c->left)
		c->left--;
	if (c->is_finishing) {
		ask_end(c);
		flush(c);
		return;
	}
	ask_something(c);
	/* it may vanish while it waits, or even before everything is sent */
	if (draw_fault(&c->rng, FAULT_CLIENTS, 10000)) {
		if (draw_chance(&c->rng, 300)) {
			c->is_shut = true;
			actor_shut(&c->actor);
		} else {
			leave(c, draw_chance(&c->rng, 500));
		}
	}
}

/* ---- all of them ---- */

void clients_init(void)
{
	static const struct actor_ops ops = {connected, received, ended};

	clients = mem_zero(world.options.clients * sizeof(*clients));
	for (unsigned i = 0; i < world.options.clients; i++) {
		struct client *c = &clients[i];
		c->id = i;
		c->rng = rng_for("client", i);
		c->next.run = next;
		buf_init(&c->out, 0);
		actor_init(&c->actor, &ops);
		c->is_dead = i < 64 && !(world.options.mask >> i & 1);
		if (!c->is_dead)
			event_in(&c->next, draw_below(&c->rng, 5000000));
	}
}

void clients_finish(void)
{
	for (unsigned i = 0; i < world.options.clients; i++) {
		struct client *c = &clients[i];
		c->is_finishing = true;
		if (!c->is_dead &&
		    (c->state == GONE || (c->state == SERVED && !c->count)))
			event_in(&c->next, 0);
	}
}

bool clients_are_done(void)
{
	for (unsigned i = 0; i < world.options.clients; i++) {
		if (!clients[i].is_dead)
			return false;
		for (int j = 0; j < CANCELS; j++)
			if (actor_is_open(&clients[i].cancels[j].actor))
				return false;
	}
	return true;
}

void clients_check(void)
{
	static const char *const states[] = {
	    "gone", "connecting", "starting", "served"};

	for (unsigned i = 0; i < world.options.clients; i++) {
		struct client *c = &clients[i];
		if (c->is_kept && c->state == SERVED && !c->count)
			check_hearing(c);
		bool waits = c->state == CONNECTING || c->state == STARTING || c->count;
		MUST(!waits || world.now_us - c->progress_us < PATIENCE_US,
		    "client %u (%s, %s, status %c) waits for ever for %s (%d)", i,
		    states[c->state], c->database, c->status ? c->status : '-',
		    c->count ? head(c)->tag : "its login",
		    c->count ? (int)head(c)->kind : -1);
	}
}
