/*
 * Configurations, which the seed chooses.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim_tls.h"

static const char path[] = "pooler.ini", users[] = "users.txt";
static uint64_t first_rng;

const char *config_path(void)
{
	return path;
}

const char *config_auth_type(void)
{
	static const char *const types[] = {"trust", "trust", "trust", "scram-sha-256",
	    "scram-sha-256", "md5", "plain"};
	uint64_t rng = rng_for("auth_type", 0);

	return types[draw_below(&rng, 7)];
}

/* Files have the simulated time. */
static void set_time(const char *file)
{
	const uint64_t us = UINT64_C(1767225600000000) + world.now_us;
	const struct timespec at = {
	    .tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000 * 1000)};
	const struct timespec times[2] = {at, at};

	(void)utimensat(AT_FDCWD, file, times, 0);
}

static void write_users(void)
{
	FILE *f = fopen(users, "w");

	/* u3 is known to servers only */
	fprintf(f, "\"u0\" \"password of u0\"\n\"u1\" \"password of u1\"\n"
		   "\"u2\" \"password of u2\"\n\"adm\" \"password of adm\"\n");
	fclose(f);
	set_time(users);
}

static void maybe(FILE *f, uint64_t *rng, unsigned per_mille, const char *name,
    unsigned a, unsigned b)
{
	uint64_t value = draw_between(rng, a, b);

	if (draw_chance(rng, per_mille))
		fprintf(f, "%s = %llu\n", name, (unsigned long long)value);
}

static void write_config(uint64_t *rng, bool is_broken)
{
	FILE *f = fopen(path, "w");
	bool has_extra = draw_chance(rng, 500);

	fprintf(f,
	    "[databases]\n"
	    "app = host=10.1.0.1 pool_mode=transaction auth_user=u0%s\n"
	    "sess = host=10.1.0.1 pool_mode=session pool_size=%u\n"
	    "stmt = host=10.1.0.2 pool_mode=statement%s\n"
	    "named = host=primary.sim pool_mode=transaction\n"
	    "both = host=10.1.0.1,10.1.0.2 pool_mode=transaction\n"
	    "kept = host=10.1.0.1 pool_mode=transaction session_state=keep "
	    "pool_size=%u\n",
	    draw_chance(rng, 500) ? " server_reset_query=''" : "",
	    (unsigned)draw_between(rng, 5, 12), sim_tls_database_options(),
	    (unsigned)draw_between(rng, 2, 6));
	if (has_extra)
		fprintf(f, "extra = host=10.1.0.2\n");
	fprintf(f,
	    "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = 6432\nunix_socket_dir "
	    "= .\n"
	    "auth_type = %s\nauth_file = %s\nadmin_users = adm\nio_engine = epoll\n"
	    "pidfile = pid\nlog_stats = 0\nquery_wait_timeout = 120\n"
	    "server_connect_timeout = 5\nscram_iterations = 16\n"
	    "client_login_timeout = 300\n",
	    config_auth_type(), users);
	fprintf(f, "workers = %u\n", world.options.workers);
	sim_tls_put_settings(f);
	maybe(f, rng, 800, "default_pool_size", 1, 6);
	maybe(f, rng, 300, "min_pool_size", 0, 2);
	maybe(f, rng, 300, "reserve_pool_size", 0, 2);
	maybe(f, rng, 300, "reserve_pool_timeout", 0, 3);
	maybe(f, rng, 200, "max_db_connections", 4, 12);
	maybe(f, rng, 200, "max_user_connections", 8, 20);
	maybe(f, rng, 100, "max_server_connections", 12, 30);
	maybe(f, rng, 700, "server_idle_timeout", 1, 60);
	maybe(f, rng, 500, "server_lifetime", 10, 600);
	maybe(f, rng, 500, "server_check_delay", 0, 20);
	maybe(f, rng, 300, "server_login_retry", 0, 5);
	maybe(f, rng, 300, "server_reset_query_always", 0, 1);
	maybe(f, rng, 500, "server_round_robin", 0, 1);
	maybe(f, rng, 500, "server_fast_close", 0, 1);
	maybe(f, rng, 700, "max_prepared_statements", 1, 20);
	maybe(f, rng, 300, "sbuf_loopcnt", 0, 5);
	maybe(f, rng, 300, "verbose", 0, 2);
	if (draw_chance(rng, 600))
		fprintf(f, "client_disconnect = cancel\n");
	maybe(f, rng, 300, "log_min_duration", 0, 1);
	maybe(f, rng, 300, "query_wait_notify", 0, 5);
	maybe(f, rng, 300, "dns_max_ttl", 1, 30);
	maybe(f, rng, 300, "pool_idle_timeout", 5, 60);
	maybe(f, rng, 300, "cancel_wait_timeout", 1, 20);
	maybe(f, rng, 500, "suspend_timeout", 1, 4);
	maybe(f, rng, 200, "stats_period", 5, 60);
	maybe(f, rng, 200, "host_hung_timeout", 1, 10);
	maybe(f, rng, 300, "auth_query_cache_time", 1, 60);
	maybe(f, rng, 300, "max_login_clients", 3, 10);
	maybe(f, rng, 400, "defer_begin", 0, 1);
	maybe(f, rng, 400, "prepare_unnamed", 1, 20);
	if (is_broken) {
		static const char *const faults[] = {"default_pool_size = many\n",
		    "[users]\nu0 = pool_mode=none\n", "auth_file = /nowhere\n",
		    "nonsense = 1\n", "[databases]\nbroken = host\n"};
		size_t i = draw_below(rng, 5);
		/* a start goes on without users, and nobody could repair anything */
		if (i == 2 && world.options.faults & FAULT_TAKEOVER)
			i = 0;
		fputs(faults[i], f);
	}
	fclose(f);
	set_time(path);
}

void config_write_first(void)
{
	write_users();
	sim_tls_touch(set_time);
	first_rng = rng_for("configuration", 0);
	config_write_calm();
}

void config_write_random(uint64_t *rng)
{
	if (draw_chance(rng, 300))
		sim_tls_touch(set_time);
	write_config(rng, draw_chance(rng, 300));
}

/* The first one again. */
void config_write_calm(void)
{
	uint64_t rng = first_rng;

	write_config(&rng, false);
}
