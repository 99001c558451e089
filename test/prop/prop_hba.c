/* links: auth base */
/*
 * Random HBA files, each rule made together with its expected meaning, and random
 * peers.  A file with a broken line is refused, and its faults are counted.  In all
 * others the rule that fits is the first whose meaning, looked up naively, fits too;
 * the host name is asked for exactly when a rule needs it.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/hba.h"
#include "base/buf.h"
#include "prop.h"

enum { ROUNDS = 400, PEERS = 60, RULES_MOST = 12, NAMES = 4, HOSTS = 3 };

/* Names are single letters; databases and users share them. */
static const char *const names[NAMES] = {"a", "b", "all", "replication"};
static const char *const hosts[HOSTS] = {"x.test", "y.test", "x.other"};

/* What a rule means: bit sets over all databases, users, addresses and hosts. */
struct meaning {
	unsigned line;
	bool is_local, is_for_tls, is_for_plain;
	unsigned databases, users; /* bits of names */
	bool is_same_database, is_same_user, has_replication;
	unsigned first, last; /* last bytes of addresses 10.0.0.N, inclusive */
	unsigned hosts;       /* bits of hosts; 0: by address */
	enum hba_method method;
};

struct fixture {
	uint64_t random;
	struct buf text;
	unsigned line;
	struct meaning rules[RULES_MOST];
	size_t count;
	bool may_break;          /* the file may get broken lines */
	unsigned broken, faults; /* broken lines in the file, and faults reported */
};

static unsigned below(struct fixture *w, unsigned n)
{
	return (unsigned)(random_next(&w->random) >> 33) % n;
}

static void put_blank(struct fixture *w)
{
	static const char *const blanks[] = {" ", "\t", "  ", " \\\n "};
	unsigned which = below(w, 12);

	which = which < 4 ? which : 0;
	buf_put_text(&w->text, blanks[which]);
	w->line += which == 3;
}

/* One item of a list: a name in some spelling or a keyword. */
static void put_item(struct fixture *w, unsigned *set, bool *is_same, bool *replication)
{
	unsigned name = below(w, NAMES);

	switch (below(w, 7)) {
	case 0:
		buf_put_text(&w->text, "all");
		*set = (1u << NAMES) - 1;
		break;
	case 1:
		buf_put_text(&w->text, "sameuser");
		*is_same = true;
		break;
	case 2:
		if (replication) {
			buf_put_text(&w->text, "replication");
			*replication = true;
			break;
		}
		/* fall through */
	case 3:
		buf_printf(&w->text, "\"%s\"", names[name]);
		*set |= 1u << name;
		break;
	case 4:
		buf_printf(&w->text, "/^%.1s", names[name]);
		for (unsigned i = 0; i < NAMES; i++)
			*set |= (unsigned)(names[i][0] == names[name][0]) << i;
		break;
	default: /* the bare spelling of a name that is no keyword */
		name = below(w, 2);
		buf_put_text(&w->text, names[name]);
		*set |= 1u << name;
	}
}

static void put_list(struct fixture *w, unsigned *set, bool *is_same, bool *replication)
{
	unsigned count = 1 + below(w, 3);

	while (count--) {
		put_item(w, set, is_same, replication);
		if (count)
			buf_put_text(&w->text, below(w, 3) ? "," : " , ");
	}
	put_blank(w);
}

static void put_address(struct fixture *w, struct meaning *m)
{
	unsigned bits = 24 + below(w, 9), size = 1u << (32 - bits);
	unsigned host = below(w, HOSTS);

	m->first = below(w, 256) / size * size;
	m->last = m->first + size - 1;
	switch (below(w, 6)) {
	case 0:
		buf_put_text(&w->text, "all");
		m->first = 0;
		m->last = 255;
		break;
	case 1:
		buf_put_text(&w->text, hosts[host]);
		m->hosts = 1u << host;
		break;
	case 2:
		buf_put_text(&w->text, ".TEST");
		m->hosts = 3;
		break;
	case 3:
		buf_printf(&w->text, "10.0.0.%u", m->first);
		put_blank(w);
		buf_printf(&w->text, "255.255.255.%u", 256 - size);
		break;
	default: /* an address with host bits matches only in a reject rule */
		buf_printf(&w->text, "10.0.0.%u/%u",
		    m->first + (m->method == HBA_REJECT ? below(w, size) : 0), bits);
	}
	put_blank(w);
}

static void put_rule(struct fixture *w)
{
	static const char *const types[] = {"local", "host", "hostssl", "hostnossl"};
	struct meaning *m = &w->rules[w->count++];
	unsigned type = below(w, 4);

	*m = (struct meaning){.line = w->line, .is_local = !type};
	m->is_for_tls = type != 3;
	m->is_for_plain = type != 2;
	m->method = (enum hba_method)below(w, HBA_OAUTH + 1);
	/* tokens need TLS */
	if (m->method == HBA_OAUTH && (m->is_local || !m->is_for_tls))
		m->method = HBA_PAM;
	buf_put_text(&w->text, types[type]);
	put_blank(w);
	put_list(w, &m->databases, &m->is_same_database, &m->has_replication);
	put_list(w, &m->users, &m->is_same_user, NULL);
	if (type)
		put_address(w, m);
	buf_put_text(&w->text, hba_method_name(m->method));
	if (m->method == HBA_LDAP)
		buf_put_text(&w->text, " ldapserver=h ldapsuffix=\"x\"");
	if (m->method == HBA_OAUTH)
		buf_put_text(&w->text, " issuer=https://h scope=\"a b\"");
}

