/*
 * Parameters of a session as PostgreSQL has them: what SET, SET LOCAL, RESET and the
 * end of a transaction make of them.  Servers have them, and clients know from the same
 * rules what theirs must be.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "sim.h"

const char *const guc_names[GUCS] = {"client_encoding", "DateStyle", "TimeZone",
    "application_name", "standard_conforming_strings", "IntervalStyle",
    "statement_timeout", "work_mem", "search_path"};
static const char *const defaults[GUCS] = {
    "UTF8", "ISO, MDY", "Etc/UTC", "", "on", "postgres", "0", "4MB", "public"};
enum { ENCODING, DATE_STYLE, TIME_ZONE, APPLICATION, CONFORMING, INTERVAL_STYLE };

int guc_find(const char *name)
{
	for (int i = 0; i < GUCS; i++)
		if (strcasecmp(name, guc_names[i]) == 0)
			return i;
	return -1;
}

static int spell_from(const char *const *words, const char *asked, char out[GUC_LEN])
{
	for (; *words; words++)
		if (strcasecmp(*words, asked) == 0)
			return snprintf(out, GUC_LEN, "%s", *words) < 0 ? -1 : 0;
	return -1;
}

static int spell_date(const char *present, const char *asked, char out[GUC_LEN])
{
	static const char *const styles[] = {"ISO", "German", "SQL", NULL};
	static const char *const orders[] = {"MDY", "DMY", "YMD", NULL};
	char style[GUC_LEN], order[GUC_LEN], word[GUC_LEN];

	if (sscanf(present, "%95[^,], %95s", style, order) != 2)
		return -1;
	while (*asked) {
		size_t len = strcspn(asked, ", ");
		snprintf(word, sizeof(word), "%.*s", (int)len, asked);
		asked += len + strspn(asked + len, ", ");
		if (spell_from(styles, word, style) < 0 &&
		    spell_from(orders, word, order) < 0)
			return -1;
	}
	return snprintf(out, GUC_LEN, "%.20s, %.20s", style, order) < 0 ? -1 : 0;
}

int guc_spell(int i, const char *present, const char *asked, char out[GUC_LEN])
{
	static const char *const encodings[] = {"UTF8", "LATIN1", "SQL_ASCII", NULL};
	static const char *const intervals[] = {
	    "postgres", "postgres_verbose", "sql_standard", "iso_8601", NULL};
	static const char *const zones[] = {
	    "Etc/UTC", "UTC", "Europe/Berlin", "America/New_York", NULL};

	switch (i) {
	case ENCODING:
		if (strcasecmp(asked, "utf-8") == 0)
			asked = "UTF8";
		return spell_from(encodings, asked, out);
	case DATE_STYLE:
		return spell_date(present, asked, out);
	case TIME_ZONE:
		return spell_from(zones, asked, out);
	case CONFORMING:
		if (strcasecmp(asked, "true") == 0)
			asked = "on";
		return spell_from((const char *const[]){"on", "off", NULL}, asked, out);
	case INTERVAL_STYLE:
		return spell_from(intervals, asked, out);
	default:
		snprintf(out, GUC_LEN, "%.63s", asked);
		return 0;
	}
}

void gucs_init(struct gucs *g)
{
	memset(g, 0, sizeof(*g));
	for (int i = 0; i < GUCS; i++) {
		snprintf(g->of[i].now.text, GUC_LEN, "%s", defaults[i]);
		snprintf(g->base[i], GUC_LEN, "%s", defaults[i]);
	}
}

void gucs_begin(struct gucs *g)
{
	g->in_transaction = true;
	for (int i = 0; i < GUCS; i++)
		g->of[i].is_changed = false;
}

void gucs_end(struct gucs *g, bool is_commit)
{
	for (int i = 0; i < GUCS; i++) {
		struct guc *c = &g->of[i];
		if (c->is_changed)
			c->now = is_commit ? c->after : c->before;
		c->is_changed = false;
	}
	g->in_transaction = false;
}

static void give(struct gucs *g, int i, const struct guc_value *value, bool is_local)
{
	struct guc *c = &g->of[i];

	if (!g->in_transaction) {
		if (!is_local)
			c->now = *value;
		return;
	}
	if (!c->is_changed)
		c->before = c->after = c->now;
	c->is_changed = true;
	c->now = *value;
	if (!is_local)
		c->after = *value;
}

int gucs_set(struct gucs *g, int i, const char *text, bool is_local)
{
	struct guc_value value = {.is_set = true};

	if (guc_spell(i, g->of[i].now.text, text, value.text) < 0)
		return -1;
	give(g, i, &value, is_local);
	return 0;
}

void gucs_reset(struct gucs *g, int i)
{
	struct guc_value value = {.is_set = false};

	for (int j = 0; j < GUCS; j++) {
		memcpy(value.text, g->base[j], GUC_LEN);
		if (i < 0 || i == j)
			give(g, j, &value, false);
	}
}

void gucs_start(struct gucs *g, int i, const char *text)
{
	if (gucs_set(g, i, text, false) == 0)
		memcpy(g->base[i], g->of[i].now.text, GUC_LEN);
	g->of[i].now.is_set = false;
}

void gucs_text(const struct gucs *g, char *out, size_t size)
{
	size_t len = 0;

	out[0] = '\0';
	for (int i = 0; i < GUCS && len < size; i++)
		len +=
		    (size_t)snprintf(out + len, size - len, "%s|", g->of[i].now.text);
}
