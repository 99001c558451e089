/*
 * Serves the page, which is page.html as it is, the answers of SHOW as JSON, and the
 * figures of the last ten minutes, a second apart: 30 kB, kept in a ring.
 */
#include "metrics/page.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "auth/base64.h"
#include "auth/digest.h"
#include "base/buf.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "pool/pool.h"
#include "session/site.h"
#include "session/workers.h"
#include "views/show.h"
#include "views/views.h"

/* ---- the last ten minutes ---- */

enum { POINTS = 600, PERIOD_US = 1000000 };

struct point {
	uint64_t time_s, xact_count, query_count, wait_us, errors;
	size_t waiting;
};

struct history {
	struct site *site;
	struct deadline due;
	size_t count; /* of all points so far */
	struct point points[POINTS];
};

/* ---- one point ---- */

struct look {
	struct point *point;
	uint64_t *figure; /* what the next number belongs to; NULL: nothing */
};

static void take_name(void *ctx, const char *text)
{
	struct look *look = ctx;

	look->figure = NULL;
	if (strcmp(text, "total_xact_count") == 0)
		look->figure = &look->point->xact_count;
	else if (strcmp(text, "total_query_count") == 0)
		look->figure = &look->point->query_count;
	else if (strcmp(text, "total_wait_time") == 0)
		look->figure = &look->point->wait_us;
}

static void take_number(void *ctx, long long number)
{
	struct look *look = ctx;

	if (look->figure)
		*look->figure = (uint64_t)number;
}

static void take_end(void *ctx)
{
	(void)ctx;
}

static const struct row_sink totals_sink = {take_name, take_number, take_end};

static void add_site(struct site *site, void *ctx)
{
	struct point *point = ctx;
	const struct pool *pool;

	for (size_t i = 0; i < ERROR_COUNT + 1; i++)
		point->errors += site->errors_told[i];
	list_for (pool, &site->catalog->pool_list, node)
		point->waiting += pool->waiting.count;
}

static void take_point(struct deadline *due)
{
	struct history *h = container_of(due, struct history, due);
	struct point point = {.time_s = loop_wall(h->site->loop) / 1000000};
	struct look look = {.point = &point};
	struct rows rows;

	deadline_set(h->site->loop, due, loop_now(h->site->loop) + PERIOD_US);
	/* without the figures of a worker that does not answer, sums would go down */
	if (workers_each(h->site, add_site, &point) > 0)
		return;
	rows_init_sink(&rows, h->site, &totals_sink, &look);
	view_totals(&rows);
	h->points[h->count++ % POINTS] = point;
}

/* Appends them as JSON, in the form of a view, the oldest first. */
static void history_put(const struct history *h, struct buf *out)
{
	size_t i = h->count > POINTS ? h->count - POINTS : 0;

	buf_put_text(out,
	    "{\"columns\":[\"time\",\"total_xact_count\",\"total_query_count\","
	    "\"total_wait_time\",\"errors\",\"cl_waiting\"],\"rows\":[");
	for (const char *comma = ""; i < h->count; i++, comma = ",") {
		const struct point *p = &h->points[i % POINTS];
		buf_printf(out,
		    "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
		    ",%zu]",
		    comma, p->time_s, p->xact_count, p->query_count, p->wait_us,
		    p->errors, p->waiting);
	}
	buf_put_text(out, "]}\n");
}

/* ---- the page and its figures ---- */

/* The file becomes a text of the program. */
__asm__(".pushsection .rodata\n"
	".global page_html\n"
	"page_html: .incbin \"src/metrics/page.html\"\n"
	".byte 0\n"
	".popsection\n");
extern const char page_html[];

