/*
 * Encodes and decodes records.  One function per struct does both, so that the two
 * cannot differ: a form either writes each field or fills it.
 */
#include "handoff/record.h"

#include <string.h>

#include "session/client.h"
#include "wire/traceparent.h"

struct form {
	struct buf *out;   /* NULL: decoding */
	struct cursor *in; /* NULL: encoding */
	struct arena *arena;
	bool is_bad; /* a value was found that no sender writes */
};

/* ---- single fields ---- */

static void form_u8(struct form *f, uint8_t *v)
{
	if (f->out)
		buf_put_u8(f->out, *v);
	else
		*v = cursor_u8(f->in);
}

static void form_u16(struct form *f, uint16_t *v)
{
	if (f->out)
		buf_put_u16(f->out, *v);
	else
		*v = cursor_u16(f->in);
}

static void form_u32(struct form *f, uint32_t *v)
{
	if (f->out)
		buf_put_u32(f->out, *v);
	else
		*v = cursor_u32(f->in);
}

static void form_u64(struct form *f, uint64_t *v)
{
	uint32_t high = (uint32_t)(*v >> 32), low = (uint32_t)*v;

	form_u32(f, &high);
	form_u32(f, &low);
	*v = (uint64_t)high << 32 | low;
}

static void form_int(struct form *f, int *v)
{
	uint32_t bits = (uint32_t)*v;

	form_u32(f, &bits);
	*v = (int)bits;
}

static bool form_bool(struct form *f, bool v)
{
	uint8_t byte = v;

	form_u8(f, &byte);
	f->is_bad = f->is_bad || byte > 1;
	return byte == 1;
}

/* For bit fields as well as for bool. */
#define FORM_BOOL(f, lvalue) ((lvalue) = form_bool(f, lvalue))

static void form_size(struct form *f, size_t *v)
{
	uint64_t size = *v;

	form_u64(f, &size);
	*v = (size_t)size;
}

static void form_bytes(struct form *f, struct record_bytes *v)
{
	form_size(f, &v->len);
	if (f->out)
		buf_put(f->out, v->at, v->len);
	else
		v->at = cursor_bytes(f->in, v->len);
	if (!f->out && f->in->overrun)
		*v = (struct record_bytes){NULL, 0};
}

/* A string or NULL. */
static void form_optional(struct form *f, const char **v)
{
	if (!form_bool(f, *v != NULL)) {
		*v = NULL;
	} else if (f->out) {
		buf_put_str(f->out, *v);
	} else {
		*v = cursor_str(f->in);
	}
}

/* A string that is never NULL. */
static void form_text(struct form *f, const char **v)
{
	if (f->out)
		buf_put_str(f->out, *v);
	else
		*v = cursor_str(f->in);
}

/* The number of elements of a list and, when decoding, their memory.  Each element has
 * at least one byte, so that a wrong count cannot make us allocate much more than was
 * received. */
static void *form_list(struct form *f, void *list, size_t *count, size_t size)
{
	form_size(f, count);
	if (f->out)
		return list;
	if (f->in->overrun || *count > cursor_left(f->in)) {
		f->in->overrun = true;
		*count = 0;
	}
	if (!*count)
		return NULL;
	list = arena_alloc(f->arena, *count * size);
	memset(list, 0, *count * size);
	return list;
}

/* ---- parts ---- */

static void form_conn(struct form *f, struct record_conn *v)
{
	form_u64(f, &v->id);
	form_u64(f, &v->age_us);
	form_u16(f, &v->remote.family);
	form_u16(f, &v->remote.port);
	for (size_t i = 0; i < sizeof(v->remote.ip); i++)
		form_u8(f, &v->remote.ip[i]);
	form_u32(f, &v->remote.scope);
	form_int(f, &v->peer_pid);
	form_u16(f, &v->unix_port);
	form_u64(f, &v->passing);
	form_bytes(f, &v->unread);
}

static void form_vars(struct form *f, struct record_vars *v)
{
	v->list = form_list(f, v->list, &v->count, sizeof(*v->list));
	for (size_t i = 0; i < v->count; i++) {
		form_optional(f, &v->list[i].value);
		form_optional(f, &v->list[i].other);
		form_optional(f, &v->list[i].encoding);
		form_optional(f, &v->list[i].other_encoding);
	}
}

