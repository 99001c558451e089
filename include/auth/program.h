/*
 * Runs a program for what it prints, on a helper thread.
 */
#ifndef AUTH_PROGRAM_H
#define AUTH_PROGRAM_H

#include <stdint.h>

#include "auth/helpers.h"
#include "base/buf.h"
#include "base/err.h"

/*
 * Runs words[0] with these arguments, without a shell, and appends what it writes to
 * its standard output to `out`, which has a maximum that must not be reached.  Its
 * environment is that of this process with `variables` (NAME=VALUE, the last one NULL)
 * in place of those with the same names; `input` (NULL: nothing) is what it reads from
 * its standard input.  It is the leader of a process group, which is killed when
 * limit_us is over or the job (NULL: none) was cancelled.
 *
 * -1 and err: it could not be run, or exited otherwise than with 0, or printed too
 * much, or was killed.  err has the first line that it wrote to its standard error, and
 * never anything of its standard output.
 */
int program_run(char *const *words, char *const *variables, const char *input,
    uint64_t limit_us, const struct helpers_job *job, struct buf *out, struct err *err);

/* Returns "NAME=VALUE" for program_run; the caller frees it. */
char *program_variable(const char *name, const char *value);

#endif
