#include "broker/server_tls.h"

#include <string.h>

#include "base/mem.h"
#include "session/tls_setup.h"
#include "wire/codec.h"

static enum tls_begin refuse(const char **reason, const char *why)
{
	*reason = why;
	return TLS_BEGIN_REFUSED;
}

static enum tls_begin start(struct conn *conn, const char *host,
    const struct server_tls *tls, const char **reason)
{
	int failed;
	/* a host of several addresses is "NAME/ADDRESS" */
	char *name = host ? mem_dup(host, strlen(host) + 1) : NULL;
	struct tls_peer_config peer = {
	    .host = name,
	    .checks_name = tls->mode == TLS_VERIFY_FULL,
	    .is_direct = tls->start == TLS_START_DIRECT,
	};

	if (name)
		name[strcspn(name, "/")] = '\0';
	*reason = "TLS startup failed";
	failed = conn_secure(conn, tls->context, &peer, NULL, 0, *reason);
	mem_free(name);
	return failed < 0 ? TLS_BEGIN_REFUSED : TLS_BEGIN_STARTED;
}

static int demands_of(struct conn *conn, const struct database_config *db,
    struct server_tls *tls, const char **reason)
{
	struct err err;

	if (tls_setup_server(conn->site->tls, db, tls, &err) == 0)
		return 0;
	conn_log(conn, LEVEL_ERROR | KIND_TLS, "%s", err.text);
	*reason = "TLS startup failed";
	return -1;
}

enum tls_begin server_tls_begin(struct conn *conn, const char *host,
    const struct database_config *db, const char **reason)
{
	struct server_tls tls;
	struct buf buf;

	if (conn->remote.family == AF_UNIX)
		return TLS_BEGIN_CLEAR;
	if (demands_of(conn, db, &tls, reason) < 0)
		return TLS_BEGIN_REFUSED;
	if (tls.mode == TLS_DISABLE)
		return TLS_BEGIN_CLEAR;
	if (tls.start == TLS_START_DIRECT)
		return start(conn, host, &tls, reason);
	buf_init(&buf, 0);
	codec_put_ssl_request(&buf);
	conn_send(conn, &buf);
	buf_done(&buf);
	return TLS_BEGIN_ASKED;
}

enum tls_begin server_tls_answer(struct conn *conn, const char *host,
    const struct database_config *db, const uint8_t *p, size_t len, const char **reason)
{
	struct server_tls tls;

	if (*p != 'S' && *p != 'N')
		return refuse(reason, "bad sslreq answer");
	if (len > 1)
		return refuse(reason, "received unencrypted data after SSL response");
	if (demands_of(conn, db, &tls, reason) < 0)
		return TLS_BEGIN_REFUSED;
	if (*p == 'N')
		return tls.mode >= TLS_REQUIRE ? refuse(reason, "server refused SSL")
					       : TLS_BEGIN_CLEAR;
	/* a reload may have switched TLS off since the SSLRequest was sent */
	if (!tls.context)
		return refuse(reason, "sslreq processing failed");
	return start(conn, host, &tls, reason);
}
