/*
 * Serves the page, which is page.html as it is, and the answers of SHOW as JSON.
 */
#include "metrics/page.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "auth/base64.h"
#include "auth/digest.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "metrics/history.h"
#include "views/show.h"

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
	cursor_init(&c, messages.bytes, messages.len);
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
		a->made_us = now_us;
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
			http_answer(r, 200, "application/json", answer_of(page, i));
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

	buf_init(&policy, 0);
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
	if (is_served == (page->history != NULL))
		return;
	if (is_served) {
		page->history = history_new(page->site);
	} else {
		history_free(&page->history);
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
