#include "top/panel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers as tables ---- */

void table_clear(struct table *t)
{
	arena_free(&t->arena);
	mem_free((void *)t->cells);
	*t = (struct table){.arena = NULL};
}

/* Copies a text and replaces control characters, which would move the cursor. */
static const char *text_of(struct table *t, const uint8_t *text, size_t len)
{
	if (!t->arena)
		t->arena = arena_new();
	char *copy = arena_alloc(t->arena, len + 1);
	for (size_t i = 0; i < len; i++)
		copy[i] = text[i] < ' ' || text[i] == 0x7f ? ' ' : (char)text[i];
	copy[len] = '\0';
	return copy;
}

void table_put_name(struct table *t, const uint8_t *text, size_t len)
{
	if (t->column_count < TABLE_COLUMNS)
		t->names[t->column_count++] = text_of(t, text, len);
}

int table_begin_row(struct table *t, size_t count)
{
	size_t need = (t->row_count + 1) * t->column_count;

	if (count != t->column_count || count == 0)
		return -1;
	if (need > t->room) {
		t->room = 2 * need;
		t->cells = mem_resize((void *)t->cells, t->room * sizeof(*t->cells));
	}
	for (size_t i = need - count; i < need; i++)
		t->cells[i] = "";
	t->row_count++;
	return 0;
}

void table_put_cell(struct table *t, size_t column, const uint8_t *text, size_t len)
{
	if (text)
		t->cells[(t->row_count - 1) * t->column_count + column] =
		    text_of(t, text, len);
}

/* The index of a column; -1: there is none of this name. */
static int table_column(const struct table *t, const char *name)
{
	for (size_t i = 0; i < t->column_count; i++)
		if (strcmp(t->names[i], name) == 0)
			return (int)i;
	return -1;
}

const char *table_text(const struct table *t, size_t row, const char *name)
{
	int column = table_column(t, name);

	return column < 0 ? "" : t->cells[row * t->column_count + (size_t)column];
}

static double table_number(const struct table *t, size_t row, const char *name)
{
	return strtod(table_text(t, row, name), NULL);
}

double table_sum(const struct table *t, const char *name, const char *but)
{
	double sum = 0;

	for (size_t row = 0; row < t->row_count; row++)
		if (!but || strcmp(t->cells[row * t->column_count], but) != 0)
			sum += table_number(t, row, name);
	return sum;
}

/* The row that begins with these texts; -1: there is none.  The search begins at row
 * `hint`. */
static int table_find(
    const struct table *t, const char **texts, size_t count, size_t hint)
{
	if (t->column_count < count)
		return -1;
	for (size_t i = 0; i < t->row_count; i++) {
		size_t row = (hint + i) % t->row_count, key = 0;
		const char **have = t->cells + row * t->column_count;
		while (key < count && strcmp(have[key], texts[key]) == 0)
			key++;
		if (key == count)
			return (int)row;
	}
	return -1;
}

enum column_kind {
	COLUMN_TEXT,
	COLUMN_NUMBER,
	COLUMN_ID,       /* a number, printed with all its digits */
	COLUMN_RATE,     /* a total, printed as growth per second */
	COLUMN_DURATION, /* a number of microseconds */
	COLUMN_WAIT,     /* seconds, with the microseconds of the next column */
	COLUMN_MEAN, /* a total of times, divided by the growth of xact or query counts
		      */
	COLUMN_POOL_RATE, /* transactions of a pool per second, from LATENCY */
};

struct column {
	const char *title;
	const char *name; /* the column's name in the view */
	enum column_kind kind;
	int width;
	/* COLUMN_MEAN: the column of counts; COLUMN_WAIT: that of microseconds; of
	 * LATENCY: the column for the last period */
	const char *other;
};

enum { COLUMNS_MOST = 14, CELL = 128, SPARE_MOST = 20 };

struct panel {
	char key;
	const char *title;
	size_t keys; /* the first so many columns of the view identify a row */
	int sort;
	struct column columns[COLUMNS_MOST];
};

