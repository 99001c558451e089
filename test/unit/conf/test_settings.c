/* The settings table: order, types, ranges, printing, checks over several settings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text.h"
#include "conf/config.h"
#include "conf/setting_row.h"

struct fixture {
	struct settings s;
	struct arena *arena;
	struct err err;
};

static int set_up(void **state)
{
	struct fixture *f = mem_zero(sizeof(*f));

	f->arena = arena_new();
	settings_defaults(&f->s);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	arena_free(&f->arena);
	mem_free(f);
	return 0;
}

static int parse(struct fixture *f, const char *name, const char *text)
{
	const struct setting *row = setting_find(name);

	assert_non_null(row);
	return setting_parse(row, &f->s, text, f->arena, &f->err);
}

/* The value as SHOW shows it, after parsing. */
static void shows(
    struct fixture *f, const char *name, const char *text, const char *expected)
{
	char out[64];

	assert_int_equal(parse(f, name, text), 0);
	assert_string_equal(
	    setting_print(setting_find(name), &f->s, out, sizeof(out)), expected);
}

static void refuses(struct fixture *f, const char *name, const char *text)
{
	struct settings before = f->s;

	f->err.text[0] = '\0';
	assert_int_equal(parse(f, name, text), -1);
	assert_memory_equal(&before, &f->s, sizeof(before));
	assert_string_not_equal(f->err.text, "");
	assert_null(strchr(f->err.text, '\n'));
}

static void order_is_that_of_show_config(void **state)
{
	const struct setting *row, *next;

	(void)state;
	for (size_t i = 0; (row = setting_at(i)) && (next = setting_at(i + 1)); i++)
		if (strcmp(setting_name(row), "pool_mode") != 0)
			assert_true(strcmp(setting_name(row), setting_name(next)) < 0);
		else /* the only setting that differs */
			assert_string_equal(setting_name(next), "pool_idle_timeout");
	assert_null(setting_at(1000));
	assert_null(setting_find("nosuch"));
	assert_null(setting_find("LISTEN_PORT"));
}

static void restart_only_and_unset(void **state)
{
	static const char restart[] =
	    " disable_pqexec io_engine job_name listen_addr listen_backlog listen_port "
	    "pidfile "
	    "pkt_buf resolv_conf so_reuseport track_extra_parameters unix_socket_dir "
	    "unix_socket_group unix_socket_mode user workers ";
	static const char unset[] =
	    " auth_dbname auth_file auth_ident_file auth_ldap_options auth_user "
	    "role_check_user "
	    "client_tls13_ciphers conffile server_tls13_ciphers user verbose ";
	struct fixture *f = *state;
	const struct setting *row;
	char word[80], out[64];

	for (size_t i = 0; (row = setting_at(i)); i++) {
		snprintf(word, sizeof(word), " %s ", setting_name(row));
		assert_int_equal(setting_is_live(row), strstr(restart, word) == NULL);
		assert_int_equal(
		    setting_default(row) == NULL, strstr(unset, word) != NULL);
		assert_int_equal(setting_print(row, &f->s, out, sizeof(out)) == NULL,
		    setting_default(row) == NULL);
	}
}

static void defaults(void **state)
{
	struct fixture *f = *state;
	char out[64];

	assert_int_equal(f->s.listen_port, 6432);
	assert_int_equal(f->s.unix_socket_mode, 0777);
	assert_int_equal(f->s.global.server_lifetime, UINT64_C(3600000000));
	assert_int_equal(f->s.auth_type, AUTH_MD5);
	assert_int_equal(f->s.max_packet_size, 2147483647u);
	assert_string_equal(f->s.global.server_check_query, "<empty>");
	assert_null(f->s.auth_file);
	assert_string_equal(setting_default(setting_find("unix_socket_mode")), "0777");
	assert_string_equal(
	    setting_print(setting_find("unix_socket_mode"), &f->s, out, sizeof(out)),
	    "511");
}

