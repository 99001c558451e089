#include "auth/oauth_check.h"

#include <string.h>
#include <time.h>

#include "auth/oauth_message.h"
#include "auth/program.h"
#include "base/buf.h"
#include "base/command_line.h"
#include "base/mem.h"

/* The check of a signature takes about as long as so many units of a derivation
 * (auth/key_cache.c). */
enum { CHECK_COST = 4 };
/* A complaint that shows so much of the token is not logged. */
enum { TELLING = 16 };

/* ---- by keys ---- */

static void check_by_keys(struct helpers_job *job)
{
	struct oauth_check *check = container_of(job, struct oauth_check, job);
	const struct oauth_request *r = &check->request;
	struct buf issuer;

	buf_init(&issuer, 0);
	oauth_issuer_put_name(&issuer, r->issuer);
	const struct oauth_demands demands = {
	    .issuer = buf_text(&issuer),
	    .audience = r->audience,
	    .scope = r->scope,
	    .name_claim = r->name_claim,
	    .now_s = time(NULL),
	};
	check->verdict = oauth_token_judge(
	    r->token, r->token_len, r->keys, &demands, &check->name, &check->err);
	buf_done(&issuer);
}

/* ---- by a program ---- */

/* What it prints is the name, with a newline or without. */
static void check_by_program(struct helpers_job *job)
{
	struct oauth_check *check = container_of(job, struct oauth_check, job);
	const struct oauth_request *r = &check->request;
	char **words = command_line_words(r->command, &check->err);
	char *variables[] = {program_variable("PGUSER", r->user),
	    program_variable("PGDATABASE", r->database),
	    program_variable("OAUTH_ISSUER", r->issuer),
	    program_variable("OAUTH_SCOPE", r->scope), NULL};
	struct buf out;
	int rc = -1;

	buf_init(&out, OAUTH_NAME_MAX + 2);
	if (words)
		rc = program_run(words, variables, r->token, OAUTH_PROGRAM_US, job,
		    &out, &check->err);
	if (out.len && out.bytes[out.len - 1] == '\n')
		out.len--;
	if (rc == 0 && out.len &&
	    (memchr(out.bytes, '\n', out.len) || memchr(out.bytes, '\0', out.len)))
		rc = err_set(&check->err, "prints more than a name");
	if (rc == 0 && !out.len && !r->is_delegated)
		rc = err_set(&check->err, "prints no name");
	if (rc == 0) {
		check->name = out.len ? mem_strdup(buf_text(&out)) : NULL;
		check->verdict = OAUTH_VALID;
	} else {
		char part[TELLING + 1] = "";
		memcpy(part, r->token, r->token_len < TELLING ? r->token_len : TELLING);
		if (strstr(check->err.text, part))
			err_set(&check->err, "does not accept it, and complains with a "
					     "part of the token");
		err_prefix(&check->err, "oauth_validator_command: ");
	}
	buf_wipe_done(&out);
	for (size_t i = 0; variables[i]; i++)
		mem_free(variables[i]);
	command_line_free(&words);
}

/* ---- the job ---- */

static void check_done(struct helpers_job *job)
{
	struct oauth_check *check = container_of(job, struct oauth_check, job);

	check->done(check);
}

static void check_end(struct helpers_job *job)
{
	oauth_check_discard(container_of(job, struct oauth_check, job));
}

static char *copy(const char *text)
{
	return text ? mem_strdup(text) : NULL;
}

struct oauth_check *oauth_check_new(const struct oauth_request *request, uint32_t lane,
    void (*done)(struct oauth_check *check), void *owner)
{
	char *token = mem_try(request->token_len + 1);
	struct oauth_check *check;

	if (!token)
		return NULL;
	memcpy(token, request->token, request->token_len);
	token[request->token_len] = '\0';
	check = mem_zero(sizeof(*check));
	check->job = (struct helpers_job){
	    .kind = request->keys ? HELPERS_COMPUTE : HELPERS_ASK,
	    .lane = lane,
	    .cost = CHECK_COST,
	    .run = request->keys ? check_by_keys : check_by_program,
	    .done = check_done,
	    .discard = check_end,
	};
	check->request = *request;
	check->request.token = token;
	check->request.issuer = mem_strdup(request->issuer);
	check->request.scope = mem_strdup(request->scope);
	check->request.keys = oauth_keys_ref(request->keys);
	check->request.audience = copy(request->audience);
	check->request.name_claim = copy(request->name_claim);
	check->request.command = copy(request->command);
	check->request.user = copy(request->user);
	check->request.database = copy(request->database);
	check->verdict = OAUTH_INVALID;
	check->done = done;
	check->owner = owner;
	return check;
}

void oauth_check_discard(struct oauth_check *check)
{
	struct oauth_request *r = &check->request;
	const char *texts[] = {r->issuer, r->scope, r->audience, r->name_claim,
	    r->command, r->user, r->database};

	mem_free_secret((char *)r->token);
	oauth_keys_unref(&r->keys);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		mem_free((char *)texts[i]);
	mem_free(check->name);
	mem_free(check);
}
