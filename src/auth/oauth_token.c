/*
 * Judges tokens.  Nothing of a token's claims is read before its signature is known to
 * be right, and the algorithm is one of a short list whose keys are of another kind for
 * each.
 */
#include "auth/oauth_token.h"

#include "config.h"

#ifdef HAVE_OAUTH

#	include <string.h>

#	include <jansson.h>

#	include "auth/base64.h"
#	include "base/mem.h"
#	include "base/text.h"

/* So much of a text that a token brings is shown in the log. */
enum { SHOWN = 100 };
/* A signature of the longest key of RSA has half as many bytes. */
enum { SIGNATURE_MAX = 2048 };

static enum oauth_verdict invalid(struct err *err, const char *why)
{
	err_set(err, "%s", why);
	return OAUTH_INVALID;
}

/* Reads the JSON object in one part of the token.  NULL: it is none. */
static json_t *read_part(const char *text, size_t len)
{
	size_t size = len / 4 * 3 + 3, json_len;
	uint8_t *bytes = mem_try(size);
	json_t *object = NULL;

	if (bytes && base64_decode_url(text, len, bytes, size, &json_len) == 0)
		object = json_loadb(
		    (const char *)bytes, json_len, JSON_REJECT_DUPLICATES, NULL);
	if (bytes)
		mem_wipe(bytes, size);
	mem_free(bytes);
	if (json_is_object(object))
		return object;
	json_decref(object);
	return NULL;
}

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

/* ---- claims ---- */

/* Does the claim, a text or a list of texts, have this word?  splits: a text is a list,
 * too, of words between blanks. */
static bool claim_has(const json_t *claim, const char *word, size_t len, bool splits)
{
	const char *at = json_string_value(claim);

	while (at && *(at += splits ? strspn(at, " ") : 0)) {
		size_t size = splits ? strcspn(at, " ") : strlen(at);
		if (size == len && memcmp(at, word, len) == 0)
			return true;
		at += size;
	}
	for (size_t i = 0; i < json_array_size(claim); i++) {
		const char *text = json_string_value(json_array_get(claim, i));
		if (text && strlen(text) == len && memcmp(text, word, len) == 0)
			return true;
	}
	return false;
}

/* -1: the claim is there and no number.  Without it *value stays. */
static int get_time(const json_t *claims, const char *name, double *value)
{
	const json_t *claim = json_object_get(claims, name);

	if (claim && !json_is_number(claim))
		return -1;
	if (claim)
		*value = json_number_value(claim);
	return 0;
}

static enum oauth_verdict judge_claims(const json_t *claims,
    const struct oauth_demands *demands, char **name, struct err *err)
{
	const char *issuer = text_of(claims, "iss");
	double now = (double)demands->now_s, ends = 0, begins = now;
	const json_t *claim;

	if (!issuer || strcmp(issuer, demands->issuer) != 0) {
		err_set(err, "the token is not accepted: its issuer is %.*s", SHOWN,
		    issuer ? issuer : "not named");
		return OAUTH_INVALID;
	}
	if (get_time(claims, "exp", &ends) < 0 || get_time(claims, "nbf", &begins) < 0)
		return invalid(
		    err, "the token is not accepted: exp or nbf is not a number");
	if (!json_object_get(claims, "exp"))
		return invalid(
		    err, "the token is not accepted: it does not say when it expires");
	if (!(now < ends + OAUTH_SKEW_S)) {
		err_set(err, "the token is not accepted: it has expired %.0f s ago",
		    now - ends);
		return OAUTH_INVALID;
	}
	if (!(now + OAUTH_SKEW_S >= begins)) {
		err_set(err, "the token is not accepted: it begins in %.0f s",
		    begins - now);
		return OAUTH_INVALID;
	}
	bool is_for_us = false;
	static const char between[] = ", \t";
	const char *at = demands->audience;
	size_t len;
	claim = json_object_get(claims, "aud");
	for (; !is_for_us && *(at += strspn(at, between)); at += len) {
		len = strcspn(at, between);
		is_for_us = claim_has(claim, at, len, false);
	}
	if (!is_for_us)
		return invalid(
		    err, "the token is not accepted: it is for another audience");
	claim = json_object_get(claims, "scope");
	if (!claim)
		claim = json_object_get(claims, "scp");
	for (at = demands->scope; *(at += strspn(at, " ")); at += len) {
		len = strcspn(at, " ");
		if (!claim_has(claim, at, len, true))
			return invalid(
			    err, "the token is not accepted: it lacks a scope");
	}
	claim = json_object_get(claims, demands->name_claim);
	if (!json_is_string(claim) || !json_string_length(claim)) {
		err_set(err, "the token is not accepted: its claim %s is no text",
		    demands->name_claim);
		return OAUTH_INVALID;
	}
	*name = mem_strdup(json_string_value(claim));
	return OAUTH_VALID;
}

