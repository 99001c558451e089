/*
 * Rows become samples: labels, merging, limits, and the formats byte for byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "metrics/writer.h"
#include "views/show.h"

static void put_pool(struct samples *s, const char *user, int active, int wait_us)
{
	const struct view *view = view_find("POOLS");

	samples_sink.text(s, "db");
	samples_sink.text(s, user);
	for (size_t i = 2; i < view->column_count; i++) {
		const char *name = view->columns[i].name;
		if (strcmp(name, "pool_mode") == 0 ||
		    strcmp(name, "load_balance_hosts") == 0)
			samples_sink.text(s, NULL);
		else if (strcmp(name, "maxwait") == 0)
			samples_sink.number(s, wait_us / 1000000);
		else if (strcmp(name, "maxwait_us") == 0)
			samples_sink.number(s, wait_us % 1000000);
		else
			samples_sink.number(s, strcmp(name, "cl_active") ? 0 : active);
	}
	samples_sink.end(s);
}

static void put_client(struct samples *s, const char *application_name)
{
	const struct view *view = view_find("CLIENTS");

	for (size_t i = 0; i < view->column_count; i++)
		samples_sink.text(s, strcmp(view->columns[i].name, "application_name")
					 ? "x"
					 : application_name);
	samples_sink.end(s);
}

/* A collection of these two samples, the others empty. */
static void harvest_init(struct collection *h, size_t most)
{
	memset(h, 0, sizeof(*h));
	for (int i = 0; i < SAMPLES_COUNT; i++)
		h->samples[i] = samples_new((enum samples_id)i, most);
	h->durations = durations_new();
}

static void harvest_done(struct collection *h)
{
	for (int i = 0; i < SAMPLES_COUNT; i++)
		samples_free(&h->samples[i]);
	durations_free(&h->durations);
}

/* All of it; the buffer is the caller's. */
static const char *write_all(
    const struct collection *h, enum format format, struct buf *out)
{
	struct writer w;

	buf_init(out, 0);
	writer_init(&w, h, format);
	for (bool has_more = true; has_more;) {
		struct buf part;
		buf_init(&part, 0);
		has_more = writer_part(&w, &part);
		buf_put(out, part.bytes, part.len);
		buf_done(&part);
	}
	return buf_text(out);
}

#define assert_has(text, part)   assert_non_null(strstr(text, part))
#define assert_lacks(text, part) assert_null(strstr(text, part))

static void test_sites_become_one(void **state)
{
	struct collection h;
	struct buf out;

	(void)state;
	harvest_init(&h, 100);
	put_pool(h.samples[SAMPLES_POOLS], "u", 2, 3000007);
	put_pool(h.samples[SAMPLES_POOLS], "v", 1, 0);
	put_pool(h.samples[SAMPLES_POOLS], "u", 3, 2999999);
	const char *text = write_all(&h, FORMAT_TEXT, &out);
	assert_has(text, "pgbouncer_pools 2\n");
	assert_has(text, "pgbouncer_pools_client_active_connections{database=\"db\","
			 "user=\"u\"} 5\n");
	assert_has(text, "pgbouncer_pools_client_maxwait_seconds{database=\"db\","
			 "user=\"u\"} 3.000007\n");
	assert_has(text, "pgbouncer_pools_client_maxwait_seconds{database=\"db\","
			 "user=\"v\"} 0\n");
	buf_done(&out);
	harvest_done(&h);
}

