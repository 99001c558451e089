/*
 * Key sets of issuers.  The JSON is jansson's, which refuses doubled names; the keys
 * and signatures are libcrypto's.  A JOSE library would add nothing but a second reader
 * of headers, with algorithms that must not be accepted here.
 */
#include "auth/oauth_keys.h"

#include "config.h"

#ifdef HAVE_OAUTH

#	include <stdatomic.h>
#	include <string.h>

#	include <jansson.h>
#	include <openssl/ecdsa.h>
#	include <openssl/err.h>
#	include <openssl/evp.h>
#	include <openssl/rsa.h>
#	include <openssl/x509.h>

#	include "auth/base64.h"
#	include "base/buf.h"
#	include "base/mem.h"
#	include "base/text.h"

/* More keys are not read; without a key id each of them costs a try. */
enum { KEYS_MOST = 64 };
/* Shorter keys of RSA can be broken; longer ones would take long. */
enum { RSA_BITS_LEAST = 2048, RSA_BITS_MOST = 8192, RSA_BYTES_MOST = 1025 };

enum key_kind { KEY_RSA, KEY_P256, KEY_P384, KEY_ED25519 };

struct oauth_key {
	char *id, *algorithm; /* owned; NULL: the set does not say */
	enum key_kind kind;
	EVP_PKEY *key;
};

struct oauth_keys {
	atomic_uint refs;
	size_t count;
	struct oauth_key keys[KEYS_MOST];
};

struct oauth_algorithm {
	const char *name;
	enum key_kind kind;
	const EVP_MD *(*digest)(void); /* NULL: the algorithm has its own */
	bool is_pss;
	unsigned number_len; /* of the two numbers of an ECDSA signature; else 0 */
};

static const struct oauth_algorithm algorithms[] = {
    {"RS256", KEY_RSA, EVP_sha256, false, 0},
    {"RS384", KEY_RSA, EVP_sha384, false, 0},
    {"RS512", KEY_RSA, EVP_sha512, false, 0},
    {"PS256", KEY_RSA, EVP_sha256, true, 0},
    {"PS384", KEY_RSA, EVP_sha384, true, 0},
    {"PS512", KEY_RSA, EVP_sha512, true, 0},
    {"ES256", KEY_P256, EVP_sha256, false, 32},
    {"ES384", KEY_P384, EVP_sha384, false, 48},
    {"EdDSA", KEY_ED25519, NULL, false, 0},
};

bool oauth_is_supported(void)
{
	return true;
}

const struct oauth_algorithm *oauth_algorithm_find(const char *name)
{
	for (size_t i = 0; i < sizeof(algorithms) / sizeof(*algorithms); i++)
		if (strcmp(name, algorithms[i].name) == 0)
			return &algorithms[i];
	return NULL;
}

/* ---- reading a key: it is written as SubjectPublicKeyInfo, which libcrypto reads ----
 */

/* -1: there is no such member, or it is no base64 of this many bytes at most. */
static int get_bytes(
    const json_t *key, const char *name, uint8_t *out, size_t size, size_t *len)
{
	const json_t *value = json_object_get(key, name);

	return json_is_string(value) ? base64_decode_url(json_string_value(value),
					   json_string_length(value), out, size, len)
				     : -1;
}

static void put_der(struct buf *b, uint8_t tag, const struct buf *content)
{
	buf_put_u8(b, tag);
	if (content->len >= 0x100) {
		buf_put_u8(b, 0x82);
		buf_put_u16(b, (uint16_t)content->len);
	} else {
		if (content->len >= 0x80)
			buf_put_u8(b, 0x81);
		buf_put_u8(b, (uint8_t)content->len);
	}
	buf_put(b, content->bytes, content->len);
}

static void put_number(struct buf *b, const uint8_t *bytes, size_t len)
{
	struct buf number;

	buf_init(&number, 0);
	while (len > 1 && !*bytes) {
		bytes++;
		len--;
	}
	if (*bytes & 0x80)
		buf_put_u8(&number, 0);
	buf_put(&number, bytes, len);
	put_der(b, 0x02, &number);
	buf_done(&number);
}

