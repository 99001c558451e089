/*
 * What sessions of servers have beside parameters: a temporary table, channels to which
 * they listen, notifications that are sent and wait; and what the pooler is told when
 * it asks what is left in a session (session_state=keep).
 */
#include "sim_notify.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "relay/listen_table.h"
#include "wire/codec.h"

/* the pooler's own channel, behind those of clients */
enum { MARKS = CHANNELS };
enum { SIGNAL_US = 300, SIGNAL_MOST_US = 20000 };

static struct {
	struct list sessions; /* struct belongings by .node */
	struct note {
		int channel;
		uint64_t at_us;
	} * notes; /* that were committed */
	uint64_t count, room;
	uint64_t rng;
} all;

void belongings_init(struct belongings *b, uint32_t pid, void (*run)(struct event *e))
{
	if (!all.sessions.head.next) {
		list_init(&all.sessions);
		all.rng = rng_for("notify", 0);
	}
	b->pid = pid;
	b->signal.run = run;
	buf_init(&b->notes, 0);
	list_push_back(&all.sessions, &b->node);
}

void belongings_done(struct belongings *b)
{
	list_remove(&all.sessions, &b->node);
	event_cancel(&b->signal);
	buf_done(&b->notes);
}

/* ---- channels ---- */

int channel_find(const char *name)
{
	if (strcmp(name, LISTEN_MARKS) == 0)
		return MARKS;
	return strncmp(name, "ch", 2) == 0 ? atoi(name + 2) : -1;
}

uint64_t notifications(void)
{
	return all.count;
}

int notification_channel(uint64_t number)
{
	return all.notes[number - 1].channel;
}

uint64_t notification_us(uint64_t number)
{
	return all.notes[number - 1].at_us;
}

void belongings_plan(
    struct belongings *b, enum plan_kind kind, int channel, const char *payload)
{
	struct plan *p = &b->plans[b->plan_count++];

	MUST(b->plan_count <= PLANS, "too much within one transaction");
	p->kind = kind;
	p->channel = channel;
	snprintf(p->payload, sizeof(p->payload), "%s", payload);
}

static void put_name(char name[16], int channel)
{
	if (channel == MARKS)
		snprintf(name, 16, LISTEN_MARKS);
	else
		snprintf(name, 16, "ch%d", channel);
}

static void notify(const struct belongings *from, const struct plan *p)
{
	struct belongings *b;
	char payload[64];

	if (p->channel != MARKS && all.count == all.room) {
		all.room = 2 * all.room + 1024;
		all.notes = mem_resize(all.notes, all.room * sizeof(*all.notes));
	}
	snprintf(payload, sizeof(payload), "%s", p->payload);
	if (p->channel != MARKS) {
		all.notes[all.count++] = (struct note){p->channel, world.now_us};
		note("notification", all.count, (uint64_t)p->channel);
		snprintf(payload, sizeof(payload), "%s %llu", p->payload,
		    (unsigned long long)all.count);
	}
	list_for (b, &all.sessions, node) {
		char name[16];
		if (!(b->channels >> p->channel & 1))
			continue;
		put_name(name, p->channel);
		size_t at = codec_begin(&b->notes, 'A');
		buf_put_u32(&b->notes, from->pid);
		buf_put_str(&b->notes, name);
		buf_put_str(&b->notes, payload);
		codec_end(&b->notes, at);
		if (!heap_has(&b->signal.node))
			event_in(
			    &b->signal, draw_below(&all.rng, draw_chance(&all.rng, 30)
								 ? SIGNAL_MOST_US
								 : SIGNAL_US));
	}
}

void belongings_end(struct belongings *b, bool is_commit)
{
	for (unsigned i = 0; is_commit && i < b->plan_count; i++) {
		const struct plan *p = &b->plans[i];
		if (p->kind == PLAN_LISTEN)
			b->channels |= 1u << p->channel;
		else if (p->kind == PLAN_UNLISTEN)
			b->channels &= p->channel < 0 ? 0 : ~(1u << p->channel);
	}
	for (unsigned i = 0; is_commit && i < b->plan_count; i++)
		if (b->plans[i].kind == PLAN_NOTIFY)
			notify(b, &b->plans[i]);
	b->plan_count = 0;
}

