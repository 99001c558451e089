#include "auth/ldap_options.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* ---- values ---- */

static void set_text(char **text, const char *value, size_t len)
{
	mem_free_secret(*text);
	*text = mem_alloc(len + 1);
	memcpy(*text, value, len);
	(*text)[len] = '\0';
}

static int set_port(struct ldap_options *o, const char *value, struct err *err)
{
	if (text_int(value, &o->port) < 0 || o->port <= 0 || o->port > 65535)
		return err_set(err, "invalid LDAP port number: \"%s\"", value);
	return 0;
}

static int set_scheme(struct ldap_options *o, const char *value, struct err *err)
{
	o->is_ldaps = strcmp(value, "ldaps") == 0;
	if (!o->is_ldaps && strcmp(value, "ldap") != 0)
		return err_set(err, "invalid LDAP scheme: \"%s\"", value);
	return 0;
}

static int set_scope(struct ldap_options *o, const char *value)
{
	if (strcmp(value, "base") == 0)
		o->scope = LDAP_OPTIONS_BASE;
	else if (strcmp(value, "one") == 0 || strcmp(value, "onelevel") == 0)
		o->scope = LDAP_OPTIONS_ONE;
	else if (strcmp(value, "sub") == 0 || strcmp(value, "subtree") == 0)
		o->scope = LDAP_OPTIONS_SUBTREE;
	else
		return -1;
	return 0;
}

/* ---- ldapurl ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes %XX in place.  -1: something else follows a %, or it is a NUL byte. */
static int decode_percent(char *text)
{
	char *out = text;

	for (; *text; text++) {
		if (*text == '%') {
			int high = hex_digit(text[1]);
			int low = high < 0 ? -1 : hex_digit(text[2]);
			if (low < 0 || high + low == 0)
				return -1;
			*out++ = (char)(high << 4 | low);
			text += 2;
		} else
			*out++ = *text;
	}
	*out = '\0';
	return 0;
}

/* Reads host, host:port or [address]:port.  An empty host means a look-up in DNS. */
static int set_url_host(struct ldap_options *o, char *host, struct err *err)
{
	char *colon = strrchr(host, ':');
	char *bracket = strchr(host, ']');

	if (colon && (!bracket || colon > bracket)) {
		*colon = '\0';
		if (set_port(o, colon + 1, err) < 0)
			return -1;
	}
	if (decode_percent(host) < 0)
		return -1;
	set_text(&o->servers, host, strlen(host));
	return 0;
}

/* Parses ldap[s]://host[:port]/basedn?attributes?scope?filter in place. */
static int set_url_copy(struct ldap_options *o, char *url, struct err *err)
{
	char *parts[4] = {NULL}, *host, *at;

	host = strstr(url, "://");
	if (!host)
		return -1;
	*host = '\0';
	host += 3;
	if (set_scheme(o, url, err) < 0)
		return -1;
	at = strchr(host, '/');
	if (at)
		*at++ = '\0';
	for (size_t i = 0; at; i++) {
		if (i == 4)
			return -1; /* extensions are not supported */
		parts[i] = at;
		at = strchr(at, '?');
		if (at)
			*at++ = '\0';
	}
	if (set_url_host(o, host, err) < 0)
		return -1;
	char *dn = parts[0], *attributes = parts[1], *scope = parts[2],
	     *filter = parts[3];
	if (dn && *dn) {
		if (decode_percent(dn) < 0)
			return -1;
		set_text(&o->base_dn, dn, strlen(dn));
	}
	if (attributes && *attributes) {
		if (decode_percent(attributes) < 0)
			return -1;
		set_text(&o->search_attribute, attributes, strcspn(attributes, ","));
	}
	if (scope && *scope && set_scope(o, scope) < 0)
		return -1;
	if (filter && *filter) {
		if (decode_percent(filter) < 0)
			return -1;
		set_text(&o->search_filter, filter, strlen(filter));
	}
	return 0;
}

/* ---- key=value ---- */