static const struct panel panels[PANELS] = {
    [PANEL_POOLS] = {'1', "pools", 2, 3,
	{{"DATABASE", "database", COLUMN_TEXT, 13, NULL},
	    {"USER", "user", COLUMN_TEXT, 10, NULL},
	    {"CL_ACT", "cl_active", COLUMN_NUMBER, 7, NULL},
	    {"CL_WAIT", "cl_waiting", COLUMN_NUMBER, 8, NULL},
	    {"SV_ACT", "sv_active", COLUMN_NUMBER, 7, NULL},
	    {"SV_IDLE", "sv_idle", COLUMN_NUMBER, 8, NULL},
	    {"MAXWAIT", "maxwait", COLUMN_WAIT, 8, "maxwait_us"},
	    {"XACT/S", "", COLUMN_POOL_RATE, 7, NULL},
	    {"MODE", "pool_mode", COLUMN_TEXT, 11, NULL},
	    {"SV_USED", "sv_used", COLUMN_NUMBER, 8, NULL},
	    {"SV_TEST", "sv_tested", COLUMN_NUMBER, 8, NULL},
	    {"SV_LOGIN", "sv_login", COLUMN_NUMBER, 9, NULL},
	    {"SV_PIN", "sv_pinned", COLUMN_NUMBER, 7, NULL},
	    {"LISTEN", "cl_listening", COLUMN_NUMBER, 7, NULL}}},
    [PANEL_DATABASES] = {'2', "databases", 1, 1,
	{{"DATABASE", "database", COLUMN_TEXT, 12, NULL},
	    {"XACT/S", "total_xact_count", COLUMN_RATE, 8, NULL},
	    {"QUERY/S", "total_query_count", COLUMN_RATE, 8, NULL},
	    {"IN B/S", "total_received", COLUMN_RATE, 8, NULL},
	    {"OUT B/S", "total_sent", COLUMN_RATE, 8, NULL},
	    {"XACT", "total_xact_time", COLUMN_MEAN, 7, "total_xact_count"},
	    {"QUERY", "total_query_time", COLUMN_MEAN, 7, "total_query_count"},
	    {"WAIT", "total_wait_time", COLUMN_MEAN, 7, "total_xact_count"},
	    {"REPARSE", "total_repeated_parse_count", COLUMN_RATE, 7, NULL},
	    {"SAVED/S", "total_saved_parse_count", COLUMN_RATE, 7, NULL}}},
    [PANEL_LATENCY] = {'3', "latency since the start (t: recent)", 3, 3,
	{{"DATABASE", "database", COLUMN_TEXT, 14, NULL},
	    {"USER", "user", COLUMN_TEXT, 10, NULL},
	    {"KIND", "kind", COLUMN_TEXT, 11, NULL},
	    {"COUNT", "count", COLUMN_NUMBER, 7, "recent_count"},
	    {"P50", "p50", COLUMN_DURATION, 6, "recent_p50"},
	    {"P90", "p90", COLUMN_DURATION, 6, "recent_p90"},
	    {"P99", "p99", COLUMN_DURATION, 6, "recent_p99"},
	    {"P99.9", "p99_9", COLUMN_DURATION, 6, "recent_p99_9"},
	    {"MAX", "max", COLUMN_DURATION, 6, "recent_max"}}},
    [PANEL_BLOCKERS] = {'4', "blockers: who holds servers that clients wait for", 0, -1,
	{{"DATABASE", "database", COLUMN_TEXT, 10, NULL},
	    {"QUEUE", "waiting", COLUMN_NUMBER, 6, NULL},
	    {"MAXWAIT", "maxwait_us", COLUMN_DURATION, 8, NULL},
	    {"FOR", "waits_for", COLUMN_TEXT, 9, NULL},
	    {"ID", "id", COLUMN_ID, 6, NULL},
	    {"CLIENT", "client_user", COLUMN_TEXT, 8, NULL},
	    {"STATE", "state", COLUMN_TEXT, 19, NULL},
	    {"HELD", "held_us", COLUMN_DURATION, 7, NULL},
	    {"ADDRESS", "addr", COLUMN_TEXT, 15, NULL},
	    {"APPLICATION", "application_name", COLUMN_TEXT, 20, NULL}}},
    [PANEL_HOSTS] = {'5', "hosts", 3, 5,
	{{"DATABASE", "database", COLUMN_TEXT, 14, NULL},
	    {"HOST", "host", COLUMN_TEXT, 18, NULL},
	    {"PORT", "port", COLUMN_NUMBER, 5, NULL},
	    {"ROLE", "role", COLUMN_TEXT, 9, NULL},
	    {"STATE", "state", COLUMN_TEXT, 7, NULL},
	    {"CONN", "connections", COLUMN_NUMBER, 5, NULL},
	    {"ACTIVE", "active", COLUMN_NUMBER, 7, NULL},
	    {"FAILED", "failures", COLUMN_NUMBER, 7, NULL},
	    {"LAST ERROR", "last_error", COLUMN_TEXT, 40, NULL}}},
    [PANEL_WORKERS] = {'6', "workers", 1, 3,
	{{"WORKER", "worker", COLUMN_TEXT, 8, NULL},
	    {"CLIENTS", "clients", COLUMN_NUMBER, 8, NULL},
	    {"SERVERS", "servers", COLUMN_NUMBER, 8, NULL},
	    {"BUSY %", "busy", COLUMN_NUMBER, 7, NULL},
	    {"TURNS/S", "turns", COLUMN_RATE, 8, NULL},
	    {"LONGEST", "longest_turn_us", COLUMN_DURATION, 8, NULL}}},
    [PANEL_CLIENTS] = {'7', "clients, by the time since their query began", 0, 3,
	{{"DATABASE", "database", COLUMN_TEXT, 14, NULL},
	    {"USER", "user", COLUMN_TEXT, 10, NULL},
	    {"STATE", "state", COLUMN_TEXT, 8, NULL},
	    {"QUERY", "wait", COLUMN_WAIT, 7, "wait_us"},
	    {"ADDRESS", "addr", COLUMN_TEXT, 15, NULL},
	    {"ID", "id", COLUMN_ID, 7, NULL},
	    {"APPLICATION", "application_name", COLUMN_TEXT, 20, NULL},
	    {"PORT", "port", COLUMN_ID, 6, NULL},
	    {"SINCE", "connect_time", COLUMN_TEXT, 19, NULL}}},
};

