#include "pool/failure.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

/* How many bytes of a server's message are kept.  With the text around it, it still
 * fits into an error that every client reads. */
enum { REASON_MAX = 400, FAST_MAX = REASON_MAX + 100 };

void failure_forget(struct failure *f)
{
	mem_free(f->refusal);
	mem_free(f->fast);
	*f = (struct failure){.kind = FAILURE_NONE};
}

/* Returns the length of a text cut to max bytes, but not within a UTF-8 character. */
static int cut_len(const char *text, size_t max)
{
	size_t len = strlen(text);

	if (len <= max)
		return (int)len;
	len = max;
	while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--;
	return (int)len;
}

void failure_note(struct failure *f, enum failure_kind kind, const char *text,
    const char *told, const char *sqlstate)
{
	char reason[REASON_MAX + 1], fast[FAST_MAX];

	failure_forget(f);
	f->kind = kind;
	snprintf(
	    f->text, sizeof(f->text), "%.*s", cut_len(text, sizeof(f->text) - 1), text);
	snprintf(f->sqlstate, sizeof(f->sqlstate), "%.5s",
	    sqlstate ? sqlstate : error_sqlstate(ERROR_CONNECTION_LOST));
	snprintf(reason, sizeof(reason), "%.*s", cut_len(told, REASON_MAX), told);
	f->refusal = mem_strdup(reason);
	f->fast = mem_strdup(
	    error_print(fast, sizeof(fast), ERROR_SERVER_LOGIN_FAILING, reason));
}

void lookup_end_note(struct lookup_end *end, uint64_t now_us, const char *failure)
{
	mem_free(end->failure);
	end->failure = failure ? mem_strdup(failure) : NULL;
	end->at_us = now_us;
}