static int put_rsa(struct buf *out, const json_t *key)
{
	static const uint8_t algorithm[] = {0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48,
	    0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00};
	uint8_t modulus[RSA_BYTES_MOST], exponent[8];
	size_t modulus_len, exponent_len;
	struct buf numbers, bits, all;

	if (get_bytes(key, "n", modulus, sizeof(modulus), &modulus_len) < 0 ||
	    get_bytes(key, "e", exponent, sizeof(exponent), &exponent_len) < 0 ||
	    !modulus_len || !exponent_len)
		return -1;
	/* with 1 everybody could sign */
	if (!(exponent[exponent_len - 1] & 1) ||
	    (exponent_len == 1 && exponent[0] < 3) || !exponent[0])
		return -1;
	buf_init(&numbers, 0);
	buf_init(&bits, 0);
	buf_init(&all, 0);
	put_number(&numbers, modulus, modulus_len);
	put_number(&numbers, exponent, exponent_len);
	buf_put_u8(&bits, 0);
	put_der(&bits, 0x30, &numbers);
	buf_put(&all, algorithm, sizeof(algorithm));
	put_der(&all, 0x03, &bits);
	put_der(out, 0x30, &all);
	buf_done(&numbers);
	buf_done(&bits);
	buf_done(&all);
	return 0;
}

/* -1: the key is left out. */
static int read_key(struct oauth_key *out, const json_t *key)
{
	static const uint8_t p256[] = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86,
	    0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d,
	    0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04};
	static const uint8_t p384[] = {0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86,
	    0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22,
	    0x03, 0x62, 0x00, 0x04};
	static const uint8_t ed25519[] = {
	    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
	/* of a point, the head and its one or two numbers of a fixed length */
	static const struct {
		const char *type, *curve;
		const uint8_t *head;
		size_t head_len, number_len;
		const char *numbers[2];
	} kinds[] = {
	    [KEY_RSA] = {"RSA", NULL, NULL, 0, 0, {NULL}},
	    [KEY_P256] = {"EC", "P-256", p256, sizeof(p256), 32, {"x", "y"}},
	    [KEY_P384] = {"EC", "P-384", p384, sizeof(p384), 48, {"x", "y"}},
	    [KEY_ED25519] = {"OKP", "Ed25519", ed25519, sizeof(ed25519), 32, {"x"}},
	};
	const char *use = json_string_value(json_object_get(key, "use"));
	const char *id = json_string_value(json_object_get(key, "kid"));
	const char *algorithm = json_string_value(json_object_get(key, "alg"));
	const char *type = json_string_value(json_object_get(key, "kty"));
	const char *curve = json_string_value(json_object_get(key, "crv"));
	uint8_t number[48];
	struct buf der;
	size_t len;
	int kind = KEY_RSA, rc = 0;

	while (kind <= KEY_ED25519 &&
	       (!type || strcmp(type, kinds[kind].type) != 0 ||
		   (kinds[kind].curve &&
		       (!curve || strcmp(curve, kinds[kind].curve) != 0))))
		kind++;
	if (kind > KEY_ED25519 || (use && strcmp(use, "sig") != 0) ||
	    (algorithm && !oauth_algorithm_find(algorithm)))
		return -1;
	buf_init(&der, 0);
	if (kind == KEY_RSA)
		rc = put_rsa(&der, key);
	else
		buf_put(&der, kinds[kind].head, kinds[kind].head_len);
	for (int i = 0; rc == 0 && i < 2 && kinds[kind].numbers[i]; i++) {
		rc = get_bytes(
		    key, kinds[kind].numbers[i], number, sizeof(number), &len);
		if (rc == 0 && len == kinds[kind].number_len)
			buf_put(&der, number, len);
		else
			rc = -1;
	}
	const uint8_t *at = der.bytes;
	out->key = rc == 0 ? d2i_PUBKEY(NULL, &at, (long)der.len) : NULL;
	buf_done(&der);
	if (out->key && kind == KEY_RSA &&
	    (EVP_PKEY_bits(out->key) < RSA_BITS_LEAST ||
		EVP_PKEY_bits(out->key) > RSA_BITS_MOST)) {
		EVP_PKEY_free(out->key);
		out->key = NULL;
	}
	if (!out->key)
		return -1;
	out->kind = (enum key_kind)kind;
	out->id = id ? mem_strdup(id) : NULL;
	out->algorithm = algorithm ? mem_strdup(algorithm) : NULL;
	return 0;
}

struct oauth_keys *oauth_keys_parse(const char *text, size_t len, struct err *err)
{
	json_error_t where;
	json_t *set = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
	const json_t *list = json_object_get(set, "keys");
	struct oauth_keys *keys = mem_zero(sizeof(*keys));