static void test_labels(void **state)
{
	char label[LABEL_MOST + 1], text[600];

	(void)state;
	samples_take_label(label, NULL);
	assert_string_equal(label, "");
	samples_take_label(label, "a\xc3\xa4\xff\xe2\x82");
	assert_string_equal(label, "a\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	samples_take_label(label, "\xed\xa0\x80\xc0\x80");
	assert_string_equal(label, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
				   "\xef\xbf\xbd\xef\xbf\xbd");
	memset(text, 0xff, sizeof(text));
	text[sizeof(text) - 1] = '\0';
	samples_take_label(label, text);
	assert_int_equal(strlen(label), 255);
}

static void test_escapes(void **state)
{
	struct collection h;
	struct buf out;

	(void)state;
	harvest_init(&h, 100);
	put_client(h.samples[SAMPLES_CLIENTS], "a\"b\\c\nd");
	assert_has(
	    write_all(&h, FORMAT_TEXT, &out), "application_name=\"a\\\"b\\\\c\\nd\"");
	assert_lacks(buf_text(&out), "\"other\"");
	buf_done(&out);
	harvest_done(&h);
}

static void test_others(void **state)
{
	struct collection h;
	struct buf out;

	(void)state;
	harvest_init(&h, 2);
	put_client(h.samples[SAMPLES_CLIENTS], "a");
	put_client(h.samples[SAMPLES_CLIENTS], "b");
	put_client(h.samples[SAMPLES_CLIENTS], "c");
	put_client(h.samples[SAMPLES_CLIENTS], "a");
	const char *text = write_all(&h, FORMAT_TEXT, &out);
	assert_has(text, "application_name=\"a\",state=\"x\"} 2\n");
	assert_has(text, "application_name=\"other\",state=\"x\"} 2\n");
	assert_lacks(text, "application_name=\"b\"");
	buf_done(&out);
	harvest_done(&h);
}

static void test_openmetrics(void **state)
{
	struct collection h;
	struct buf out;

	(void)state;
	harvest_init(&h, 2);
	const char *text = write_all(&h, FORMAT_OPENMETRICS, &out);
	assert_has(text, "# TYPE pgbouncer_stats_totals_received_bytes counter\n"
			 "# UNIT pgbouncer_stats_totals_received_bytes bytes\n");
	assert_string_equal(text + strlen(text) - 6, "# EOF\n");
	buf_done(&out);
	text = write_all(&h, FORMAT_TEXT, &out);
	assert_has(
	    text, "# TYPE pgbouncer_stats_totals_received_bytes_total counter\n");
	assert_lacks(text, "# UNIT");
	assert_lacks(text, "# EOF");
	buf_done(&out);
	harvest_done(&h);
}

static const struct served query = {.name = "q", .help = "h", .is_histogram = true};

static struct histogram *some_durations(void)
{
	struct histogram *h = NULL;

	histogram_add(&h, 0);
	histogram_add(&h, 1000000);
	histogram_add(&h, 1000000);
	histogram_add(&h, 4000001);
	return h;
}

static void test_classic_histogram(void **state)
{
	struct histogram *h = some_durations();
	struct sample sample = {.histogram = h};
	struct buf out;

	(void)state;
	buf_init(&out, 0);
	writer_put_sample(&out, &query, &sample);
	assert_has(buf_text(&out), "q_bucket{le=\"0.25\"} 1\n"
				   "q_bucket{le=\"1.0\"} 3\n"
				   "q_bucket{le=\"4.0\"} 3\n"
				   "q_bucket{le=\"16.0\"} 4\n"
				   "q_bucket{le=\"64.0\"} 4\n"
				   "q_bucket{le=\"+Inf\"} 4\n"
				   "q_sum 6.000001\nq_count 4\n");
	buf_done(&out);
	histogram_free(&h);
}

/* Each column that the table names exists, and no name is served twice. */
static void test_table(void **state)
{
	const struct family *f, *g;
	struct samples *samples;

	(void)state;
	for (size_t i = 0; (f = family_at(i)); i++) {
		samples = samples_new(f->samples, 1);
		if (*f->column)
			assert_true(samples_slot(samples, f->column) >= 0);
		if (*f->micros)
			assert_true(samples_slot(samples, f->micros) >= 0);
		samples_free(&samples);
		for (size_t j = 0; j < i; j++) {
			g = family_at(j);
			assert_string_not_equal(f->name, g->name);
		}
		size_t len = strlen(f->name);
		assert_int_equal(f->type == FAMILY_COUNTER,
		    len > 6 && strcmp(f->name + len - 6, "_total") == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_sites_become_one),
	    cmocka_unit_test(test_labels),
	    cmocka_unit_test(test_escapes),
	    cmocka_unit_test(test_others),
	    cmocka_unit_test(test_openmetrics),
	    cmocka_unit_test(test_classic_histogram),
	    cmocka_unit_test(test_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