static int set_option(
    struct ldap_options *o, const char *key, const char *value, struct err *err)
{
	static const struct {
		const char *key;
		size_t at;
	} texts[] = {
	    {"ldapserver", offsetof(struct ldap_options, servers)},
	    {"ldapprefix", offsetof(struct ldap_options, prefix)},
	    {"ldapsuffix", offsetof(struct ldap_options, suffix)},
	    {"ldapbasedn", offsetof(struct ldap_options, base_dn)},
	    {"ldapbinddn", offsetof(struct ldap_options, bind_dn)},
	    {"ldapbindpasswd", offsetof(struct ldap_options, bind_password)},
	    {"ldapsearchattribute", offsetof(struct ldap_options, search_attribute)},
	    {"ldapsearchfilter", offsetof(struct ldap_options, search_filter)},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (strcmp(key, texts[i].key) == 0) {
			set_text(
			    (char **)((char *)o + texts[i].at), value, strlen(value));
			return 0;
		}
	if (strcmp(key, "ldapport") == 0)
		return set_port(o, value, err);
	if (strcmp(key, "ldapscheme") == 0)
		return set_scheme(o, value, err);
	if (strcmp(key, "ldapurl") == 0) {
		char *copy = mem_strdup(value);
		int result = set_url_copy(o, copy, NULL);
		mem_free(copy);
		return result < 0
			   ? err_set(err, "could not parse LDAP URL \"%s\"", value)
			   : 0;
	}
	if (strcmp(key, "ldaptls") == 0) {
		o->is_starttls = strcmp(value, "1") == 0;
		if (!o->is_starttls && strcmp(value, "0") != 0)
			return err_set(err,
			    "invalid LDAP option: ldaptls=\"%s\"; write 0 or 1", value);
		return 0;
	}
	return err_set(err, "invalid LDAP option: \"%s\"", key);
}

/* Reads a bare word, or a word in double quotes where "" is a quote.  Returns the text
 * behind it; NULL when there is no word. */
static const char *read_word(const char *at, const char *stops, struct buf *word)
{
	size_t len;

	buf_clear(word);
	if (*at != '"') {
		len = strcspn(at, stops);
		buf_put(word, at, len);
		return len > 0 ? at + len : NULL;
	}
	for (at++; *at != '"' || at[1] == '"'; at++) {
		if (*at == '\0')
			return NULL;
		at += *at == '"';
		buf_put_u8(word, (uint8_t)*at);
	}
	return at + 1;
}

#define BLANKS " \t\r\n\v\f"

static const char *skip_blanks(const char *at)
{
	return at + strspn(at, BLANKS);
}

/* Reads key=value.  Returns the text behind it; NULL when there is no pair. */
static const char *read_pair(const char *at, struct buf *key, struct buf *value)
{
	at = read_word(at, BLANKS ",=\"", key);
	if (!at)
		return NULL;
	at = skip_blanks(at);
	return *at == '=' ? read_word(at + 1, BLANKS ",", value) : NULL;
}

/* Reads a pair and a comma behind it.  The pair must end there: `a="b"c=d` is a
 * mistake. */
static const char *read_separated_pair(
    const char *at, struct buf *key, struct buf *value)
{
	const char *end;

	at = read_pair(at, key, value);
	if (!at || (*at && !strchr(BLANKS ",", *at)))
		return NULL;
	end = skip_blanks(at);
	return *end == ',' ? skip_blanks(end + 1) : end;
}

static int read_options(struct ldap_options *o, const char *text, struct err *err)
{
	const char *at = skip_blanks(text), *next;
	struct buf key, value;
	int result = 0;

	buf_init(&key, 0);
	buf_init(&value, 0);
	for (; *at && result == 0; at = next ? next : "") {
		next = read_separated_pair(at, &key, &value);
		if (next)
			result = set_option(o, buf_text(&key), buf_text(&value), err);
		else
			result = err_set(err,
			    "LDAP options cannot be read from character %zu on; write "
			    "key=value or key=\"value\", without blanks around the "
			    "value",
			    (size_t)(at - text) + 1);
	}
	buf_wipe_done(&value);
	buf_done(&key);
	return result;
}

static int check_options(const struct ldap_options *o, struct err *err)
{
	if (o->prefix || o->suffix) {
		if (o->base_dn || o->bind_dn || o->bind_password ||
		    o->search_attribute || o->search_filter)
			return err_set(err,
			    "ldapbasedn, ldapbinddn, ldapbindpasswd, "
			    "ldapsearchattribute and ldapsearchfilter cannot be used "
			    "together with ldapprefix or ldapsuffix");
	} else if (!o->base_dn)
		return err_set(
		    err, "LDAP needs one of ldapbasedn, ldapprefix and ldapsuffix");
	if (o->search_attribute && o->search_filter)
		return err_set(err, "ldapsearchattribute cannot be used together with "
				    "ldapsearchfilter");
	if (!o->servers && !(o->base_dn && *o->base_dn))
		return err_set(
		    err, "LDAP needs ldapserver, or ldapbasedn to find a server by");
	return 0;
}

int ldap_options_parse(struct ldap_options *o, const char *text, struct err *err)
{
	memset(o, 0, sizeof(*o));
	o->scope = LDAP_OPTIONS_SUBTREE;
	if (read_options(o, text, err) == 0) {
		if (o->servers && *skip_blanks(o->servers) == '\0') {
			mem_free(o->servers);
			o->servers = NULL;
		}
		if (o->is_ldaps && o->is_starttls) {
			o->warning = "ldaptls=1 has no effect with ldaps, which uses "
				     "TLS from the start";
			o->is_starttls = false;
		}
		if (check_options(o, err) == 0)
			return 0;
	}
	ldap_options_done(o);
	return -1;
}

void ldap_options_done(struct ldap_options *o)
{
	mem_free_secret(o->servers);
	mem_free_secret(o->prefix);
	mem_free_secret(o->suffix);
	mem_free_secret(o->base_dn);
	mem_free_secret(o->bind_dn);
	mem_free_secret(o->bind_password);
	mem_free_secret(o->search_attribute);
	mem_free_secret(o->search_filter);
	memset(o, 0, sizeof(*o));
}

/* ---- for one user ---- */

bool ldap_options_has_search(const struct ldap_options *o)
{
	return o->base_dn != NULL;
}

/* Directories ignore blanks at the ends of a name and drop control characters, so that
 * these would make further names for the same user. */
static int check_user(const char *user, struct err *err)
{
	size_t len = strlen(user);
	bool is_odd = user[0] == ' ' || (len && user[len - 1] == ' ');

	for (; *user && !is_odd; user++)
		is_odd = text_hidden_len(user) > 0;
	if (is_odd)
		return err_set(
		    err, "invalid character in user name for LDAP authentication");
	return 0;
}

static bool is_part_of_dn(const char *text)
{
	return text && strchr(text, '=');
}

int ldap_options_put_dn(
    const struct ldap_options *o, struct buf *out, const char *user, struct err *err)
{
	if (check_user(user, err) < 0)
		return -1;
	if (o->prefix)
		buf_put_text(out, o->prefix);
	if (is_part_of_dn(o->prefix) || is_part_of_dn(o->suffix)) {
		/* RFC 4514: the characters that would end the value, or begin another
		 * one */
		for (const char *at = user; *at; at++) {
			if (strchr("\"+,;<>\\", *at) || (*at == '#' && at == user))
				buf_put_u8(out, '\\');
			buf_put_u8(out, (uint8_t)*at);
		}
	} else {
		buf_put_text(out, user);
	}
	if (o->suffix)
		buf_put_text(out, o->suffix);
	return 0;
}

int ldap_options_put_filter(
    const struct ldap_options *o, struct buf *out, const char *user, struct err *err)
{
	static const char variable[] = "$username";
	const char *at = o->search_filter, *found;

	if (check_user(user, err) < 0)
		return -1;
	if (strpbrk(user, "*()\\/"))
		return err_set(
		    err, "invalid character in user name for LDAP authentication");
	if (!at) {
		buf_printf(out, "(%s=%s)",
		    o->search_attribute ? o->search_attribute : "uid", user);
		return 0;
	}
	while ((found = strstr(at, variable))) {
		buf_put(out, at, (size_t)(found - at));
		buf_put_text(out, user);
		at = found + strlen(variable);
	}
	buf_put_text(out, at);
	return 0;
}

static void put_uri(
    const struct ldap_options *o, struct buf *out, const char *host, int len)
{
	const char *colon = memchr(host, ':', (size_t)len);
	const char *last = memrchr(host, ':', (size_t)len);
	bool is_bare_ip6 = *host != '[' && colon != last;
	bool has_port = *host == '[' ? last && last[-1] == ']' : colon && colon == last;

	if (out->len > 0)
		buf_put_u8(out, ' ');
	buf_put_text(out, o->is_ldaps ? "ldaps://" : "ldap://");
	buf_printf(out, is_bare_ip6 ? "[%.*s]" : "%.*s", len, host);
	if (!has_port)
		buf_printf(out, ":%d", o->port ? o->port : o->is_ldaps ? 636 : 389);
}

void ldap_options_put_uris(
    const struct ldap_options *o, struct buf *out, const char *hosts)
{
	while (*(hosts = skip_blanks(hosts))) {
		size_t len = strcspn(hosts, BLANKS);
		put_uri(o, out, hosts, (int)len);
		hosts += len;
	}
}