static void numbers(void **state)
{
	struct fixture *f = *state;

	shows(f, "max_client_conn", "0x10", "16");
	shows(f, "max_client_conn", "010", "8");
	shows(f, "max_client_conn", " +7", "7");
	shows(f, "max_client_conn", "-1", "-1");
	shows(f, "max_packet_size", "4294967295", "4294967295");
	shows(f, "log_stats", "2", "1");
	shows(f, "log_stats", "-0", "0");
	refuses(f, "max_client_conn", "");
	refuses(f, "max_client_conn", "12x");
	refuses(f, "max_client_conn", "1 ");
	refuses(f, "max_client_conn", "99999999999");
	refuses(f, "max_packet_size", "4294967296");
	refuses(f, "listen_port", "65536");
	refuses(f, "listen_port", "-1");
	assert_int_equal(parse(f, "default_pool_size", "-1"), 1);
	assert_int_equal(f->s.global.default_pool_size, 0);
	assert_string_equal(f->err.text, "-1 means nothing here, 0 is used");
	refuses(f, "max_prepared_statements", "-1");
	refuses(f, "log_stats", "on");
	refuses(f, "log_stats", "yes");
	refuses(f, "log_stats", "true");
}

static void times(void **state)
{
	struct fixture *f = *state;

	shows(f, "query_timeout", "0.5", "0.5");
	assert_int_equal(f->s.global.query_timeout, 500000);
	shows(f, "query_timeout", "0.0000019", "1e-06");
	shows(f, "query_timeout", "3000000", "3e+06");
	refuses(f, "query_timeout", "-1");
	refuses(f, "query_timeout", "5s");
	refuses(f, "query_timeout", "1min");
	refuses(f, "query_timeout", "");
	refuses(f, "query_timeout", "0,5");
}

static void enums(void **state)
{
	struct fixture *f = *state;

	shows(f, "pool_mode", "Transaction", "transaction");
	shows(f, "auth_type", "SCRAM-SHA-256", "scram-sha-256");
	shows(f, "auth_type", "ldap", "ldap");
	refuses(f, "pool_mode", "trans");
	assert_string_equal(
	    f->err.text, "must be one of: session, transaction, statement");
	refuses(f, "workers", "65");
	assert_string_equal(f->err.text, "must be one of: auto, 1, 2, 3, ..., 64");
	refuses(f, "auth_type", "peer");
	refuses(f, "auth_type", "reject");
	assert_string_equal(setting_auth_type_name(AUTH_REJECT), "reject");
	assert_null(setting_auth_type_name(AUTH_NONE));
	assert_null(setting_pool_mode_name(-1));
	assert_string_equal(
	    setting_find("client_tls_sslmode")->words[TLS_VERIFY_FULL], "verify-full");
	assert_string_equal(setting_load_balance_name(LOAD_BALANCE_DISABLE), "disable");
}

static void strings(void **state)
{
	struct fixture *f = *state;
	char text[] = "copied";

	assert_int_equal(parse(f, "auth_file", text), 0);
	text[0] = 'X';
	assert_string_equal(f->s.auth_file, "copied");
	shows(f, "auth_user", "", "");
	shows(f, "auth_dbname", "other", "other");
	refuses(f, "auth_dbname", "pgbouncer");
	assert_non_null(strstr(f->err.text,
	    "cannot use the reserved \"pgbouncer\" database as an auth_dbname"));
}

static void unset_number_differs_from_zero(void **state)
{
	struct fixture *f = *state;
	const struct setting *verbose = setting_find("verbose");
	struct settings other;
	char out[64];

	settings_defaults(&other);
	shows(f, "verbose", "0", "0");
	assert_int_equal(f->s.verbose, 0);
	assert_false(setting_is_equal(verbose, &f->s, &other));
	setting_copy(verbose, &other, &f->s);
	assert_true(setting_is_equal(verbose, &f->s, &other));
	assert_string_equal(setting_print(verbose, &other, out, sizeof(out)), "0");
}

static void copies_and_compares(void **state)
{
	struct fixture *f = *state;
	const struct setting *row;
	struct settings copy;

	parse(f, "auth_file", "x");
	parse(f, "query_timeout", "7");
	settings_dup(&copy, &f->s, f->arena);
	assert_ptr_not_equal(copy.auth_file, f->s.auth_file);
	for (size_t i = 0; (row = setting_at(i)); i++)
		assert_true(setting_is_equal(row, &copy, &f->s));
	parse(f, "auth_file", "y");
	parse(f, "query_timeout", "7.5");
	assert_false(setting_is_equal(setting_find("auth_file"), &copy, &f->s));
	assert_false(setting_is_equal(setting_find("query_timeout"), &copy, &f->s));
	setting_copy(setting_find("auth_file"), &copy, &f->s);
	assert_ptr_equal(copy.auth_file, f->s.auth_file);
}

static void taken_but_told(struct fixture *f, const char *name, const char *text)
{
	f->err.text[0] = '\0';
	assert_int_equal(parse(f, name, text), 1);
	assert_string_not_equal(f->err.text, "");
}

