#include "auth/hba.h"

#include "auth/hba_rows.h"

struct hba_reader {
	struct hba *hba;
	struct rule_reader lines;
	const struct ident *ident; /* borrowed */
};

static int take_row(void *ctx, struct rule_file *f, struct err *err)
{
	struct hba_reader *r = ctx;
	struct hba *hba = r->hba;
	struct hba_row *row = arena_alloc(hba->arena, sizeof(*row));

	if (hba_row_parse(row, r->ident, &r->lines, f, err) < 0) {
		hba_row_done(row);
		return -1;
	}
	hba->rows = mem_resize(hba->rows, (hba->count + 1) * sizeof(row));
	hba->rows[hba->count++] = row;
	return 0;
}

struct hba *hba_parse(const char *path, const char *text, size_t len,
    const struct ident *ident, diagnostic_fn *report, void *ctx, struct err *err)
{
	struct hba *hba = mem_zero(sizeof(*hba));
	struct hba_reader r = {.hba = hba, .ident = ident};
	struct rule_file f;

	hba->arena = arena_new();
	r.lines = (struct rule_reader){.take = take_row,
	    .ctx = &r,
	    .report = report,
	    .report_ctx = ctx,
	    .arena = hba->arena};
	rule_file_init(&f, arena_strdup(hba->arena, path), text, len);
	f.kind = "hba";
	rule_file_read(&r.lines, &f);
	if (rule_file_result(&r.lines, &f, err) < 0)
		hba_free(&hba);
	rule_file_done(&f);
	return hba;
}

struct hba *hba_load(const char *path, const struct ident *ident, diagnostic_fn *report,
    void *ctx, struct err *err)
{
	size_t len;
	char *text = text_read_file(path, &len, err);

	if (!text) {
		err_prefix(err, "could not open hba config file %.200s: ", path);
		return NULL;
	}
	struct hba *hba = hba_parse(path, text, len, ident, report, ctx, err);
	mem_wipe(text, len); /* LDAP options may contain a password */
	mem_free(text);
	return hba;
}

void hba_free(struct hba **hp)
{
	struct hba *hba = *hp;

	if (!hba)
		return;
	for (size_t i = 0; i < hba->count; i++)
		hba_row_done(hba->rows[i]);
	mem_free(hba->rows);
	arena_free(&hba->arena);
	mem_free(hba);
	*hp = NULL;
}

size_t hba_count(const struct hba *hba)
{
	return hba->count;
}

const struct hba_rule *hba_rule_at(const struct hba *hba, size_t i)
{
	return i < hba->count ? &hba->rows[i]->rule : NULL;
}

const struct hba_rule *hba_find_method(const struct hba *hba, enum hba_method method)
{
	for (size_t i = 0; i < hba->count; i++) {
		if (hba->rows[i]->rule.method == method)
			return &hba->rows[i]->rule;
	}
	return NULL;
}

/* ---- matching ---- */

static bool is_right_socket(const struct hba_row *row, const struct hba_peer *peer)
{
	if (row->is_local || peer->is_unix)
		return row->is_local == peer->is_unix;
	return row->tls == HBA_TLS_ANY || (row->tls == HBA_TLS_ONLY) == peer->is_tls;
}

static enum pattern_result match_database(
    const struct hba_row *row, const struct hba_peer *peer)
{
	if (peer->replication == HBA_REPLICATION_PHYSICAL)
		return row->databases.has_replication ? PATTERN_YES : PATTERN_NO;
	return hba_names_match(&row->databases, peer->database, peer);
}

static bool needs_name(const struct hba_row *row, const struct hba_peer *peer)
{
	return hba_address_is_name(&row->address) && peer->name == HBA_NAME_UNKNOWN;
}

/* Returns the first of these rules that would match the user in another spelling,
 * `folded`. */
static const struct hba_row *other_spelling(const struct hba *hba, size_t count,
    const struct hba_peer *peer, const char *folded)
{
	const struct hba_row *found = NULL;

	for (size_t i = 0; i < count && !found; i++) {
		const struct hba_row *row = hba->rows[i];
		if (is_right_socket(row, peer) &&
		    hba_names_match_folded(&row->users, folded) &&
		    match_database(row, peer) != PATTERN_NO &&
		    (row->is_local || needs_name(row, peer) ||
			hba_address_has(&row->address, peer)))
			found = row;
	}
	return found;
}

/* The rule with this index matches. */
static enum hba_result decide(const struct hba *hba, size_t i,
    const struct hba_peer *peer, const struct hba_rule **rule)
{
	const struct hba_row *other = NULL;

	enum hba_method method = hba->rows[i]->rule.method;
	bool is_asked_elsewhere = method == HBA_LDAP || method == HBA_PAM ||
				  method == HBA_GSS || hba->rows[i]->rule.is_delegated;
	if (is_asked_elsewhere) {
		char *folded = hba_names_fold(peer->user);
		if (!folded)
			return HBA_NO_MATCH;
		other = other_spelling(hba, i, peer, folded);
		mem_free(folded);
	}
	*rule = other ? &other->rule : &hba->rows[i]->rule;
	if (!other)
		return HBA_MATCH;
	return needs_name(other, peer) ? HBA_NEEDS_NAME : HBA_OTHER_SPELLING;
}

enum hba_result hba_match(
    const struct hba *hba, const struct hba_peer *peer, const struct hba_rule **rule)
{
	*rule = NULL;
	for (size_t i = 0; i < hba->count; i++) {
		const struct hba_row *row = hba->rows[i];
		if (!is_right_socket(row, peer))
			continue;
		enum pattern_result result = match_database(row, peer);
		enum pattern_result names =
		    result == PATTERN_YES
			? hba_names_match(&row->users, peer->user, peer)
			: result;
		/* the rule could be a `reject`, so later rules must not be tried */
		if (names == PATTERN_FAILED)
			return HBA_NO_MATCH;
		if (names == PATTERN_NO)
			continue;
		*rule = &row->rule;
		if (row->is_local)
			return decide(hba, i, peer, rule);
		if (needs_name(row, peer))
			return HBA_NEEDS_NAME;
		if (hba_address_has(&row->address, peer))
			return decide(hba, i, peer, rule);
		*rule = NULL;
	}
	return HBA_NO_MATCH;
}
