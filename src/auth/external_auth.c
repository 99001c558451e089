#include "auth/external_auth.h"

#include <string.h>

#include "base/mem.h"

static struct external_auth *login_of(struct helpers_job *job)
{
	return container_of(job, struct external_auth, job);
}

static void pam_run(struct helpers_job *job)
{
	struct external_auth *login = login_of(job);

	login->result = external_auth_pam_check(
	    login->user, login->password, login->host, &login->err);
}

static void ldap_run(struct helpers_job *job)
{
	struct external_auth *login = login_of(job);
	struct ldap_options options;

	if (ldap_options_parse(&options, login->options, &login->err) < 0)
		return;
	login->result = external_auth_ldap_check(
	    &options, login->user, login->password, job, &login->err);
	ldap_options_done(&options);
}

static void login_done(struct helpers_job *job)
{
	struct external_auth *login = login_of(job);
	login->done(login);
}

static void login_end(struct helpers_job *job)
{
	external_auth_discard(login_of(job));
}

/* Copies a text whose length a peer has chosen; NULL stays NULL. */
static int copy_text(char **copy, const char *text)
{
	size_t size = text ? strlen(text) + 1 : 0;

	if (!text)
		return 0;
	*copy = mem_try(size);
	if (!*copy)
		return -1;
	memcpy(*copy, text, size);
	return 0;
}

/* Makes a job with the run() and owner of `from` and copies of its strings. */
static struct external_auth *login_new(const struct external_auth *from)
{
	struct external_auth *login = mem_zero(sizeof(*login));

	login->job = (struct helpers_job){
	    .kind = HELPERS_ASK,
	    .run = from->job.run,
	    .done = login_done,
	    .discard = login_end,
	};
	login->result = -1;
	login->done = from->done;
	login->owner = from->owner;
	if (copy_text(&login->user, from->user) < 0 ||
	    copy_text(&login->password, from->password) < 0 ||
	    copy_text(&login->host, from->host) < 0 ||
	    copy_text(&login->options, from->options) < 0) {
		external_auth_discard(login);
		return NULL;
	}
	return login;
}

struct external_auth *external_auth_new_pam(const char *user, const char *password,
    const char *host, void (*done)(struct external_auth *login), void *owner)
{
	return login_new(&(struct external_auth){
	    .job.run = pam_run,
	    .user = (char *)user,
	    .password = (char *)password,
	    .host = (char *)host,
	    .done = done,
	    .owner = owner,
	});
}

struct external_auth *external_auth_new_ldap(const char *user, const char *password,
    const char *options, void (*done)(struct external_auth *login), void *owner)
{
	return login_new(&(struct external_auth){
	    .job.run = ldap_run,
	    .user = (char *)user,
	    .password = (char *)password,
	    .options = (char *)options,
	    .done = done,
	    .owner = owner,
	});
}

void external_auth_discard(struct external_auth *login)
{
	mem_free_secret(login->user);
	mem_free_secret(login->password);
	mem_free_secret(login->host);
	mem_free_secret(login->options);
	mem_wipe(login, sizeof(*login));
	mem_free(login);
}
