/*
 * Calls MIT Kerberos' GSSAPI.  Keytabs and caches are named in each call, not by the
 * environment, which belongs to the whole process.  Only Kerberos is spoken, also
 * inside SPNEGO, which clients on Windows put around it: other mechanisms that the
 * system has would let in whom nobody has thought of, and that of IAKERB would ask KDCs
 * for strangers.
 */
#include "auth/gssapi.h"

#include "config.h"

#ifdef HAVE_GSSAPI

#	include <inttypes.h>
#	include <stdio.h>
#	include <string.h>

#	include <gssapi/gssapi.h>
#	include <gssapi/gssapi_ext.h>
#	include <gssapi/gssapi_krb5.h>
#	include <krb5.h>

#	include "base/mem.h"

struct gssapi_credentials {
	gss_cred_id_t handle;
	char cache[64]; /* of its own, to be destroyed; "": none */
};

struct gssapi_context {
	gss_ctx_id_t handle;
};

static const gss_OID_desc spnego = {6, (void *)"\x2b\x06\x01\x05\x05\x02"};

bool gssapi_is_built(void)
{
	return true;
}

/* ---- errors ---- */

static void put_status(struct buf *b, OM_uint32 code, int kind)
{
	OM_uint32 more = 0, minor;
	gss_buffer_desc text;

	do {
		if (gss_display_status(
			&minor, code, kind, GSS_C_NO_OID, &more, &text) != 0)
			break;
		buf_put_text(b, b->len ? ", " : "");
		buf_put(b, text.value, text.length);
		gss_release_buffer(&minor, &text);
	} while (more);
}

/* "WHAT what Kerberos says (what GSSAPI says)".  The more general one comes last, for
 * views that cut long texts, and not at all if it says only that there is another.
 * Returns NULL. */
static void *fail(struct err *err, const char *what, OM_uint32 major, OM_uint32 minor)
{
	bool is_vague = GSS_ROUTINE_ERROR(major) == GSS_S_FAILURE;
	struct buf general, text;

	buf_init(&general, sizeof(err->text));
	buf_init(&text, sizeof(err->text));
	put_status(&general, major, GSS_C_GSS_CODE);
	if (minor)
		put_status(&text, minor, GSS_C_MECH_CODE);
	if (!text.len || strcmp(buf_text(&text), "Success") == 0)
		err_set(err, "%s%s", what,
		    is_vague ? "it is malformed" : buf_text(&general));
	else if (is_vague)
		err_set(err, "%s%s", what, buf_text(&text));
	else
		err_set(err, "%s%s (%s)", what, buf_text(&text), buf_text(&general));
	buf_done(&general);
	buf_done(&text);
	return NULL;
}

/* ---- credentials ---- */

void gssapi_credentials_free(struct gssapi_credentials **cp)
{
	struct gssapi_credentials *c = *cp;
	krb5_context context;
	krb5_ccache cache;
	OM_uint32 minor;

	*cp = NULL;
	if (!c)
		return;
	gss_release_cred(&minor, &c->handle);
	/* a cache in memory stays until it is destroyed by its name */
	if (c->cache[0] && krb5_init_context(&context) == 0) {
		if (krb5_cc_resolve(context, c->cache, &cache) == 0)
			krb5_cc_destroy(context, cache);
		krb5_free_context(context);
	}
	mem_free(c);
}

struct gssapi_credentials *gssapi_acceptor(const char *keyfile, struct err *err)
{
	gss_OID_desc elements[] = {*gss_mech_krb5, spnego};
	gss_OID_set_desc mechanisms = {2, elements};
	gss_key_value_element_desc pair = {"keytab", keyfile};
	gss_key_value_set_desc store = {1, &pair};
	struct gssapi_credentials *c = mem_zero(sizeof(*c));
	OM_uint32 major, minor;

