#include "base/endpoints.h"

#include <string.h>

#include "base/text.h"

static const char unix_word[] = "unix:";

static int refuse(struct err *err, const struct endpoint *e, const char *why)
{
	return err_set(err,
	    "\"%.100s\" %s; write ADDRESS:PORT, [IPV6]:PORT, *:PORT or unix:/PATH",
	    e->text, why);
}

static int read_tcp(struct endpoint *out, struct err *err)
{
	const char *host = out->text, *bracket = strrchr(host, ']');
	/* colons within brackets are those of the address */
	const char *colon = strrchr(bracket ? bracket : host, ':');
	size_t len = colon ? (size_t)(colon - host) : 0;

	if (host[strcspn(host, "/ \t")])
		return refuse(err, out, "is no address with a port");
	if (host[0] == '[' && !bracket)
		return refuse(err, out, "has no closing bracket");
	if (!colon)
		return refuse(err, out, "has no port");
	if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
		host++;
		len -= 2;
	} else if (memchr(host, ':', len)) {
		return refuse(err, out, "is an IPv6 address without brackets");
	}
	if (len == 0)
		return refuse(err, out, "has no address");
	memcpy(out->host, host, len);
	out->host[len] = '\0';
	const char *text = colon + 1;
	if (!*text || text[strspn(text, "0123456789")] || *text == '0' ||
	    text_int(text, &out->port) < 0 || out->port > 65535)
		return refuse(err, out, "has no port between 1 and 65535");
	return 1;
}

int endpoints_next(const char **at, struct endpoint *out, struct err *err)
{
	const char *item;
	size_t len;

	if (!*at || !text_list_next(at, &item, &len))
		return 0;
	memset(out, 0, sizeof(*out));
	if (len >= ENDPOINT_TEXT)
		return err_set(err, "\"%.40s...\" is longer than %d bytes", item,
		    ENDPOINT_TEXT - 1);
	memcpy(out->text, item, len);
	if (text_has_prefix(out->text, unix_word)) {
		const char *path = out->text + strlen(unix_word);
		if (*path != '/')
			return refuse(err, out, "has no absolute path");
		if (strlen(path) > ENDPOINT_PATH_MOST)
			return refuse(err, out, "has a path longer than 107 bytes");
		memcpy(out->path, path, strlen(path) + 1);
		return 1;
	}
	return read_tcp(out, err);
}

int endpoints_check(const char *list, struct err *err)
{
	struct endpoint e;
	int count = 0, rc;

	while ((rc = endpoints_next(&list, &e, err)) > 0)
		if (++count > ENDPOINTS_MOST)
			return err_set(
			    err, "has more than %d addresses", ENDPOINTS_MOST);
	return rc;
}

size_t endpoints_count(const char *list)
{
	struct endpoint e;
	struct err err;
	size_t count = 0;

	while (endpoints_next(&list, &e, &err) > 0)
		count++;
	return count;
}
