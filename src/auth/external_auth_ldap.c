/*
 * Lets an LDAP directory check a password: by a simple bind, or by a search for the
 * user's entry and a bind as that entry.  It runs synchronously on the calling thread,
 * with its own connection.  A build without LDAP refuses every login.
 */
#include "auth/external_auth.h"
#include "config.h"

#ifdef HAVE_LDAP

#	include <errno.h>
#	include <poll.h>
#	include <string.h>
#	include <sys/time.h>
#	include <time.h>

#	include <ldap.h>

#	include "base/mem.h"

/* Time limits: to connect, to send, and between the parts of an answer; and for the
 * whole answer, which one directory may have to fetch from another. */
enum { NETWORK_TIMEOUT_SECONDS = 3, ANSWER_TIMEOUT_MS = 10000 };
/* How often a wait checks whether the job was cancelled. */
enum { PATIENCE_MS = 100 };

/* One conversation with the first server that can be reached. */
struct talk {
	const struct ldap_options *options;
	const struct helpers_job *job; /* may be NULL */
	LDAP *ld;
	struct ldap_conncb on_connect;
	struct buf uris; /* the server's address, for messages */
	struct err *err;
};

bool external_auth_has_ldap(void)
{
	return true;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_cancelled(const struct talk *t)
{
	return t->job && helpers_is_cancelled(t->job);
}

/* ---- the socket ---- */

/* The LDAP library limits the time for connecting only.  A server that accepts and then
 * sends nothing, or half a message, would block the thread forever, for example in a
 * TLS handshake.  So a layer between the socket and TLS limits every wait. */
enum { LAYER_LEVEL = (LBER_SBIOD_LEVEL_PROVIDER + LBER_SBIOD_LEVEL_TRANSPORT) / 2 };

/* Waits until the socket is ready.  -1 and errno: it was not ready in time. */
static int wait_ready(Sockbuf_IO_Desc *layer, short events)
{
	const struct talk *t = layer->sbiod_pvt;
	struct pollfd watch = {.events = events};
	int64_t end = now_ms() + NETWORK_TIMEOUT_SECONDS * 1000;
	int count;

	ber_sockbuf_ctrl(layer->sbiod_sb, LBER_SB_OPT_GET_FD, &watch.fd);
	do {
		count = poll(&watch, 1, PATIENCE_MS);
		if (count > 0 || (count < 0 && errno != EINTR))
			return count > 0 ? 0 : -1;
	} while (!is_cancelled(t) && now_ms() < end);
	errno = is_cancelled(t) ? ECANCELED : ETIMEDOUT;
	return -1;
}

static ber_slen_t layer_read(Sockbuf_IO_Desc *layer, void *bytes, ber_len_t len)
{
	if (wait_ready(layer, POLLIN) < 0)
		return -1;
	return LBER_SBIOD_READ_NEXT(layer, bytes, len);
}

static ber_slen_t layer_write(Sockbuf_IO_Desc *layer, void *bytes, ber_len_t len)
{
	if (wait_ready(layer, POLLOUT) < 0)
		return -1;
	return LBER_SBIOD_WRITE_NEXT(layer, bytes, len);
}

static int layer_control(Sockbuf_IO_Desc *layer, int option, void *value)
{
	return LBER_SBIOD_CTRL_NEXT(layer, option, value);
}

static int layer_setup(Sockbuf_IO_Desc *layer, void *talk)
{
	layer->sbiod_pvt = talk;
	return 0;
}

/* The conversation is not freed here, because the layer does not own it. */
static int layer_end(Sockbuf_IO_Desc *layer)
{
	(void)layer;
	return 0;
}

static int add_layer(LDAP *ld, Sockbuf *socket, LDAPURLDesc *server,
    struct sockaddr *address, struct ldap_conncb *on_connect)
{
	/* not const, because the library's parameter is not; the library only reads
	 * it */
	static const Sockbuf_IO layer = {
	    .sbi_setup = layer_setup,
	    .sbi_remove = layer_end,
	    .sbi_ctrl = layer_control,
	    .sbi_read = layer_read,
	    .sbi_write = layer_write,
	    .sbi_close = layer_end,
	};

	(void)ld;
	(void)server;
	(void)address;
	return ber_sockbuf_add_io(
	    socket, (Sockbuf_IO *)&layer, LAYER_LEVEL, on_connect->lc_arg);
}

static void forget_connection(LDAP *ld, Sockbuf *socket, struct ldap_conncb *on_connect)
{
	(void)ld;
	(void)socket;
	(void)on_connect;
}

/* ---- answers ---- */

/* Waits for the whole answer to a request and returns an LDAP result code.  The caller
 * frees the answer when it is not NULL. */
static int await(const struct talk *t, int request, LDAPMessage **answer)
{
	int64_t end = now_ms() + ANSWER_TIMEOUT_MS;
	struct timeval patience = {.tv_usec = PATIENCE_MS * 1000};
	int code = LDAP_OTHER, kind;

	*answer = NULL;
	do {
		kind = ldap_result(t->ld, request, LDAP_MSG_ALL, &patience, answer);
		if (kind == 0 && is_cancelled(t))
			return LDAP_USER_CANCELLED;
	} while (kind == 0 && now_ms() < end);
	if (kind == 0) {
		ldap_abandon_ext(t->ld, request, NULL, NULL);
		return LDAP_TIMEOUT;
	}
	if (kind < 0) { /* it failed before anything was sent */
		ldap_get_option(t->ld, LDAP_OPT_RESULT_CODE, &code);
		return code == LDAP_SUCCESS ? LDAP_OTHER : code;
	}
	if (ldap_parse_result(t->ld, *answer, &code, NULL, NULL, NULL, NULL, 0) !=
	    LDAP_SUCCESS)
		return LDAP_DECODING_ERROR;
	return code;
}

/* Waits for an answer that consists of a result code only. */
static int await_code(const struct talk *t, int request)
{
	LDAPMessage *answer;
	int code = await(t, request, &answer);

	ldap_msgfree(answer);
	return code;
}

/* ---- the connection ---- */

/* Looks up the servers that DNS names for the domain of the base DN. */
static int find_servers(struct talk *t)
{
	char *domain = NULL, *hosts = NULL;
	int result = -1;

	if (ldap_dn2domain(t->options->base_dn, &domain) != 0 || !domain)
		err_set(t->err, "could not extract domain name from ldapbasedn");
	else if (ldap_domain2hostlist(domain, &hosts) != LDAP_SUCCESS || !hosts)
		err_set(t->err,
		    "LDAP authentication could not find DNS SRV records for \"%s\"",
		    domain);
	else {
		ldap_options_put_uris(t->options, &t->uris, hosts);
		result = 0;
	}
	ldap_memfree(hosts);
	ldap_memfree(domain);
	return result;
}

static int start_tls(struct talk *t)
{
	int request, code;

	code = ldap_start_tls(t->ld, NULL, NULL, &request);
	if (code == LDAP_SUCCESS)
		code = await_code(t, request);
	if (code == LDAP_SUCCESS)
		code = ldap_install_tls(t->ld);
	if (code != LDAP_SUCCESS)
		return err_set(t->err, "could not start LDAP TLS session: %s",
		    ldap_err2string(code));
	return 0;
}

static int set_up(struct talk *t)
{
	const struct timeval timeout = {.tv_sec = NETWORK_TIMEOUT_SECONDS};
	const int version = LDAP_VERSION3;
	int code = ldap_initialize(&t->ld, buf_text(&t->uris));

	if (code != LDAP_SUCCESS)
		return err_set(t->err, "could not initialize LDAP for \"%s\": %s",
		    buf_text(&t->uris), ldap_err2string(code));
	t->on_connect = (struct ldap_conncb){
	    .lc_add = add_layer, .lc_del = forget_connection, .lc_arg = t};
	if (ldap_set_option(t->ld, LDAP_OPT_CONNECT_CB, &t->on_connect) !=
		LDAP_OPT_SUCCESS ||
	    ldap_set_option(t->ld, LDAP_OPT_PROTOCOL_VERSION, &version) !=
		LDAP_OPT_SUCCESS ||
	    ldap_set_option(t->ld, LDAP_OPT_NETWORK_TIMEOUT, &timeout) !=
		LDAP_OPT_SUCCESS ||
	    /* Referrals would be followed without a password, so they are off. */
	    ldap_set_option(t->ld, LDAP_OPT_REFERRALS, LDAP_OPT_OFF) !=
		LDAP_OPT_SUCCESS)
		return err_set(t->err, "could not set LDAP options");
	return 0;
}

static int open_talk(struct talk *t)
{
	if (t->options->servers)
		ldap_options_put_uris(t->options, &t->uris, t->options->servers);
	else if (find_servers(t) < 0)
		return -1;
	if (set_up(t) < 0)
		return -1;
	return t->options->is_starttls ? start_tls(t) : 0;
}

static void close_talk(struct talk *t)
{
	if (t->ld)
		ldap_unbind_ext(t->ld, NULL, NULL);
	t->ld = NULL;
	buf_clear(&t->uris);
}

/* ---- bind and search ---- */

static int simple_bind(const struct talk *t, const char *dn, const char *password)
{
	struct berval secret = {.bv_val = (char *)password, .bv_len = strlen(password)};
	int request;
	int code =
	    ldap_sasl_bind(t->ld, dn, LDAP_SASL_SIMPLE, &secret, NULL, NULL, &request);

	return code == LDAP_SUCCESS ? await_code(t, request) : code;
}

/* The bind whose result decides the login. */
static int bind_as(struct talk *t, const char *dn, const char *password)
{
	int code = simple_bind(t, dn, password);

	if (code != LDAP_SUCCESS)
		return err_set(t->err,
		    "LDAP login failed for user \"%s\" on server \"%s\": %s", dn,
		    buf_text(&t->uris), ldap_err2string(code));
	return 0;
}

static int search(struct talk *t, const char *filter, LDAPMessage **answer)
{
	static const int scopes[] = {
	    [LDAP_OPTIONS_BASE] = LDAP_SCOPE_BASE,
	    [LDAP_OPTIONS_ONE] = LDAP_SCOPE_ONELEVEL,
	    [LDAP_OPTIONS_SUBTREE] = LDAP_SCOPE_SUBTREE,
	};
	char no_attributes[] = LDAP_NO_ATTRS;
	char *attributes[] = {no_attributes, NULL};
	int request, code;

	/* The limit is two entries, because a second one already makes the result
	 * ambiguous. */
	code = ldap_search_ext(t->ld, t->options->base_dn, scopes[t->options->scope],
	    filter, attributes, 0, NULL, NULL, NULL, 2, &request);
	*answer = NULL;
	if (code == LDAP_SUCCESS)
		code = await(t, request, answer);
	if (code == LDAP_SUCCESS || code == LDAP_SIZELIMIT_EXCEEDED)
		return 0;
	return err_set(t->err,
	    "could not search LDAP for filter \"%s\" on server \"%s\": %s", filter,
	    buf_text(&t->uris), ldap_err2string(code));
}

/* Returns the DN of the only entry found, to be freed with ldap_memfree.  NULL and err
 * when there is not exactly one. */
static char *found_dn(struct talk *t, LDAPMessage *answer, const char *user)
{
	int count = ldap_count_entries(t->ld, answer);
	char *dn;

	if (count <= 0) {
		err_set(t->err, "LDAP user \"%s\" does not exist", user);
		return NULL;
	}
	if (count > 1) {
		err_set(t->err, "LDAP user \"%s\" is not unique", user);
		return NULL;
	}
	dn = ldap_get_dn(t->ld, ldap_first_entry(t->ld, answer));
	if (!dn || *dn == '\0') {
		err_set(t->err, "could not get the DN of LDAP user \"%s\"", user);
		ldap_memfree(dn);
		return NULL;
	}
	return dn;
}

static char *search_user(struct talk *t, const char *user)
{
	LDAPMessage *answer = NULL;
	struct buf filter;
	char *dn = NULL;

	buf_init(&filter, 0);
	if (ldap_options_put_filter(t->options, &filter, user, t->err) == 0) {
		if (filter.failed)
			err_set_row(t->err, ERROR_OUT_OF_MEMORY);
		else if (search(t, buf_text(&filter), &answer) == 0)
			dn = found_dn(t, answer, user);
	}
	ldap_msgfree(answer);
	buf_done(&filter);
	return dn;
}

/* Binds as the user who may search, or anonymously. */
static int bind_to_search(struct talk *t)
{
	const char *dn = t->options->bind_dn ? t->options->bind_dn : "";
	const char *password =
	    t->options->bind_password ? t->options->bind_password : "";
	int code = simple_bind(t, dn, password);

	if (code != LDAP_SUCCESS)
		return err_set(t->err,
		    "could not perform initial LDAP bind for ldapbinddn \"%s\" on "
		    "server \"%s\": %s",
		    dn, buf_text(&t->uris), ldap_err2string(code));
	return 0;
}

static int search_and_bind(struct talk *t, const char *user, const char *password)
{
	char *dn = NULL;
	int result = -1;

	if (open_talk(t) == 0 && bind_to_search(t) == 0)
		dn = search_user(t, user);
	close_talk(t);
	/* a new connection has none of the rights of the user who searched */
	if (dn && open_talk(t) == 0)
		result = bind_as(t, dn, password);
	ldap_memfree(dn);
	return result;
}

static int bind_only(struct talk *t, const char *user, const char *password)
{
	struct buf dn;
	int result = -1;

	buf_init(&dn, 0);
	if (ldap_options_put_dn(t->options, &dn, user, t->err) == 0) {
		if (dn.failed)
			err_set_row(t->err, ERROR_OUT_OF_MEMORY);
		else if (open_talk(t) == 0)
			result = bind_as(t, buf_text(&dn), password);
	}
	buf_done(&dn);
	return result;
}

/* Makes the library read its configuration, which it does at its first use.  That must
 * not happen on two threads at once. */
static void prepare_library(void)
{
	int version;

	ldap_get_option(NULL, LDAP_OPT_PROTOCOL_VERSION, &version);
}

int external_auth_ldap_check(const struct ldap_options *options, const char *user,
    const char *password, const struct helpers_job *job, struct err *err)
{
	struct talk t = {.options = options, .job = job, .err = err};
	int result;

	if (*password == '\0')
		return err_set(err, "empty password for LDAP user \"%s\"", user);
	if (job)
		helpers_alone(job, prepare_library);
	buf_init(&t.uris, 0);
	if (ldap_options_has_search(options))
		result = search_and_bind(&t, user, password);
	else
		result = bind_only(&t, user, password);
	close_talk(&t);
	buf_done(&t.uris);
	return result;
}

#else

bool external_auth_has_ldap(void)
{
	return false;
}

int external_auth_ldap_check(const struct ldap_options *options, const char *user,
    const char *password, const struct helpers_job *job, struct err *err)
{
	(void)options;
	(void)user;
	(void)password;
	(void)job;
	return err_set_row(err, ERROR_LDAP_UNSUPPORTED);
}

#endif