/* Channels that were left meanwhile do not count. */
void belongings_take(struct belongings *b, struct buf *out)
{
	size_t size;

	for (size_t at = 0; at < b->notes.len; at += size) {
		const uint8_t *p = b->notes.bytes + at;
		size = 1 + get_u32(p + 1);
		if (b->channels >> channel_find((const char *)p + 9) & 1)
			buf_put(out, p, size);
	}
	buf_clear(&b->notes);
}

void belongings_discard(struct belongings *b)
{
	b->channels = b->plan_count = 0;
	b->temp = 0;
}

/* ---- the question what is left ---- */

bool belongings_is_question(const char *text)
{
	return strstr(text, "pg_my_temp_schema") || strstr(text, "pg_cursor()") ||
	       strstr(text, "pg_listening_channels") ||
	       strstr(text, "pg_prepared_statement()") ||
	       strstr(text, "pg_lock_status") || strstr(text, "pg_show_all_settings");
}

static int put_row(struct buf *out, const char *first, const char *second)
{
	size_t at = codec_begin_row(out, 2);

	codec_put_field(out, first);
	codec_put_field(out, second);
	codec_end_row(out, at);
	return 1;
}

static int put_setting(
    struct buf *out, const char *letter, const char *name, const char *value)
{
	char first[NAME_MAX_LEN], hex[2 * GUC_LEN + 1] = "";

	snprintf(first, sizeof(first), "%s%s", letter, name);
	for (size_t i = 0; value[i]; i++)
		snprintf(hex + 2 * i, 3, "%02x", (uint8_t)value[i]);
	return put_row(out, first, hex);
}

int belongings_answer(const struct belongings *b, const struct gucs *gucs,
    const char *text, struct buf *out)
{
	int rows = 0;

	if (b->temp && strstr(text, "pg_my_temp_schema"))
		rows += put_row(out, "t", NULL);
	for (int i = 0; i <= MARKS && strstr(text, "pg_listening_channels"); i++) {
		char name[16];
		put_name(name, i);
		if (b->channels >> i & 1)
			rows += put_row(out, "l", name);
	}
	if (!strstr(text, "pg_show_all_settings"))
		return rows;
	rows += put_setting(out, "u", "role", "none");
	for (int i = REPORTED; i < GUCS; i++)
		if (gucs->of[i].now.is_set)
			rows +=
			    put_setting(out, "s", guc_names[i], gucs->of[i].now.text);
	return rows;
}

/* Values that go along: VALUES ('name','hex'),('name',NULL) */
void belongings_put(struct gucs *gucs, const char *text)
{
	const char *at = strstr(text, "(VALUES ") + 8;

	while (*at == '(') {
		char name[NAME_MAX_LEN] = "", hex[2 * GUC_LEN] = "",
		     value[GUC_LEN] = "";
		int used = 0;
		bool has_value =
		    sscanf(at, "('%63[^']','%191[0-9a-f]')%n", name, hex, &used) == 2 &&
		    used;
		if (!has_value)
			(void)sscanf(at, "('%63[^']',NULL)%n", name, &used);
		int i = guc_find(name);
		MUST(used && i >= 0, "a server got strange values: %s", at);
		for (size_t k = 0; hex[2 * k] && hex[2 * k + 1]; k++) {
			const char digits[3] = {hex[2 * k], hex[2 * k + 1], '\0'};
			value[k] = (char)strtoul(digits, NULL, 16);
		}
		if (has_value)
			(void)gucs_set(gucs, i, value, false);
		else
			gucs_reset(gucs, i);
		at += used;
		at += *at == ',';
	}
}