	major = gss_acquire_cred_from(&minor, GSS_C_NO_NAME, GSS_C_INDEFINITE,
	    &mechanisms, GSS_C_ACCEPT, *keyfile ? &store : GSS_C_NO_CRED_STORE,
	    &c->handle, NULL, NULL);
	if (major == GSS_S_COMPLETE)
		major = gss_set_neg_mechs(
		    &minor, c->handle, (gss_OID_set)gss_mech_set_krb5);
	if (major == GSS_S_COMPLETE)
		return c;
	fail(err, "no keys to read tickets with: ", major, minor);
	if (*keyfile)
		err_prefix(err, "%s: ", keyfile);
	gssapi_credentials_free(&c);
	return NULL;
}

struct gssapi_credentials *gssapi_initiator(
    const char *keyfile, const char *principal, struct err *err)
{
	struct gssapi_credentials *c = mem_zero(sizeof(*c));
	gss_key_value_element_desc pairs[] = {
	    {"client_keytab", keyfile}, {"ccache", c->cache}};
	gss_key_value_set_desc store = {2, pairs};
	gss_buffer_desc text = {strlen(principal), (void *)(uintptr_t)principal};
	gss_name_t name = GSS_C_NO_NAME;
	OM_uint32 major = GSS_S_COMPLETE, minor = 0, ignored;
	struct buf what;
	uint64_t number;

	if (*keyfile) {
		mem_random(&number, sizeof(number));
		snprintf(
		    c->cache, sizeof(c->cache), "MEMORY:pgbouncer-%016" PRIx64, number);
	}
	if (text.length)
		major = gss_import_name(
		    &minor, &text, (gss_OID)GSS_KRB5_NT_PRINCIPAL_NAME, &name);
	if (major == GSS_S_COMPLETE)
		major = gss_acquire_cred_from(&minor, name, GSS_C_INDEFINITE,
		    (gss_OID_set)gss_mech_set_krb5, GSS_C_INITIATE,
		    *keyfile ? &store : GSS_C_NO_CRED_STORE, &c->handle, NULL, NULL);
	gss_release_name(&ignored, &name);
	if (major == GSS_S_COMPLETE)
		return c;
	buf_init(&what, 0);
	buf_printf(&what, "no Kerberos ticket%s%s%s%s: ", *principal ? " for " : "",
	    principal, *keyfile ? " from " : "", keyfile);
	fail(err, buf_text(&what), major, minor);
	buf_done(&what);
	gssapi_credentials_free(&c);
	return NULL;
}

/* ---- contexts ---- */

void gssapi_context_free(struct gssapi_context **context)
{
	OM_uint32 minor;

	if (!*context)
		return;
	gss_delete_sec_context(&minor, &(*context)->handle, GSS_C_NO_BUFFER);
	mem_free(*context);
	*context = NULL;
}

/* What has come of a step. */
static enum kerberos_result conclude(OM_uint32 major, OM_uint32 minor,
    gss_buffer_desc *token, struct buf *out, const char *what, struct err *err)
{
	OM_uint32 ignored;

	if (!GSS_ERROR(major))
		buf_put(out, token->value, token->length);
	gss_release_buffer(&ignored, token);
	if (GSS_ERROR(major)) {
		fail(err, what, major, minor);
		return KERBEROS_FAILED;
	}
	if (out->failed) {
		err_set_row(err, ERROR_OUT_OF_MEMORY);
		return KERBEROS_FAILED;
	}
	return major & GSS_S_CONTINUE_NEEDED ? KERBEROS_MORE : KERBEROS_DONE;
}

enum kerberos_result gssapi_accept(struct gssapi_context **context,
    const struct gssapi_credentials *c, const uint8_t *token, size_t len,
    struct buf *out, char **client, struct err *err)
{
	gss_buffer_desc in = {len, (void *)(uintptr_t)token};
	gss_buffer_desc answer = GSS_C_EMPTY_BUFFER, text = GSS_C_EMPTY_BUFFER;
	gss_name_t name = GSS_C_NO_NAME;
	OM_uint32 major, minor, ignored, flags = 0;
	enum kerberos_result result;