char panel_key(enum panel_id id)
{
	return panels[id].key;
}

const char *panel_title(const struct panel_choice *choice)
{
	if (choice->id == PANEL_LATENCY && choice->is_recent)
		return "latency in the last stats_period and the running one (t: all)";
	return panels[choice->id].title;
}

int panel_columns(enum panel_id id)
{
	int count = 0;

	while (count < COLUMNS_MOST && panels[id].columns[count].title)
		count++;
	return count;
}

void panel_choice_init(struct panel_choice *choice)
{
	memset(choice, 0, sizeof(*choice));
	for (int i = 0; i < PANELS; i++)
		choice->sort[i] = panels[i].sort;
}

/* ---- numbers ---- */

void panel_print_number(double number, char out[16])
{
	static const char units[] = " kMGTP";
	int unit = 0;

	if (fabs(number) < 999999.5) {
		snprintf(out, 16, "%.0f", number);
		return;
	}
	while (fabs(number) >= 999.5 && units[unit + 1]) {
		number /= 1000;
		unit++;
	}
	snprintf(out, 16, "%.*f%c", fabs(number) < 99.95 ? 1 : 0, number, units[unit]);
}

void panel_print_duration(double us, char out[16])
{
	if (us < 999.5)
		snprintf(out, 16, "%.0fus", us);
	else if (us < 999500)
		snprintf(out, 16, "%.*fms", us < 9950 ? 1 : 0, us / 1000);
	else
		snprintf(out, 16, "%.*fs", us < 99.95e6 ? 1 : 0, us / 1e6);
}

/* ---- cells ---- */

struct look {
	const struct panel *panel;
	const struct panel_choice *choice;
	const struct panel_input *in;
	int spare; /* extra width of the first two columns */
};

/* The seconds between two tables; 0: one of them is missing. */
static double seconds_between(const struct table *before, const struct table *now)
{
	if (!before->arena || now->taken_us <= before->taken_us)
		return 0;
	return (double)(now->taken_us - before->taken_us) / 1e6;
}

