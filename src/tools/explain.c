/*
 * Runs the check, and prints the overview and the advice for the loaded configuration.
 */
#include "tools/explain.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/wrapped.h"
#include "tools/advice.h"
#include "tools/check.h"

static bool is_there(const char *file)
{
	struct stat st;

	return stat(file, &st) == 0 && !S_ISDIR(st.st_mode) && access(file, R_OK) == 0;
}

unsigned explain_config(FILE *out, const struct options *options)
{
	struct loaded_config loaded;
	unsigned problems;
	struct sizing sizing;

	loaded_config_init(&loaded);
	problems = check_loaded(out, options, &loaded);
	struct sizing_input input;
	sizing_input_init(&input, &loaded);
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
	sizing_input_done(&input);
	loaded_config_done(&loaded);
	return problems;
}