/* ---- the whole ---- */

enum oauth_verdict oauth_token_judge(const char *token, size_t len,
    const struct oauth_keys *keys, const struct oauth_demands *demands, char **name,
    struct err *err)
{
	const char *first = memchr(token, '.', len);
	const char *second =
	    first ? memchr(first + 1, '.', len - (size_t)(first + 1 - token)) : NULL;
	enum oauth_verdict verdict = OAUTH_INVALID;
	enum oauth_signature result = OAUTH_SIGNATURE_BAD;
	uint8_t signature[SIGNATURE_MAX];
	size_t signature_len;

	*name = NULL;
	if (!second || memchr(second + 1, '.', len - (size_t)(second + 1 - token)))
		return invalid(err, "the token is not accepted: it is not of the form "
				    "header.claims.signature");
	json_t *header = read_part(token, (size_t)(first - token));
	if (!header)
		return invalid(
		    err, "the token is not accepted: its header cannot be read");
	const char *algorithm_name = text_of(header, "alg"),
		   *id = text_of(header, "kid");
	const struct oauth_algorithm *algorithm =
	    algorithm_name ? oauth_algorithm_find(algorithm_name) : NULL;
	bool has_signature =
	    base64_decode_url(second + 1, len - (size_t)(second + 1 - token), signature,
		sizeof(signature), &signature_len) == 0;
	if (!algorithm)
		err_set(err, "the token is not accepted: its algorithm is %.*s", SHOWN,
		    algorithm_name ? algorithm_name : "not named");
	else if (json_object_get(header, "crit"))
		invalid(err, "the token is not accepted: it has critical extensions");
	else if (json_object_get(header, "kid") && !id)
		invalid(err, "the token is not accepted: its key id is no text");
	else if (!has_signature)
		invalid(err, "the token is not accepted: its signature is no base64, "
			     "or too long");
	else {
		result = oauth_keys_verify(keys, algorithm, id, token,
		    (size_t)(second - token), signature, signature_len);
		if (result == OAUTH_SIGNATURE_BAD)
			invalid(
			    err, "the token is not accepted: its signature is wrong");
	}
	if (result == OAUTH_SIGNATURE_NO_KEY) {
		verdict = OAUTH_UNKNOWN_KEY;
		err_set(err, "the token is not accepted: %s%.*s",
		    id ? "the issuer has no key with its id, "
		       : "no key of the issuer fits it",
		    SHOWN, id ? id : "");
	}
	json_decref(header);
	if (result != OAUTH_SIGNATURE_GOOD)
		return verdict;
	json_t *claims = read_part(first + 1, (size_t)(second - first - 1));
	if (!claims)
		return invalid(
		    err, "the token is not accepted: its claims cannot be read");
	verdict = judge_claims(claims, demands, name, err);
	json_decref(claims);
	return verdict;
}

/* ---- discovery ---- */

char *oauth_discovery_parse(
    const char *text, size_t len, const char *issuer, struct err *err)
{
	json_t *document = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *name = text_of(document, "issuer");
	const char *place = text_of(document, "jwks_uri");
	char *copy = NULL;

	if (!json_is_object(document))
		err_set(err, "not a discovery document");
	else if (!name || strcmp(name, issuer) != 0)
		err_set(err, "the discovery document is that of the issuer %.*s", SHOWN,
		    name ? name : "without a name");
	else if (!place || !text_has_prefix(place, "https://"))
		err_set(err, "the discovery document has no jwks_uri that begins with "
			     "https://");
	else
		copy = mem_strdup(place);
	json_decref(document);
	return copy;
}

#else

enum oauth_verdict oauth_token_judge(const char *token, size_t len,
    const struct oauth_keys *keys, const struct oauth_demands *demands, char **name,
    struct err *err)
{
	(void)token, (void)len, (void)keys, (void)demands;
	*name = NULL;
	err_set_row(err, ERROR_OAUTH_UNSUPPORTED);
	return OAUTH_INVALID;
}

#endif