/* How much a total has grown; 0 if it has started again, as after a restart. */
static double growth(const struct look *l, size_t row, const char *name)
{
	const struct table *now = l->in->now, *before = l->in->before;
	int old = table_find(
	    before, now->cells + row * now->column_count, l->panel->keys, row);
	double had = old < 0 ? 0 : table_number(before, (size_t)old, name);
	double has = table_number(now, row, name);

	return has > had ? has - had : 0;
}

static double transactions_of(
    const struct table *latency, const struct look *l, size_t row)
{
	const struct table *pools = l->in->now;
	const char *wanted[] = {table_text(pools, row, "database"),
	    table_text(pools, row, "user"), "transaction"};
	/* LATENCY has several rows for each pool, in the same order */
	int at =
	    table_find(latency, wanted, 3, row * latency->row_count / pools->row_count);

	return at < 0 ? 0 : table_number(latency, (size_t)at, "count");
}

static double pool_rate(const struct look *l, size_t row)
{
	const struct table *now = l->in->beside_now, *before = l->in->beside_before;
	double seconds = seconds_between(before, now);

	if (seconds <= 0)
		return 0;
	double grown = transactions_of(now, l, row) - transactions_of(before, l, row);
	return grown > 0 ? grown / seconds : 0;
}

static double number_in(const struct look *l, size_t row, const struct column *c)
{
	const struct table *now = l->in->now;
	double seconds = seconds_between(l->in->before, l->in->now), count;

	switch (c->kind) {
	case COLUMN_RATE:
		return seconds > 0 ? growth(l, row, c->name) / seconds : 0;
	case COLUMN_MEAN:
		count = seconds > 0 ? growth(l, row, c->other) : 0;
		return count > 0 ? growth(l, row, c->name) / count : 0;
	case COLUMN_WAIT:
		return table_number(now, row, c->name) * 1e6 +
		       table_number(now, row, c->other);
	case COLUMN_POOL_RATE:
		return pool_rate(l, row);
	default:
		if (l->choice->id == PANEL_LATENCY && l->choice->is_recent && c->other)
			return table_number(now, row, c->other);
		return table_number(now, row, c->name);
	}
}

/* A cell as text; "(all)" is for the rows of LATENCY that add up all databases and
 * users. */
static const char *text_in(const struct look *l, size_t row, const struct column *c)
{
	const char *text = table_text(l->in->now, row, c->name);

	if (*text || l->choice->id != PANEL_LATENCY)
		return text;
	return strcmp(c->name, "database") == 0 ? "(all)" : "";
}

static void print_cell(
    const struct look *l, size_t row, const struct column *c, char out[CELL])
{
	switch (c->kind) {
	case COLUMN_TEXT:
	case COLUMN_ID:
		snprintf(out, CELL, "%s", text_in(l, row, c));
		break;
	case COLUMN_POOL_RATE:
		if (!l->in->beside_now->arena) {
			snprintf(out, CELL, "-");
			break;
		}
		/* fall through */
	case COLUMN_NUMBER:
	case COLUMN_RATE:
		panel_print_number(number_in(l, row, c), out);
		break;
	case COLUMN_DURATION:
	case COLUMN_MEAN:
	case COLUMN_WAIT:
		panel_print_duration(number_in(l, row, c), out);
		break;
	}
}

/* ---- order ---- */

/* The column to sort by; NULL: the order of the view. */
static const struct column *sorted_by(const struct look *l)
{
	int at = l->choice->sort[l->choice->id];

	return at >= 0 && at < panel_columns(l->choice->id) ? &l->panel->columns[at]
							    : NULL;
}

/* A row and the value to sort it by, a number or a text. */
struct place {
	size_t row;
	const char *text;
	double number;
};

static struct place place_of(const struct look *l, size_t row, const struct column *by)
{
	if (!by)
		return (struct place){.row = row};
	if (by->kind == COLUMN_TEXT)
		return (struct place){.row = row, .text = text_in(l, row, by)};
	return (struct place){.row = row, .number = number_in(l, row, by)};
}

/* Compares two places: the greatest number comes first, and equal ones keep their
 * order. */