static void put_line(struct fixture *w)
{
	static const char *const others[] = {"", "# local all all trust",
	    "host all all 10.0.0.1/24 trust # matches nobody"};
	static const char *const broken[] = {"host all all 10.0.0.0 trust",
	    "local all all", "local +a all trust", "hostgssenc all all all trust",
	    "local all \"all trust", "local all all nothing", "local all all ldap x"};

	w->line++;
	if (w->may_break && below(w, 8) == 0) {
		buf_put_text(
		    &w->text, broken[below(w, sizeof(broken) / sizeof(*broken))]);
		w->broken++;
	} else if (below(w, 6) == 0) {
		buf_put_text(
		    &w->text, others[below(w, sizeof(others) / sizeof(*others))]);
	} else
		put_rule(w);
	buf_put_text(&w->text, below(w, 5) ? "\n" : "\r\n");
}

/* ---- the naive look-up ---- */

struct who {
	struct hba_peer peer;
	unsigned database, user, host;
};

static bool is_fit_by_name(const struct meaning *m, const struct who *who)
{
	bool is_same = who->database == who->user;

	if (who->peer.replication == HBA_REPLICATION_PHYSICAL) {
		if (!m->has_replication)
			return false;
	} else if (!(m->databases >> who->database & 1) &&
		   !(m->is_same_database && is_same)) {
		return false;
	}
	return (m->users >> who->user & 1) || (m->is_same_user && is_same);
}

static bool is_fit_by_socket(const struct meaning *m, const struct who *who)
{
	if (m->is_local || who->peer.is_unix)
		return m->is_local && who->peer.is_unix;
	return who->peer.is_tls ? m->is_for_tls : m->is_for_plain;
}

static bool is_fit_by_address(const struct meaning *m, const struct who *who)
{
	if (m->is_local)
		return true;
	if (m->hosts)
		return who->peer.name == HBA_NAME_KNOWN && (m->hosts >> who->host & 1);
	return who->peer.ip[3] >= m->first && who->peer.ip[3] <= m->last;
}

static enum hba_result look_up(
    const struct fixture *w, const struct who *who, const struct meaning **found)
{
	for (size_t i = 0; i < w->count; i++) {
		const struct meaning *m = *found = &w->rules[i];
		if (!is_fit_by_socket(m, who) || !is_fit_by_name(m, who))
			continue;
		if (m->hosts && who->peer.name == HBA_NAME_UNKNOWN)
			return HBA_NEEDS_NAME;
		if (is_fit_by_address(m, who))
			return HBA_MATCH;
	}
	*found = NULL;
	return HBA_NO_MATCH;
}

static void random_peer(struct fixture *w, struct who *who)
{
	who->database = below(w, NAMES);
	who->user = below(w, NAMES);
	who->host = below(w, HOSTS);
	who->peer = (struct hba_peer){.is_unix = below(w, 3) == 0,
	    .is_tls = below(w, 2),
	    .family = AF_INET,
	    .ip = {10, 0, 0, (uint8_t)below(w, 256)},
	    .name = (enum hba_name)below(w, HBA_NAME_NONE + 1),
	    .host_name = hosts[who->host],
	    .replication = (enum hba_replication)below(w, 3),
	    .database = names[who->database],
	    .user = names[who->user]};
}

static int peer_agrees(struct fixture *w, const struct hba *hba)
{
	const struct hba_rule *rule;
	const struct meaning *m;
	struct who who;

	random_peer(w, &who);
	enum hba_result result = hba_match(hba, &who.peer, &rule);
	enum hba_result wanted = look_up(w, &who, &m);
	if (result == wanted && (!m) == (!rule) &&
	    (!m || (m->line == rule->line && m->method == rule->method)))
		return 0;
	printf(
	    "%s\ndatabase %s user %s ip %d unix %d tls %d replication %d name %d %s: "
	    "%d line %u, wanted %d line %u\n",
	    buf_text(&w->text), who.peer.database, who.peer.user, who.peer.ip[3],
	    who.peer.is_unix, who.peer.is_tls, who.peer.replication, who.peer.name,
	    who.peer.host_name, result, rule ? rule->line : 0, wanted, m ? m->line : 0);
	return -1;
}

static void count_faults(
    void *ctx, enum diagnostic kind, const char *where, const char *text)
{
	struct fixture *w = ctx;

	w->faults += kind == DIAGNOSTIC_ERROR;
	assert(where[0] && text[0]);
}

static int check_faults(struct fixture *w)
{
	if (w->faults == w->broken)
		return 0;
	printf("%s\n%u lines are broken, %u were reported\n", buf_text(&w->text),
	    w->broken, w->faults);
	return -1;
}

static int file_agrees(struct fixture *w)
{
	struct err err;
	int status;

	buf_init(&w->text, 0);
	w->count = 0;
	w->line = 0;
	w->broken = w->faults = 0;
	w->may_break = below(w, 4) == 0;
	for (unsigned lines = 1 + below(w, RULES_MOST); lines; lines--)
		put_line(w);
	const char *text = buf_text(&w->text);
	struct hba *hba =
	    hba_parse("f", text, strlen(text), NULL, count_faults, w, &err);
	assert(!hba == (w->faults > 0));
	status = check_faults(w);
	for (int i = 0; hba && !status && i < PEERS; i++)
		status = peer_agrees(w, hba);
	hba_free(&hba);
	buf_done(&w->text);
	return status;
}

int main(int argc, char **argv)
{
	struct fixture w = {
	    .random = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)getpid()};
	int bad = 0;

	printf("seed %llu\n", (unsigned long long)w.random);
	for (int i = 0; !bad && i < ROUNDS; i++)
		bad = file_agrees(&w);
	return bad ? 1 : 0;
}
