/*
 * A login that LDAP or PAM judges, as a job.  What the judges do is in files of their
 * own.
 */
#include "auth/external_login.h"

#include <string.h>

#include "base/mem.h"

static struct external_login *login_of(struct external_job *job)
{
	return container_of(job, struct external_login, job);
}

static void pam_run(struct external_job *job)
{
	struct external_login *login = login_of(job);

	login->result =
	    external_pam_check(login->user, login->password, login->host, &login->err);
}

static void ldap_run(struct external_job *job)
{
	struct external_login *login = login_of(job);
	struct ldap_options options;

	if (ldap_options_parse(&options, login->options, &login->err) < 0)
		return;
	login->result = external_ldap_check(
	    &options, login->user, login->password, job, &login->err);
	ldap_options_done(&options);
}

static void login_done(struct external_job *job)
{
	struct external_login *login = login_of(job);
	login->done(login);
}

static void login_end(struct external_job *job)
{
	external_login_discard(login_of(job));
}

/* A copy that may be as long as a peer likes; NULL stays NULL. */
static int copy_text(char **copy, const char *text)
{
	size_t size = text ? strlen(text) + 1 : 0;

	if (!text)
		return 0;
	*copy = try_alloc(size);
	if (!*copy)
		return -1;
	memcpy(*copy, text, size);
	return 0;
}

/* `from` has the run() of the job, what is to be copied, and the owner. */
static struct external_login *login_new(const struct external_login *from)
{
	struct external_login *login = mem_zero(sizeof(*login));

	login->job = (struct external_job){
	    .kind = EXTERNAL_ASK,
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
		external_login_discard(login);
		return NULL;
	}
	return login;
}

struct external_login *external_login_pam(const char *user, const char *password,
    const char *host, void (*done)(struct external_login *login), void *owner)
{
	return login_new(&(struct external_login){
	    .job.run = pam_run,
	    .user = (char *)user,
	    .password = (char *)password,
	    .host = (char *)host,
	    .done = done,
	    .owner = owner,
	});
}

struct external_login *external_login_ldap(const char *user, const char *password,
    const char *options, void (*done)(struct external_login *login), void *owner)
{
	return login_new(&(struct external_login){
	    .job.run = ldap_run,
	    .user = (char *)user,
	    .password = (char *)password,
	    .options = (char *)options,
	    .done = done,
	    .owner = owner,
	});
}

void external_login_discard(struct external_login *login)
{
	mem_free_secret(login->user);
	mem_free_secret(login->password);
	mem_free_secret(login->host);
	mem_free_secret(login->options);
	mem_wipe(login, sizeof(*login));
	mem_free(login);
}