/* What everybody may read who can connect: no secrets and no texts of statements. */
static const char *const names[] = {"blockers", "certificates", "databases", "errors",
    "history", "hosts", "latency", "lists", "pools", "state", "stats", "totals",
    "version", "warnings", "workers"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

/* An answer serves everybody who asks within this time, so that many readers cost no
 * more than one. */
enum { FRESH_US = 500000 };

enum { HASH_LEN = 32 };

struct answer {
	struct buf text;
	uint64_t made_us; /* 0: never */
};

struct page {
	struct site *site;
	struct history *history; /* NULL: the page is off */
	char policy[400];
	struct answer answers[NAMES];
};

/* ---- rows as JSON ---- */

static void put_cell(
    struct buf *out, const struct column *column, const uint8_t *bytes, size_t len)
{
	char *text;

	if (column->type == &cell_numeric || column->type->oid == cell_int4.oid ||
	    column->type->oid == cell_int8.oid) {
		buf_put(out, bytes, len);
		return;
	}
	text = mem_alloc(len + 1);
	memcpy(text, bytes, len);
	text[len] = '\0';
	json_put_text(out, text, SIZE_MAX);
	mem_free(text);
}

static void put_row(struct buf *out, const struct view *view, struct cursor *row)
{
	size_t count = cursor_u16(row);

	for (size_t i = 0; i < count; i++) {
		uint32_t len = cursor_u32(row);
		buf_put_u8(out, i ? ',' : '[');
		if (len == UINT32_MAX)
			buf_put_text(out, "null");
		else
			put_cell(out, &view->columns[i], cursor_bytes(row, len), len);
	}
	buf_put_u8(out, ']');
}

/* The answer that the console would give, whose rows are DataRow messages. */
static void put_view(struct buf *out, const struct view *view, struct site *site)
{
	const char *comma = "";
	struct cursor c, row;
	struct buf messages;

	buf_put_text(out, "{\"columns\":");
	for (size_t i = 0; i < view->column_count; i++) {
		buf_put_u8(out, i ? ',' : '[');
		json_put_text(out, view->columns[i].name, SIZE_MAX);
	}
	buf_put_text(out, "],\"rows\":[");
	buf_init(&messages, 0);
	view_put(view, site, &messages);
	cursor_init(&c, messages.bytes, messages.failed ? 0 : messages.len);
	out->failed = out->failed || messages.failed;
	while (cursor_left(&c) > 0) {
		uint8_t type = cursor_u8(&c);
		size_t len = cursor_u32(&c) - 4;
		cursor_init(&row, cursor_bytes(&c, len), len);
		if (type != 'D')
			continue;
		buf_put_text(out, comma);
		put_row(out, view, &row);
		comma = ",";
	}
	buf_put_text(out, "]}\n");
	buf_done(&messages);
}

static const char *answer_of(struct page *page, size_t i)
{
	struct answer *a = &page->answers[i];
	uint64_t now_us = loop_now(page->site->loop);
	const struct view *view = view_find(names[i]);

	if (!a->made_us || now_us - a->made_us >= FRESH_US) {
		buf_clear(&a->text);
		if (view)
			put_view(&a->text, view, page->site);
		else
			history_put(page->history, &a->text);
		a->made_us = a->text.failed ? 0 : now_us;
	}
	return buf_text(&a->text);
}

/* ---- requests ---- */

bool page_answer(struct page *page, struct http_request *r)
{
	const char *path = http_path(r);

	if (!page->history)
		return false;
	if (strcmp(path, "/") == 0) {
		http_add_header(r, "Content-Security-Policy", page->policy);
		http_add_header(r, "Referrer-Policy", "no-referrer");
		http_answer(r, 200, "text/html; charset=utf-8", page_html);
		return true;
	}
	if (!text_has_prefix(path, "/views/"))
		return false;
	for (size_t i = 0; i < NAMES; i++)
		if (strcmp(path + strlen("/views/"), names[i]) == 0) {
			const char *text = answer_of(page, i);
			http_answer(r, *text ? 200 : 503, "application/json", text);
			return true;
		}
	return false;
}

/* ---- start and end ---- */

/* The hash of the text between two tags, as the policy wants it. */
static void put_hash(struct buf *out, const char *begin, const char *end)
{
	const char *from = strstr(page_html, begin) + strlen(begin);
	struct digest *digest = digest_new("SHA256");
	char text[BASE64_LEN(HASH_LEN) + 1] = "";
	uint8_t hash[HASH_LEN];

	if (digest && digest_of(digest, from, (size_t)(strstr(from, end) - from), NULL,
			  0, hash) == 0)
		base64_encode(hash, sizeof(hash), text);
	buf_printf(out, "'sha256-%s'", text);
	digest_free(&digest);
}

/* Nothing is run or loaded but what is in the file and at this address. */
static void make_policy(struct page *page)
{
	struct buf policy;

	buf_init_sure(&policy);
	buf_put_text(&policy, "default-src 'none'; connect-src 'self'; style-src ");
	put_hash(&policy, "<style>", "</style>");
	buf_put_text(&policy, "; script-src ");
	put_hash(&policy, "<script>", "</script>");
	buf_put_text(
	    &policy, "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
	assert(policy.len < sizeof(page->policy));
	strcpy(page->policy, buf_text(&policy));
	buf_done(&policy);
}

static void forget_answers(struct page *page)
{
	for (size_t i = 0; i < NAMES; i++) {
		buf_done(&page->answers[i].text);
		page->answers[i].made_us = 0;
	}
}

void page_review(struct page *page, bool is_served)
{
	if (is_served && !page->history) {
		page->history = mem_zero(sizeof(*page->history));
		page->history->site = page->site;
		deadline_init(&page->history->due, take_point);
		take_point(&page->history->due);
	} else if (!is_served && page->history) {
		deadline_clear(page->site->loop, &page->history->due);
		mem_free(page->history);
		page->history = NULL;
		forget_answers(page);
	}
}

struct page *page_new(struct site *site)
{
	struct page *page = mem_zero(sizeof(*page));

	page->site = site;
	for (size_t i = 0; i < NAMES; i++)
		buf_init(&page->answers[i].text, 0);
	make_policy(page);
	return page;
}

void page_free(struct page **pp)
{
	page_review(*pp, false);
	forget_answers(*pp);
	mem_free(*pp);
	*pp = NULL;
}