static void form_statements(struct form *f, struct record_statements *v)
{
	v->list = form_list(f, v->list, &v->count, sizeof(*v->list));
	for (size_t i = 0; i < v->count; i++) {
		struct record_statement *s = &v->list[i];
		form_u64(f, &s->id);
		form_optional(f, &s->name);
		FORM_BOOL(f, s->is_sql);
		FORM_BOOL(f, s->is_marked);
	}
}

static void form_resets(struct form *f, struct reset_effects *v)
{
	form_u64(f, &v->session);
	form_u64(f, &v->local);
	form_u64(f, &v->set);
	form_u64(f, &v->hidden);
	FORM_BOOL(f, v->has_reset);
	FORM_BOOL(f, v->has_default);
}

static void form_effects(struct form *f, struct sql_effects *v)
{
	form_u16(f, &v->leaves_first);
	form_u16(f, &v->leaves);
	form_u64(f, &v->sets_first);
	form_u64(f, &v->sets);
	form_u64(f, &v->configs);
	form_resets(f, &v->resets);
	uint8_t kind = (uint8_t)v->command.kind;
	form_u8(f, &kind);
	f->is_bad = f->is_bad || kind > COMMAND_DEALLOCATE_ALL;
	v->command.kind = (enum command_kind)kind;
	form_u32(f, &v->command.from);
	form_u32(f, &v->command.to);
	form_u32(f, &v->command.end);
	f->is_bad = f->is_bad || v->command.from > v->command.to ||
		    v->command.to > v->command.end;
	FORM_BOOL(f, v->forgets);
	FORM_BOOL(f, v->may_forget);
	FORM_BOOL(f, v->hides_forgetting);
	FORM_BOOL(f, v->is_command);
	FORM_BOOL(f, v->reads_clock);
	FORM_BOOL(f, v->is_cut);
}

static void form_pin(struct form *f, struct link_pin *v)
{
	form_u16(f, &v->made);
	form_u16(f, &v->kinds);
	form_u16(f, &v->lasting);
	f->is_bad = f->is_bad || ((v->kinds | v->lasting) & ~LEAK_KINDS);
	FORM_BOOL(f, v->resets_all);
	FORM_BOOL(f, v->may_have_ended);
	form_u64(f, &v->since_us);
	form_u32(f, &v->transactions);
}

static void form_link(struct form *f, struct link *v, bool *is_dropping)
{
	form_u64(f, &v->idle_xact_us);
	form_u64(f, &v->since_us);
	form_u16(f, &v->leaks.watch.expected);
	form_u16(f, &v->leaks.watch.met);
	form_u16(f, &v->leaks.called);
	form_u8(f, &v->hold);
	f->is_bad = f->is_bad || v->hold > LINK_UNTIL_COPY_END;
	form_u8(f, &v->held_type);
	FORM_BOOL(f, v->is_fresh);
	FORM_BOOL(f, *is_dropping);
	FORM_BOOL(f, v->is_flushed);
	FORM_BOOL(f, v->statements.are_tracked);
	FORM_BOOL(f, v->params.may_have_set);
	FORM_BOOL(f, v->params.may_undo_set);
	FORM_BOOL(f, v->params.wants_apply);
	FORM_BOOL(f, v->params.was_reset);
	FORM_BOOL(f, v->params.is_reset_kept);
	FORM_BOOL(f, v->unnamed.is_owned);
	FORM_BOOL(f, v->statements.has_forgetting_portal);
	FORM_BOOL(f, v->is_replay_spoilt);
	/* in four bytes */
	uint32_t is_sent = SERVER_TAG_UNNAMED | v->unnamed.is_sent;
	form_u32(f, &is_sent);
	f->is_bad = f->is_bad || (is_sent | 1) != (SERVER_TAG_UNNAMED | 1);
	v->unnamed.is_sent = is_sent & 1;
	form_u64(f, &v->params.reported);
	form_resets(f, &v->params.reset);
	form_u64(f, &v->params.apply_local);
	FORM_BOOL(f, v->schema.is_unusual);
	form_u64(f, &v->params.settling.unsettled);
	FORM_BOOL(f, v->params.put_back.is_there);
	form_resets(f, &v->params.put_back.parsed);
	form_resets(f, &v->params.put_back.bound);
	form_pin(f, &v->pin);
}