static void values_that_are_hardly_meant(void **state)
{
	struct fixture *f = *state;

	taken_but_told(f, "unix_socket_mode", "700");
	assert_int_equal(f->s.unix_socket_mode, 700);
	assert_string_equal(f->err.text,
	    "700 is a decimal number here, mode 01274: write 0700 if that is meant");
	assert_int_equal(parse(f, "unix_socket_mode", "0700"), 0);
	assert_int_equal(parse(f, "unix_socket_mode", "0x1c0"), 0);
	assert_int_equal(parse(f, "unix_socket_mode", "0"), 0);
	taken_but_told(f, "syslog_facility", "local8");
	assert_non_null(strstr(f->err.text, "there is no facility \"local8\""));
	assert_int_equal(parse(f, "syslog_facility", "local7"), 0);
	assert_int_equal(parse(f, "syslog_facility", ""), 0);
}

static void tls_settings_together(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(settings_check_tls(&f->s, &f->err), 0);
	parse(f, "auth_type", "cert");
	assert_int_equal(settings_check_tls(&f->s, &f->err), -1);
	assert_string_equal(f->err.text,
	    "auth_type=cert requires client_tls_sslmode=SSLMODE_VERIFY_FULL");
	parse(f, "client_tls_sslmode", "verify-full");
	assert_int_equal(settings_check_tls(&f->s, &f->err), -1);
	assert_string_equal(f->err.text, "auth_type=cert requires client_tls_ca_file");
	parse(f, "client_tls_ca_file", "ca.pem");
	assert_int_equal(settings_check_tls(&f->s, &f->err), -1);
	assert_string_equal(f->err.text,
	    "To allow TLS connections from clients, client_tls_key_file and "
	    "client_tls_cert_file must be set.");
	parse(f, "client_tls_key_file", "key.pem");
	parse(f, "client_tls_cert_file", "cert.pem");
	assert_int_equal(settings_check_tls(&f->s, &f->err), 0);
	parse(f, "auth_type", "md5");
	parse(f, "client_tls_ca_file", "");
	assert_int_equal(settings_check_tls(&f->s, &f->err), -1);
	assert_string_equal(
	    f->err.text, "client_tls_sslmode requires client_tls_ca_file");
}

static void no_warning(void *ctx, const char *where, const char *text)
{
	(void)ctx;
	fail_msg("%s: %s", where, text);
}

static struct config *load(const char *text)
{
	char path[] = "/tmp/test-settings-XXXXXX";
	int fd = mkstemp(path);
	struct config *c;
	struct err err;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	c = config_load(path, NULL, NULL, no_warning, NULL, &err);
	unlink(path);
	assert_non_null(c);
	return c;
}

/* The sample file loads, also with every commented default switched on, and then gives
 * the defaults. */
static void sample_of_settings_is_valid(void **state)
{
	struct fixture *f = *state;
	const struct setting *row;
	char *text = text_read_file("etc/pgbouncer.ini", NULL, &f->err);
	struct config *c;

	assert_non_null(text);
	c = load(text);
	assert_int_equal(c->settings.global.pool_mode, POOL_MODE_TRANSACTION);
	config_unref(&c);

	for (char *p = strstr(text, "[pgbouncer]"); (p = strstr(p, "\n;")); p++)
		p[1] = ' ';
	/* the active lines would come later, so they are taken out */
	for (char *p = text; (p = strstr(p, "\n")); p++)
		if (p[1] >= 'a' && p[1] <= 'z')
			p[1] = '#';
	c = load(text);
	for (size_t i = 0; (row = setting_at(i)); i++)
		if (setting_default(row))
			assert_true(setting_is_equal(row, &c->settings, &f->s));
	config_unref(&c);
	mem_free(text);
}

/* The examples of the reference are values of their settings. */
static void examples_are_valid(void **state)
{
	struct fixture *f = *state;

#define SETTING_TEXT(name, example, link, details) parse(f, #name, example);
#include "../../../doc/in/setting_texts.def"
#undef SETTING_TEXT
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(order_is_that_of_show_config),
	    TEST(restart_only_and_unset),
	    TEST(defaults),
	    TEST(numbers),
	    TEST(times),
	    TEST(enums),
	    TEST(strings),
	    TEST(unset_number_differs_from_zero),
	    TEST(copies_and_compares),
	    TEST(values_that_are_hardly_meant),
	    TEST(tls_settings_together),
	    TEST(sample_of_settings_is_valid),
	    TEST(examples_are_valid),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