	if (!*context)
		*context = mem_zero(sizeof(**context));
	major = gss_accept_sec_context(&minor, &(*context)->handle, c->handle, &in,
	    GSS_C_NO_CHANNEL_BINDINGS, &name, NULL, &answer, &flags, NULL, NULL);
	result = conclude(
	    major, minor, &answer, out, "accepting GSS security context failed: ", err);
	if (result == KERBEROS_DONE) {
		major = gss_display_name(&minor, name, &text, NULL);
		if (major != GSS_S_COMPLETE) {
			fail(err, "the name of the client is unknown: ", major, minor);
			result = KERBEROS_FAILED;
		} else if ((flags & GSS_C_ANON_FLAG) ||
			   memchr(text.value, '\0', text.length)) {
			err_set(err, "the client has no name of its own");
			result = KERBEROS_FAILED;
		} else {
			*client = mem_alloc(text.length + 1);
			memcpy(*client, text.value, text.length);
			(*client)[text.length] = '\0';
		}
	}
	gss_release_buffer(&ignored, &text);
	gss_release_name(&ignored, &name);
	return result;
}

enum kerberos_result gssapi_connect(struct gssapi_context **context,
    const struct gssapi_credentials *c, const char *service, const uint8_t *token,
    size_t len, struct buf *out, uint32_t *lifetime_s, struct err *err)
{
	gss_buffer_desc in = {len, (void *)(uintptr_t)token};
	gss_buffer_desc text = {strlen(service), (void *)(uintptr_t)service};
	gss_buffer_desc answer = GSS_C_EMPTY_BUFFER;
	gss_name_t name = GSS_C_NO_NAME;
	OM_uint32 major, minor, ignored, lifetime = 0;
	bool is_first = !*context;

	if (is_first)
		*context = mem_zero(sizeof(**context));
	major =
	    gss_import_name(&minor, &text, (gss_OID)GSS_C_NT_HOSTBASED_SERVICE, &name);
	if (major == GSS_S_COMPLETE)
		major = gss_init_sec_context(&minor, c->handle, &(*context)->handle,
		    name, (gss_OID)gss_mech_krb5, GSS_C_MUTUAL_FLAG, 0,
		    GSS_C_NO_CHANNEL_BINDINGS, &in, NULL, &answer, NULL, &lifetime);
	gss_release_name(&ignored, &name);
	if (lifetime_s)
		*lifetime_s = lifetime;
	return conclude(major, minor, &answer, out,
	    is_first ? "no Kerberos ticket for the server: "
		     : "the server has not proven by GSSAPI who it is: ",
	    err);
}

#else

static const char text[] = "Kerberos is not supported by this build";

bool gssapi_is_built(void)
{
	return false;
}

struct gssapi_credentials *gssapi_acceptor(const char *keyfile, struct err *err)
{
	(void)keyfile;
	err_set(err, text);
	return NULL;
}

struct gssapi_credentials *gssapi_initiator(
    const char *keyfile, const char *principal, struct err *err)
{
	(void)keyfile, (void)principal;
	err_set(err, text);
	return NULL;
}

void gssapi_credentials_free(struct gssapi_credentials **c)
{
	*c = NULL;
}

void gssapi_context_free(struct gssapi_context **context)
{
	*context = NULL;
}

enum kerberos_result gssapi_accept(struct gssapi_context **context,
    const struct gssapi_credentials *c, const uint8_t *token, size_t len,
    struct buf *out, char **client, struct err *err)
{
	(void)context, (void)c, (void)token, (void)len, (void)out, (void)client;
	err_set(err, text);
	return KERBEROS_FAILED;
}

enum kerberos_result gssapi_connect(struct gssapi_context **context,
    const struct gssapi_credentials *c, const char *service, const uint8_t *token,
    size_t len, struct buf *out, uint32_t *lifetime_s, struct err *err)
{
	(void)context, (void)c, (void)service, (void)token, (void)len, (void)out,
	    (void)lifetime_s;
	err_set(err, text);
	return KERBEROS_FAILED;
}

#endif
