/*
 * Fetches key sets by libcurl.  Certificates are always verified, and no redirection is
 * followed: the discovery document names the place of the keys.
 */
#include "auth/oauth_fetch.h"

#include "base/mem.h"
#include "config.h"

#ifdef HAVE_OAUTH

#	include <string.h>

#	include <curl/curl.h>

#	include "auth/oauth_message.h"
#	include "auth/oauth_token.h"
#	include "base/buf.h"

/* How long one of the two requests may take, and its connect. */
enum { REQUEST_MS = 10000, CONNECT_MS = 5000 };

static void initialize(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t take(char *bytes, size_t size, size_t count, void *ctx)
{
	struct buf *out = ctx;

	buf_put(out, bytes, size * count);
	return out->failed ? 0 : size * count;
}

static int look(
    void *ctx, curl_off_t in_all, curl_off_t in, curl_off_t out_all, curl_off_t out)
{
	(void)in_all, (void)in, (void)out_all, (void)out;
	return helpers_is_cancelled(ctx);
}

static int get(struct oauth_fetch *fetch, const char *url, struct buf *out)
{
	CURL *curl = curl_easy_init();
	char why[CURL_ERROR_SIZE] = "";
	long status = 0;
	CURLcode code;

	if (!curl)
		return err_set_row(&fetch->err, ERROR_OUT_OF_MEMORY);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)REQUEST_MS);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
	if (*fetch->ca_file)
		curl_easy_setopt(curl, CURLOPT_CAINFO, fetch->ca_file);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "pgbouncer");
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, out);
	curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, look);
	curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &fetch->job);
	code = curl_easy_perform(curl);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(curl);
	if (out->failed)
		return err_set(&fetch->err, "%s: the answer is too long", url);
	if (code != CURLE_OK)
		return err_set(
		    &fetch->err, "%s: %s", url, *why ? why : curl_easy_strerror(code));
	if (status != 200)
		return err_set(&fetch->err, "%s: status %ld", url, status);
	return 0;
}

static void fetch_run(struct helpers_job *job)
{
	struct oauth_fetch *fetch = container_of(job, struct oauth_fetch, job);
	struct buf url, name, answer;
	char *place = NULL;

	helpers_alone(job, initialize);
	buf_init(&url, 0);
	buf_init(&name, 0);
	buf_init(&answer, OAUTH_DOCUMENT_MAX);
	oauth_issuer_put_document(&url, fetch->issuer);
	oauth_issuer_put_name(&name, fetch->issuer);
	if (get(fetch, buf_text(&url), &answer) == 0) {
		place = oauth_discovery_parse(
		    buf_text(&answer), answer.len, buf_text(&name), &fetch->err);
		if (!place)
			err_prefix(&fetch->err, "%s: ", buf_text(&url));
	}
	buf_clear(&answer);
	if (place && get(fetch, place, &answer) == 0) {
		fetch->keys =
		    oauth_keys_parse(buf_text(&answer), answer.len, &fetch->err);
		if (!fetch->keys)
			err_prefix(&fetch->err, "%s: ", place);
	}
	mem_free(place);
	buf_done(&url);
	buf_done(&name);
	buf_done(&answer);
}

#else

static void fetch_run(struct helpers_job *job)
{
	err_set_row(
	    &container_of(job, struct oauth_fetch, job)->err, ERROR_OAUTH_UNSUPPORTED);
}

#endif

static void fetch_done(struct helpers_job *job)
{
	struct oauth_fetch *fetch = container_of(job, struct oauth_fetch, job);

	fetch->done(fetch);
}

static void fetch_end(struct helpers_job *job)
{
	oauth_fetch_discard(container_of(job, struct oauth_fetch, job));
}

struct oauth_fetch *oauth_fetch_new(const char *issuer, const char *ca_file,
    void (*done)(struct oauth_fetch *fetch), void *owner)
{
	struct oauth_fetch *fetch = mem_zero(sizeof(*fetch));

	fetch->job = (struct helpers_job){.kind = HELPERS_FETCH,
	    .run = fetch_run,
	    .done = fetch_done,
	    .discard = fetch_end};
	fetch->issuer = mem_strdup(issuer);
	fetch->ca_file = mem_strdup(ca_file);
	fetch->done = done;
	fetch->owner = owner;
	return fetch;
}

void oauth_fetch_discard(struct oauth_fetch *fetch)
{
	oauth_keys_unref(&fetch->keys);
	mem_free(fetch->issuer);
	mem_free(fetch->ca_file);
	mem_free(fetch);
}
