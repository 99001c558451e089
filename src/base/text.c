#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cpu_time.h"
#include "base/err.h"
#include "base/mem.h"

/* A file larger than this cannot be a configuration file. */
enum {
	FILE_MOST = 1024 * 1024 * 1024,
	FILE_STEP = 16 * 1024,
	/* for pauses: reading into new memory, and wiping */
	READ_STEPS = 10,
	WIPE_STEPS = 2,
};

/* What libc prints is cut to this length before it is escaped. */
enum { REST_MOST = 2048 };

#define SECOND_US 1000000u

/* An exponent beyond this cannot give a number of microseconds that fits. */
enum { EXPONENT_MAX = 100 };

static int whole_number(const char *s, long long least, long long most, long long *out)
{
	char *end;

	errno = 0;
	*out = strtoll(s, &end, 0);
	return errno || end == s || *end || *out < least || *out > most ? -1 : 0;
}

int text_int(const char *s, int *out)
{
	long long v;

	if (whole_number(s, INT_MIN, INT_MAX, &v))
		return -1;
	*out = (int)v;
	return 0;
}

int text_uint(const char *s, unsigned *out)
{
	long long v;

	if (whole_number(s, 0, UINT_MAX, &v))
		return -1;
	*out = (unsigned)v;
	return 0;
}

static char *append_bytes(char *at, const char *end, const char *s, size_t len)
{
	size_t room = (size_t)(end - at) - 1;

	if (len > room)
		len = room;
	memcpy(at, s, len);
	at[len] = '\0';
	return at + len;
}

char *text_append(char *at, const char *end, const char *s)
{
	return append_bytes(at, end, s, strlen(s));
}

