/*
 * Runs the check, and prints the overview and the advice for the loaded configuration.
 */
#include "tools/explain.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/wrapped.h"
#include "conf/entry.h"
#include "daemon/team.h"
#include "tools/advice.h"
#include "tools/check.h"

static bool has_external_auth(const struct loaded_config *c)
{
	int type = c->config->settings.auth_type;

	if (type == AUTH_PAM || type == AUTH_LDAP)
		return true;
	return c->rules && (hba_find_method(c->rules->hba, HBA_PAM) ||
			       hba_find_method(c->rules->hba, HBA_LDAP));
}

static bool is_there(const char *file)
{
	struct stat st;

	return stat(file, &st) == 0 && !S_ISDIR(st.st_mode) && access(file, R_OK) == 0;
}

unsigned explain_config(FILE *out, const struct options *options)
{
	struct loaded_config loaded;
	struct database_config template;
	struct arena *arena = arena_new();
	struct err err;
	unsigned problems;
	struct sizing sizing;

	loaded_config_init(&loaded);
	problems = check_loaded(out, options, &loaded);
	struct sizing_input input = {
	    .config = loaded.config,
	    .users = loaded.users,
	    .workers = team_size(&loaded.config->settings),
	    .has_external_auth = has_external_auth(&loaded),
	};
	if (loaded.config->template &&
	    entry_parse_connstr(
		&template, "*", loaded.config->template->connstr, arena, &err) == 0)
		input.template = &template;
	if (problems > 0 && is_there(options->file))
		wrapped_put(out, "",
		    "The problems above have to be solved first. What follows is about "
		    "the parts that could be read.");
	if (is_there(options->file)) {
		struct overview o = {.input = &input, .sizing = &sizing};
		sizing_init(&sizing, &input);
		struct rlimit limit = {.rlim_cur = 0, .rlim_max = 0};
		getrlimit(RLIMIT_NOFILE, &limit);
		o.descriptor_limit = (long long)limit.rlim_cur;
		o.descriptor_limit_hard = (long long)limit.rlim_max;
		overview_put(out, &o);
		advice_put(out, &o);
		sizing_done(&sizing);
	}
	if (input.template)
		mem_wipe_text(template.connstr);
	if (input.template)
		mem_wipe_text(template.password);
	arena_free(&arena);
	loaded_config_done(&loaded);
	return problems;
}