static void form_entries(struct form *f, struct record_server *v)
{
	v->entries = form_list(f, v->entries, &v->entry_count, sizeof(*v->entries));
	for (size_t i = 0; i < v->entry_count; i++) {
		form_u8(f, &v->entries[i].type);
		form_u8(f, &v->entries[i].to);
		form_u8(f, &v->entries[i].maybe);
		form_u8(f, &v->entries[i].is_early);
		form_u32(f, &v->entries[i].tag);
	}
}

static void form_replay(struct form *f, struct record_server *v)
{
	FORM_BOOL(f, v->replay.is_there);
	if (!v->replay.is_there)
		return;
	FORM_BOOL(f, v->replay.is_ended);
	form_u32(f, &v->replay.tag);
	form_bytes(f, &v->replay.bytes);
	form_bytes(f, &v->replay.described);
}

static void form_slot(struct form *f, struct slot *v)
{
	uint8_t state = (uint8_t)v->state;

	form_u64(f, &v->born_us);
	form_u64(f, &v->rested_us);
	form_u8(f, &state);
	v->state = (enum slot_state)state;
	f->is_bad = f->is_bad || (v->state != SLOT_IDLE && v->state != SLOT_USED &&
				     v->state != SLOT_ACTIVE);
	v->dirty = form_bool(f, v->dirty) ? DIRTY_OLD : DIRTY_NOT;
	FORM_BOOL(f, v->was_lent);
	FORM_BOOL(f, v->was_checked);
	FORM_BOOL(f, v->needs_reset);
}

static void form_slow_span(struct form *f, struct record_span *v)
{
	form_u64(f, &v->received);
	form_u64(f, &v->sent);
	form_text(f, &v->traceparent);
	f->is_bad =
	    f->is_bad || (v->traceparent && strlen(v->traceparent) >= TRACEPARENT_TEXT);
}

/* ---- the records ---- */

static void form_client(struct form *f, struct record_client *v)
{
	form_conn(f, &v->conn);
	form_text(f, &v->database);
	form_text(f, &v->user);
	form_vars(f, &v->vars);
	FORM_BOOL(f, v->has_asked);
	form_u64(f, &v->requested);
	form_u64(f, &v->own);
	form_u64(f, &v->doubtful);
	form_bytes(f, &v->kept);
	form_bytes(f, &v->startup);
	FORM_BOOL(f, v->reads_sequences);
	form_statements(f, &v->statements);
	FORM_BOOL(f, v->unnamed.is_there);
	if (v->unnamed.is_there) {
		FORM_BOOL(f, v->unnamed.is_command);
		form_text(f, &v->unnamed.ours);
		form_effects(f, &v->unnamed.effects);
		form_bytes(f, &v->unnamed.parse);
	}
	form_bytes(f, &v->key);
	FORM_BOOL(f, v->is_unix_owner);
	FORM_BOOL(f, v->is_canceled);
	FORM_BOOL(f, v->is_skipping);
	FORM_BOOL(f, v->is_dropping);
	FORM_BOOL(f, v->was_notified);
	FORM_BOOL(f, v->is_linked);
	form_u64(f, &v->query_us);
	form_u64(f, &v->xact_us);
	form_u64(f, &v->last_us);
	form_u8(f, &v->block_state);
	form_u8(f, &v->block_modes);
	FORM_BOOL(f, v->block_has_portal);
	f->is_bad = f->is_bad || v->block_state > BLOCK_FAILED;
	FORM_BOOL(f, v->slow.is_there);
	if (!v->slow.is_there)
		return;
	form_u64(f, &v->slow.received);
	form_u64(f, &v->slow.sent);
	form_u64(f, &v->slow.worked_us);
	form_u32(f, &v->slow.query_count);
	form_slow_span(f, &v->slow.xact);
	form_slow_span(f, &v->slow.query);
}