static int compare(const void *x, const void *y, void *ctx)
{
	const bool *is_upside = ctx;
	const struct place *a = x, *b = y;
	int order = a->text ? strcmp(a->text, b->text)
			    : (a->number < b->number) - (a->number > b->number);

	if (*is_upside)
		order = -order;
	return order ? order : (a->row > b->row) - (a->row < b->row);
}

/* ---- lines ---- */

/* Prints one cell, padded with blanks.  Returns the width that is left in the line. */
static int put_cell(
    struct buf *out, const char *text, int width, bool is_left, bool is_first, int left)
{
	int count;

	if (!is_first) {
		if (left < 2)
			return 0;
		buf_put_u8(out, ' ');
		left--;
	}
	if (width > left)
		width = left;
	size_t len = 0;
	for (count = 0; text[len] && count < width; ++count) {
		len++;
		while (((unsigned char)text[len] & 0xc0) == 0x80)
			len++;
	}
	if (!is_left)
		buf_printf(out, "%*s", width - count, "");
	buf_put(out, text, len);
	if (is_left)
		buf_printf(out, "%*s", width - count, "");
	return left - width;
}

/* The width that no column needs, which the names of databases and users get. */
static int spare_of(const struct panel_choice *choice, int width)
{
	int spare = width;

	for (int i = 0; i < panel_columns(choice->id); i++)
		spare -= panels[choice->id].columns[i].width + 1;
	return spare < 0 ? 0 : spare < 2 * SPARE_MOST ? spare / 2 : SPARE_MOST;
}

static int width_of(const struct look *l, int i)
{
	const struct column *c = &l->panel->columns[i];

	return i < 2 && c->kind == COLUMN_TEXT ? c->width + l->spare : c->width;
}

/* How many columns fit: a number is shown whole or not at all, a text at least as far
 * as its title reaches. */
static int columns_within(const struct look *l, int width)
{
	int count = panel_columns(l->choice->id);

	for (int i = 0; i < count; i++) {
		const struct column *c = &l->panel->columns[i];
		int need = c->kind == COLUMN_TEXT ? (int)strlen(c->title) : c->width;
		width -= i > 0;
		if (i > 0 && width < need)
			return i;
		width -= width_of(l, i);
	}
	return count;
}

static void put_titles(struct buf *out, const struct look *l, int width)
{
	const struct column *by = sorted_by(l);

	for (int i = 0, count = columns_within(l, width); i < count; i++) {
		const struct column *c = &l->panel->columns[i];
		char title[CELL];
		snprintf(title, sizeof(title), "%s%s", c == by ? "*" : "", c->title);
		width = put_cell(
		    out, title, width_of(l, i), c->kind == COLUMN_TEXT, i == 0, width);
	}
	buf_put_u8(out, '\n');
}

static void put_row(struct buf *out, const struct look *l, size_t row, int width)
{
	char text[CELL];

	for (int i = 0, count = columns_within(l, width); i < count; i++) {
		const struct column *c = &l->panel->columns[i];
		print_cell(l, row, c, text);
		width = put_cell(
		    out, text, width_of(l, i), c->kind == COLUMN_TEXT, i == 0, width);
	}
	buf_put_u8(out, '\n');
}

size_t panel_put(struct buf *out, const struct panel_choice *choice,
    const struct panel_input *input, int width, int lines)
{
	const struct look l = {
	    &panels[choice->id], choice, input, spare_of(choice, width)};
	const struct column *by = sorted_by(&l);
	bool is_upside = choice->is_upside[choice->id];
	size_t rows = input->now->row_count, count = 0;
	struct place *places = mem_alloc((rows + 1) * sizeof(*places));

	for (size_t row = 0; row < rows; row++) {
		const char *filter = l.choice->filter;

		if (!*filter || table_column(l.in->now, "database") < 0 ||
		    strstr(table_text(l.in->now, row, "database"), filter))
			places[count++] = place_of(&l, row, by);
	}
	if (by)
		qsort_r(places, count, sizeof(*places), compare, &is_upside);
	put_titles(out, &l, width);
	for (size_t i = (size_t)choice->skip; i < count && --lines > 0; i++)
		put_row(out, &l, places[i].row, width);
	mem_free(places);
	return count;
}
