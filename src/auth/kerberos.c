/*
 * Exchanges by GSSAPI, step by step.
 */
#include "auth/kerberos.h"

#include <string.h>
#include <strings.h>

#include "auth/gssapi.h"
#include "auth/kerberos_ticket.h"
#include "base/mem.h"

/* Kerberos needs two steps, and three around a negotiation; nobody may ask for more and
 * more of them. */
enum { STEPS_MAX = 8 };

struct kerberos_exchange {
	char *keyfile; /* owned: of the side that is logged in to; NULL: we log in */
	struct kerberos_ticket *ticket; /* one reference: otherwise */
	bool is_renewal;
	struct gssapi_credentials *keys; /* since the first step */
	struct kerberos_grant *grant;    /* likewise */
	struct gssapi_context *context;
	char *client; /* after the last step */
	unsigned steps;
};

bool kerberos_is_built(void)
{
	return gssapi_is_built();
}

struct kerberos_exchange *kerberos_accept_new(const char *keyfile)
{
	struct kerberos_exchange *x = mem_zero(sizeof(*x));

	x->keyfile = mem_strdup(keyfile);
	return x;
}

struct kerberos_exchange *kerberos_connect_new(struct kerberos_ticket *t)
{
	struct kerberos_exchange *x = mem_zero(sizeof(*x));

	x->ticket = kerberos_ticket_ref(t);
	return x;
}

struct kerberos_exchange *kerberos_renew_new(struct kerberos_ticket *t)
{
	struct kerberos_exchange *x = kerberos_connect_new(t);

	x->is_renewal = true;
	return x;
}

void kerberos_exchange_free(struct kerberos_exchange **xp)
{
	struct kerberos_exchange *x = *xp;

	*xp = NULL;
	if (!x)
		return;
	gssapi_context_free(&x->context);
	gssapi_credentials_free(&x->keys);
	kerberos_grant_unref(&x->grant);
	kerberos_ticket_unref(&x->ticket);
	mem_free(x->keyfile);
	mem_free(x->client);
	mem_free(x);
}

enum kerberos_result kerberos_step(struct kerberos_exchange *x, const uint8_t *token,
    size_t len, struct buf *out, struct err *err)
{
	if (x->is_renewal)
		return kerberos_ticket_renew(x->ticket, err) < 0 ? KERBEROS_FAILED
								 : KERBEROS_DONE;
	if (++x->steps > STEPS_MAX) {
		err_set(err, "the GSSAPI exchange does not end");
		return KERBEROS_FAILED;
	}
	if (x->keyfile) {
		if (!x->keys)
			x->keys = gssapi_acceptor(x->keyfile, err);
		return x->keys ? gssapi_accept(&x->context, x->keys, token, len, out,
				     &x->client, err)
			       : KERBEROS_FAILED;
	}
	if (!x->grant)
		x->grant = kerberos_ticket_take(x->ticket, err);
	return x->grant
		   ? gssapi_connect(&x->context, kerberos_grant_credentials(x->grant),
			 kerberos_ticket_service(x->ticket), token, len, out, NULL, err)
		   : KERBEROS_FAILED;
}

const char *kerberos_client(const struct kerberos_exchange *x)
{
	return x->client;
}

bool kerberos_refused(struct kerberos_exchange *x)
{
	return x->grant && kerberos_ticket_refused(x->ticket, x->grant);
}

const char *kerberos_keytab_path(const char *keyfile)
{
	static const char type[] = "FILE:";

	if (strncmp(keyfile, type, strlen(type)) == 0)
		keyfile += strlen(type);
	return *keyfile == '/' ? keyfile : NULL;
}

char *kerberos_user_of(const char *principal, bool is_realm_left_out, const char *realm,
    bool is_caseless, struct err *err)
{
	size_t len = 0;
	const char *own;
	char *user;

	/* in the parts of a name the library puts a backslash before an @ */
	while (principal[len] && principal[len] != '@')
		len += principal[len] == '\\' && principal[len + 1] ? 2 : 1;
	own = principal[len] ? principal + len + 1 : "";
	if (realm && (is_caseless ? strcasecmp : strcmp)(own, realm) != 0) {
		err_set(err, "%s is not of the realm %s", principal, realm);
		return NULL;
	}
	user = mem_strdup(principal);
	if (is_realm_left_out)
		user[len] = '\0';
	return user;
}