static void form_server(struct form *f, struct record_server *v)
{
	form_conn(f, &v->conn);
	form_text(f, &v->database);
	form_text(f, &v->user);
	form_slot(f, &v->slot);
	form_u64(f, &v->last_us);
	form_u8(f, &v->status);
	FORM_BOOL(f, v->is_ready);
	FORM_BOOL(f, v->is_unheard);
	form_u16(f, &v->leaks_left);
	form_u32(f, &v->last_tag);
	form_u32(f, &v->remote_pid);
	form_vars(f, &v->vars);
	form_u64(f, &v->pinned);
	FORM_BOOL(f, v->has_own_kept);
	FORM_BOOL(f, v->is_kept_doubtful);
	form_bytes(f, &v->own_kept);
	form_bytes(f, &v->kept);
	form_statements(f, &v->statements);
	form_bytes(f, &v->key);
	form_optional(f, &v->unix_dir);
	form_optional(f, &v->host);
	form_int(f, &v->port);
	FORM_BOOL(f, v->is_linked);
	f->is_bad = f->is_bad || v->is_linked != (v->slot.state == SLOT_ACTIVE);
	if (!v->is_linked)
		return;
	form_link(f, &v->link, &v->is_dropping);
	FORM_BOOL(f, v->link.pin.has_unknown_name);
	form_bytes(f, &v->pin_names);
	form_u8(f, &v->ledger.copy);
	FORM_BOOL(f, v->ledger.copy_open);
	FORM_BOOL(f, v->ledger.skipping);
	FORM_BOOL(f, v->ledger.failed_head);
	FORM_BOOL(f, v->ledger.in_answer);
	form_entries(f, v);
	form_replay(f, v);
}

static void form_pool(struct form *f, struct record_pool *v)
{
	form_text(f, &v->database);
	form_text(f, &v->user);
	form_optional(f, &v->found);
	form_u64(f, &v->found_us);
	FORM_BOOL(f, v->has_keys);
	for (size_t i = 0; i < SCRAM_KEY_LEN; i++) {
		form_u8(f, &v->keys.client_key[i]);
		form_u8(f, &v->keys.server_key[i]);
	}
	form_optional(f, &v->remembered);
	form_text(f, &v->entry);
	FORM_BOOL(f, v->has_known);
	form_vars(f, &v->login_params);
	form_bytes(f, &v->untracked);
}

static void form_database(struct form *f, struct record_database *v)
{
	form_text(f, &v->name);
	FORM_BOOL(f, v->is_paused);
	FORM_BOOL(f, v->is_disabled);
	FORM_BOOL(f, v->has_elected);
	form_optional(f, &v->elected);
	form_int(f, &v->elected_port);
	FORM_BOOL(f, v->has_primary);
	form_optional(f, &v->primary);
	form_int(f, &v->primary_port);
	form_u32(f, &v->timeline);
	form_optional(f, &v->addresses);
}

static void form_record(struct form *f, struct record *v)
{
	switch (v->kind) {
	case RECORD_ORIGIN:
		form_text(f, &v->origin.version);
		form_int(f, &v->origin.pid);
		form_u64(f, &v->origin.next_id);
		form_u64(f, &v->origin.last_text);
		form_u64(f, &v->origin.last_sql_text);
		FORM_BOOL(f, v->origin.is_paused);
		form_vars(f, &v->origin.names);
		form_bytes(f, &v->origin.mock_secret);
		return;
	case RECORD_LISTENER:
		FORM_BOOL(f, v->listener.is_unix);
		return;
	case RECORD_DATABASE:
		form_database(f, &v->database);
		return;
	case RECORD_POOL:
		form_pool(f, &v->pool);
		return;
	case RECORD_TEXT:
		form_u64(f, &v->text.id);
		FORM_BOOL(f, v->text.is_sql);
		form_optional(f, &v->text.reading);
		form_bytes(f, &v->text.key);
		form_effects(f, &v->text.effects);
		return;
	case RECORD_CLIENT:
		form_client(f, &v->client);
		return;
	case RECORD_SERVER:
		form_server(f, &v->server);
		return;
	}
	f->is_bad = true;
}

void record_encode(const struct record *record, struct buf *out)
{
	/* a copy, because the functions may assign to what they encode */
	struct record copy = *record;
	struct form form = {.out = out};

	form_record(&form, &copy);
	mem_wipe(&copy, sizeof(copy));
}

int record_decode(struct record *record, enum record_kind kind, const uint8_t *bytes,
    size_t len, struct arena *arena)
{
	struct cursor cursor;
	struct form form = {.in = &cursor, .arena = arena};

	cursor_init(&cursor, bytes, len);
	memset(record, 0, sizeof(*record));
	record->kind = kind;
	form_record(&form, record);
	return cursor.overrun || form.is_bad || cursor_left(&cursor) ? -1 : 0;
}