	atomic_store(&keys->refs, 1);
	for (size_t i = 0; i < json_array_size(list) && keys->count < KEYS_MOST; i++)
		if (read_key(&keys->keys[keys->count], json_array_get(list, i)) == 0)
			keys->count++;
	ERR_clear_error();
	if (keys->count == 0) {
		if (!json_is_array(list))
			err_set(err, "not a JSON Web Key Set");
		else
			err_set(err, "none of its %zu keys can verify tokens",
			    json_array_size(list));
		oauth_keys_unref(&keys);
	}
	json_decref(set);
	return keys;
}

struct oauth_keys *oauth_keys_load(const char *path, struct err *err)
{
	struct oauth_keys *keys = NULL;
	size_t len;
	char *text = text_read_file(path, &len, err);

	if (text)
		keys = oauth_keys_parse(text, len, err);
	if (!keys)
		err_prefix(err, "%s: ", path);
	mem_free(text);
	return keys;
}

struct oauth_keys *oauth_keys_ref(struct oauth_keys *keys)
{
	if (keys)
		atomic_fetch_add(&keys->refs, 1);
	return keys;
}

void oauth_keys_unref(struct oauth_keys **keysp)
{
	struct oauth_keys *keys = *keysp;

	*keysp = NULL;
	if (!keys || atomic_fetch_sub(&keys->refs, 1) > 1)
		return;
	for (size_t i = 0; i < keys->count; i++) {
		mem_free(keys->keys[i].id);
		mem_free(keys->keys[i].algorithm);
		EVP_PKEY_free(keys->keys[i].key);
	}
	mem_free(keys);
}

size_t oauth_keys_count(const struct oauth_keys *keys)
{
	return keys->count;
}

/* ---- signatures ---- */

enum oauth_signature oauth_keys_verify(const struct oauth_keys *keys,
    const struct oauth_algorithm *a, const char *key_id, const void *bytes, size_t len,
    const uint8_t *signature, size_t signature_len)
{
	enum oauth_signature result = OAUTH_SIGNATURE_NO_KEY;
	uint8_t *der = NULL;

	/* an ECDSA signature is two numbers side by side; libcrypto wants them in DER
	 */
	if (a->number_len) {
		int half = (int)a->number_len, der_len = -1;
		ECDSA_SIG *numbers = ECDSA_SIG_new();
		if (numbers && signature_len == 2 * (size_t)half &&
		    ECDSA_SIG_set0(numbers, BN_bin2bn(signature, half, NULL),
			BN_bin2bn(signature + half, half, NULL)))
			der_len = i2d_ECDSA_SIG(numbers, &der);
		ECDSA_SIG_free(numbers);
		signature = der;
		signature_len = der_len > 0 ? (size_t)der_len : 0;
	}
	for (size_t i = 0; i < keys->count && result != OAUTH_SIGNATURE_GOOD; i++) {
		const struct oauth_key *key = &keys->keys[i];
		EVP_PKEY_CTX *options = NULL;
		if (key_id && (!key->id || strcmp(key->id, key_id) != 0))
			continue;
		if (key_id)
			result = OAUTH_SIGNATURE_BAD;
		if (key->kind != a->kind || !signature_len ||
		    (key->algorithm && strcmp(key->algorithm, a->name) != 0))
			continue;
		EVP_MD_CTX *context = EVP_MD_CTX_new();
		if (context &&
		    EVP_DigestVerifyInit(context, &options,
			a->digest ? a->digest() : NULL, NULL, key->key) == 1 &&
		    (!a->is_pss || (EVP_PKEY_CTX_set_rsa_padding(
					options, RSA_PKCS1_PSS_PADDING) == 1 &&
				       EVP_PKEY_CTX_set_rsa_pss_saltlen(
					   options, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
		    EVP_DigestVerify(context, signature, signature_len, bytes, len) ==
			1)
			result = OAUTH_SIGNATURE_GOOD;
		EVP_MD_CTX_free(context);
	}
	OPENSSL_free(der);
	ERR_clear_error();
	return result;
}

#else

#	include <stddef.h>

bool oauth_is_supported(void)
{
	return false;
}

struct oauth_keys *oauth_keys_load(const char *path, struct err *err)
{
	(void)path;
	err_set_row(err, ERROR_OAUTH_UNSUPPORTED);
	return NULL;
}

struct oauth_keys *oauth_keys_ref(struct oauth_keys *keys)
{
	return keys;
}

void oauth_keys_unref(struct oauth_keys **keys)
{
	*keys = NULL;
}

size_t oauth_keys_count(const struct oauth_keys *keys)
{
	(void)keys;
	return 0;
}

#endif