/* Prints n in the base 10 or 16. */
static char *append_in(char *at, const char *end, uint64_t n, unsigned base)
{
	char digits[20];
	size_t first = sizeof(digits);

	do {
		digits[--first] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	return append_bytes(at, end, digits + first, sizeof(digits) - first);
}

char *text_append_number(char *at, const char *end, uint64_t n)
{
	return append_in(at, end, n, 10);
}

char *text_append_hex(char *at, const char *end, uint64_t n)
{
	return append_in(at, end, n, 16);
}

/* ---- escapes ---- */

size_t text_hidden_len(const char *s)
{
	const unsigned char *c = (const unsigned char *)s;

	if (c[0] == 0xc2) /* U+0080 to U+009F */
		return c[1] >= 0x80 && c[1] < 0xa0 ? 2 : 0;
	if (c[0] == 0xe2) /* U+2028, U+2029 */
		return c[1] == 0x80 && (c[2] == 0xa8 || c[2] == 0xa9) ? 3 : 0;
	return (c[0] && c[0] < ' ') || c[0] == 0x7f;
}

/* Prints the escape of the hidden character at s, which has `len` bytes. */
static void print_escape(const char *s, size_t len, char out[8])
{
	const unsigned char *c = (const unsigned char *)s;
	const char *letters = "\nn\rr\tt",
		   *letter = len == 1 ? strchr(letters, *s) : NULL;

	if (letter)
		snprintf(out, 8, "\\%c", letter[1]);
	else if (len == 1)
		snprintf(out, 8, "\\x%02x", *c);
	else if (len == 2)
		snprintf(out, 8, "\\u00%02x", c[1]);
	else
		snprintf(out, 8, "\\u20%02x", c[2] - 0x80);
}

char *text_append_escaped(char *at, const char *end, const char *s)
{
	size_t plain, hidden;
	char escape[8];

	for (;; s += plain + hidden) {
		for (plain = 0; s[plain] && !text_hidden_len(s + plain); plain++)
			;
		at = append_bytes(at, end, s, plain);
		if (!s[plain])
			return at;
		hidden = text_hidden_len(s + plain);
		print_escape(s + plain, hidden, escape);
		at = append_bytes(at, end, escape, strlen(escape));
	}
}

/* ---- printf ---- */

static char *__attribute__((format(printf, 3, 0)))
print_rest(char *at, const char *end, const char *fmt, va_list ap)
{
	size_t most = (size_t)(end - at) - 1;
	int len = vsnprintf(at, most + 1, fmt, ap);

	if (len < 0)
		*at = '\0';
	return len < 0 ? at : at + ((size_t)len < most ? (size_t)len : most);
}

static char *__attribute__((format(printf, 3, 0)))
print_rest_escaped(char *at, const char *end, const char *fmt, va_list ap)
{
	char raw[REST_MOST];

	print_rest(raw, raw + sizeof(raw), fmt, ap);
	return text_append_escaped(at, end, raw);
}

static char *append_signed(char *at, const char *end, int n)
{
	if (n >= 0)
		return text_append_number(at, end, (unsigned)n);
	return text_append_number(
	    text_append(at, end, "-"), end, (uint64_t) - (int64_t)n);
}

/* Most formats only have these conversions, which are printed here; from the first
 * other one on, libc does it. */
static char *__attribute__((format(printf, 3, 0)))
print(char *at, const char *end, const char *fmt, va_list ap, bool escapes)
{
	const char *next, *text;

	while ((next = strchr(fmt, '%'))) {
		bool is_long = text_has_prefix(next, "%llu");
		at = append_bytes(at, end, fmt, (size_t)(next - fmt));
		fmt = next;
		if (!is_long && (!next[1] || !strchr("sdu%", next[1])))
			return escapes ? print_rest_escaped(at, end, fmt, ap)
				       : print_rest(at, end, fmt, ap);
		fmt += is_long ? 4 : 2;
		if (is_long) {
			at =
			    text_append_number(at, end, va_arg(ap, unsigned long long));
			continue;
		}
		switch (next[1]) {
		case 's':
			text = va_arg(ap, const char *);
			text = text ? text : "(null)";
			at = escapes ? text_append_escaped(at, end, text)
				     : text_append(at, end, text);
			break;
		case 'd':
			at = append_signed(at, end, va_arg(ap, int));
			break;
		case 'u':
			at = text_append_number(at, end, va_arg(ap, unsigned));
			break;
		default:
			at = text_append(at, end, "%");
		}
	}
	return text_append(at, end, fmt);
}

char *text_vprint(char *at, const char *end, const char *fmt, va_list ap)
{
	return print(at, end, fmt, ap, false);
}

char *text_vprint_escaped(char *at, const char *end, const char *fmt, va_list ap)
{
	return print(at, end, fmt, ap, true);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads the exponent, which begins with "e", and scales *us.  Returns -1 when there is
 * none or it is too large. */
static int take_exponent(const char *s, uint64_t *us)
{
	bool is_negative;
	int exponent = 0;

	if (!*s)
		return 0;
	if (*s != 'e' && *s != 'E')
		return -1;
	is_negative = *++s == '-';
	s += *s == '-' || *s == '+';
	if (!is_digit(*s))
		return -1;
	for (; is_digit(*s) && exponent < EXPONENT_MAX; s++)
		exponent = exponent * 10 + (*s - '0');
	if (*s || exponent >= EXPONENT_MAX)
		return -1;
	for (; exponent > 0 && *us > 0; exponent--) {
		if (!is_negative && *us > UINT64_MAX / 10)
			return -1;
		*us = is_negative ? *us / 10 : *us * 10;
	}
	return 0;
}

int text_seconds(const char *s, uint64_t *out_us)
{
	uint64_t us = 0, unit = SECOND_US;
	bool digits = false;

	for (; is_digit(*s); s++) {
		uint64_t step = (uint64_t)(*s - '0') * SECOND_US;
		if (us > (UINT64_MAX - step) / 10)
			return -1;
		us = us * 10 + step;
		digits = true;
	}
	uint64_t fraction = 0;
	if (*s == '.') {
		for (s++; is_digit(*s); s++) {
			unit /= 10;
			fraction += (uint64_t)(*s - '0') * unit;
			digits = true;
		}
	}
	if (!digits || fraction > UINT64_MAX - us)
		return -1;
	us += fraction;
	if (take_exponent(s, &us) < 0)
		return -1;
	*out_us = us;
	return 0;
}

static const char *const byte_units[] = {"", "kB", "MB", "GB", "TB"};

enum { BYTE_UNITS = sizeof(byte_units) / sizeof(byte_units[0]), UNIT_BITS = 10 };

int text_bytes(const char *s, uint64_t *out)
{
	uint64_t n = 0;
	const char *at = s;

	for (; is_digit(*at); at++) {
		uint64_t digit = (uint64_t)(*at - '0');
		if (n > (UINT64_MAX - digit) / 10)
			return -1;
		n = n * 10 + digit;
	}
	for (unsigned i = 0; at > s && i < BYTE_UNITS; i++)
		if (text_equal_nocase(at, byte_units[i]) &&
		    n <= UINT64_MAX >> i * UNIT_BITS) {
			*out = n << i * UNIT_BITS;
			return 0;
		}
	return -1;
}

void text_print_bytes(uint64_t bytes, char *out, size_t size)
{
	unsigned i = 0;

	while (bytes && i + 1 < BYTE_UNITS && bytes % (1 << UNIT_BITS) == 0) {
		bytes >>= UNIT_BITS;
		i++;
	}
	snprintf(out, size, "%llu%s", (unsigned long long)bytes, byte_units[i]);
}

void text_print_seconds(uint64_t us, char *out, size_t size)
{
	snprintf(out, size, "%g", (double)us / SECOND_US);
}

bool text_equal_nocase(const char *a, const char *b)
{
	return strcasecmp(a, b) == 0;
}

bool text_has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool is_in(const char *set, char c)
{
	return set && c && strchr(set, c);
}

#define SPACES " \t\n\v\f\r"

bool text_list_has(const char *list, const char *word)
{
	size_t len = strlen(word);

	if (!list || !len)
		return false;
	for (;;) {
		list += strspn(list, "," SPACES);
		if (!*list)
			return false;
		size_t item = strcspn(list, "," SPACES);
		if (item == len && memcmp(list, word, len) == 0)
			return true;
		list += item;
	}
}

bool text_list_next(const char **at, const char **item, size_t *len)
{
	if (!*at)
		return false;
	*at += strspn(*at, "," SPACES);
	if (!**at)
		return false;
	size_t n = strcspn(*at, ",");
	*item = *at;
	*at += n;
	while (n && is_in(SPACES, (*item)[n - 1]))
		n--;
	*len = n;
	return true;
}

void text_put_lower(struct buf *b, const char *name)
{
	for (; *name; name++)
		buf_put_u8(b, *name >= 'A' && *name <= 'Z' ? (uint8_t)(*name | 0x20)
							   : (uint8_t)*name);
}

void text_put_literal(struct buf *b, const char *value)
{
	bool has_backslash = strchr(value, '\\');

	buf_put_text(b, has_backslash ? "E'" : "'");
	/* every character of `doubled` is written twice */
	const char *doubled = has_backslash ? "'\\" : "'";
	while (*value) {
		size_t n = strcspn(value, doubled);
		buf_put(b, value, n);
		value += n;
		if (*value) {
			buf_put_u8(b, (uint8_t)*value);
			buf_put_u8(b, (uint8_t)*value);
			value++;
		}
	}
	buf_put_text(b, "'");
}

void text_put_ascii_literal(struct buf *b, const char *value)
{
	const char *at = value;

	while (*at && !((uint8_t)*at & 0x80))
		at++;
	if (!*at) {
		text_put_literal(b, value);
		return;
	}
	buf_put_text(b, "E'");
	for (at = value; *at; at++) {
		if ((uint8_t)*at & 0x80) {
			buf_printf(b, "\\x%02x", (uint8_t)*at);
			continue;
		}
		if (*at == '\'' || *at == '\\')
			buf_put_u8(b, (uint8_t)*at);
		buf_put_u8(b, (uint8_t)*at);
	}
	buf_put_text(b, "'");
}

void tokenizer_init(
    struct tokenizer *t, const struct token_rules *rules, const char *text, size_t len)
{
	memset(t, 0, sizeof(*t));
	t->rules = rules;
	t->at = t->start = text;
	t->end = len ? text + len : text;
	t->line = 1;
	t->kind = TOKEN_END;
	buf_init(&t->text, 0);
}

/* Wipes the token's text, because tokens of a configuration may be passwords. */
void tokenizer_done(struct tokenizer *t)
{
	buf_wipe_done(&t->text);
}

static bool is_newline_token(const struct tokenizer *t, char c)
{
	return t->rules->lines && c == '\n';
}

static bool is_blank(const struct tokenizer *t, char c)
{
	return is_in(t->rules->blanks, c) ? !is_newline_token(t, c)
					  : c == '\n' && !t->rules->lines;
}

static void skip_blanks_and_comments(struct tokenizer *t)
{
	for (; t->at < t->end; t->at++) {
		if (is_in(t->rules->comment, *t->at)) {
			const char *newline =
			    memchr(t->at, '\n', (size_t)(t->end - t->at));
			t->at = newline ? newline : t->end;
			if (t->at == t->end)
				return;
		}
		if (!is_blank(t, *t->at))
			return;
	}
}

static enum token_kind take_quoted(struct tokenizer *t)
{
	char quote = *t->at++;

	while (t->at < t->end && !is_newline_token(t, *t->at)) {
		char c = *t->at++;
		if (c == quote) {
			if (t->at == t->end || *t->at != quote)
				return TOKEN_QUOTED;
			t->at++;
		}
		buf_put_u8(&t->text, (uint8_t)c);
	}
	return TOKEN_BAD;
}

/* Reads a bare word.  Without .inner_quotes a quote inside a word is an ordinary
 * character; only a quote at its beginning opens a quoted token. */
static enum token_kind take_word(struct tokenizer *t)
{
	while (t->at < t->end && *t->at != '\n' && !is_blank(t, *t->at) &&
	       !is_in(t->rules->singles, *t->at) && !is_in(t->rules->comment, *t->at)) {
		if (!t->rules->inner_quotes || !is_in(t->rules->quotes, *t->at))
			buf_put_u8(&t->text, (uint8_t)*t->at++);
		else if (take_quoted(t) == TOKEN_BAD)
			return TOKEN_BAD;
	}
	return TOKEN_WORD;
}

static enum token_kind take_token(struct tokenizer *t)
{
	if (t->at == t->end)
		return TOKEN_END;
	if (is_newline_token(t, *t->at) || is_in(t->rules->singles, *t->at)) {
		buf_put_u8(&t->text, (uint8_t)*t->at);
		return *t->at++ == '\n' && t->rules->lines ? TOKEN_LINE : TOKEN_CHAR;
	}
	return is_in(t->rules->quotes, *t->at) ? take_quoted(t) : take_word(t);
}

enum token_kind tokenizer_next(struct tokenizer *t)
{
	const char *before = t->start;

	buf_clear(&t->text);
	skip_blanks_and_comments(t);
	t->start = t->at;
	for (; before < t->start; before++)
		t->line += *before == '\n';
	t->kind = take_token(t);
	if (t->text.failed)
		t->kind = TOKEN_BAD;
	return t->kind;
}

const char *tokenizer_text(struct tokenizer *t)
{
	return buf_text(&t->text);
}

/* Reads to the end of the file; -1 and errno on failure. */
static int read_all(int fd, struct buf *b, struct throttle *throttle)
{
	for (;;) {
		uint8_t *to = buf_room(b, FILE_STEP);
		if (!to) {
			errno = b->max - b->len < FILE_STEP ? EFBIG : ENOMEM;
			return -1;
		}
		ssize_t got = read(fd, to, FILE_STEP);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return (int)got;
		buf_grow(b, (size_t)got);
		throttle_take(throttle, READ_STEPS);
	}
}

char *text_read_file(const char *path, size_t *len, struct err *err)
{
	return text_read_slowly(path, NULL, len, err);
}

void text_free_secret_slowly(char *text, size_t len, struct throttle *throttle)
{
	for (size_t at = 0; at < len; at += FILE_STEP) {
		mem_wipe(text + at, len - at < FILE_STEP ? len - at : FILE_STEP);
		throttle_take(throttle, WIPE_STEPS);
	}
	mem_free(text);
}

char *text_read_slowly(
    const char *path, struct throttle *throttle, size_t *len, struct err *err)
{
	char *text = NULL;
	struct buf b;

	buf_init(&b, FILE_MOST);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || read_all(fd, &b, throttle)) {
		err_set(err, "%s", strerror(errno));
		goto done;
	}
	buf_put_u8(&b, 0);
	if (b.failed) {
		err_set(err, "%s", strerror(ENOMEM));
		goto done;
	}
	size_t text_len = strlen((const char *)b.bytes);
	mem_wipe(b.bytes + text_len, b.len - text_len);
	text = (char *)b.bytes;
	if (len)
		*len = b.len - 1;
	buf_init(&b, 0);
done:
	buf_wipe_done(&b);
	if (fd >= 0)
		close(fd);
	return text;
}

/* ---- prose on a terminal ---- */

enum { COLUMNS = 80 };

static void put_words(FILE *out, const char *lead, const char *text)
{
	size_t indent = strlen(lead), column = indent;

	fputs(lead, out);
	while (*(text += strspn(text, " "))) {
		size_t len = strcspn(text, " ");

		if (column > indent && column + 1 + len > COLUMNS) {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		}
		if (column > indent) {
			fputc(' ', out);
			column++;
		}
		fwrite(text, 1, len, out);
		column += len;
		text += len;
	}
	fputc('\n', out);
}

void text_put_wrapped(FILE *out, const char *lead, const char *fmt, ...)
{
	struct buf text;
	va_list ap;

	buf_init(&text, 0);
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	put_words(out, lead, buf_text(&text));
	buf_done(&text);
}
