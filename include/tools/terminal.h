/*
 * The terminal of the person who started the program.
 */
#ifndef TOOLS_TERMINAL_H
#define TOOLS_TERMINAL_H

#include "base/err.h"

/* Asks for a secret, which is not shown while it is typed.  Returns it without the line
 * end; free it by mem_free_secret.  NULL and err: there is no terminal, or nothing was
 * typed. */
char *terminal_ask_secret(const char *prompt, struct err *err);

#endif
