#include "session/tls_setup.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "conf/entry.h"
#include "conf/scope.h"
#include "conf/setting_row.h"

/* A file as it was when it was read. */
struct tls_file {
	struct node node;
	struct timespec changed;
	ino_t inode;
	off_t size;
	const char *setting; /* names it */
	bool has_dates;      /* it has certificates */
	struct tls_dates dates;
	char path[];
};

/* A context is shared by all databases with the same files and TLS settings. */
struct shared_context {
	char *key; /* owned */
	struct tls_context *context;
};

struct tls_setup {
	/* owned */
	struct tls_context *client;
	struct map *servers; /* struct shared_context by its key */
	struct list files;
	struct config *config; /* one reference: strings of the settings */
	pthread_mutex_t lock;  /* for servers and files: workers share the setup */
	atomic_uint refs;
};

static const struct settings *settings_of(const struct tls_setup *setup)
{
	return &setup->config->settings;
}

/* ---- files ---- */

static void look_at(const char *path, struct tls_file *file)
{
	struct stat st;

	memset(&file->changed, 0, sizeof(file->changed));
	file->inode = 0;
	file->size = -1;
	if (stat(path, &st) < 0)
		return;
	file->changed = st.st_mtim;
	file->inode = st.st_ino;
	file->size = st.st_size;
}

/* Returns the file, which is new or known; NULL: path names none. */
static struct tls_file *note_file(
    struct tls_setup *setup, const char *setting, const char *path)
{
	struct tls_file *file;

	if (!path || !*path)
		return NULL;
	list_for (file, &setup->files, node)
		if (strcmp(file->path, path) == 0)
			return file;
	file = mem_zero(sizeof(*file) + strlen(path) + 1);
	strcpy(file->path, path);
	file->setting = setting;
	look_at(path, file);
	list_push_back(&setup->files, &file->node);
	return file;
}

static void note_dates(struct tls_file *file, bool is_authorities)
{
	if (file && !file->has_dates)
		file->has_dates =
		    tls_dates_read(file->path, is_authorities, &file->dates) == 0;
}

void tls_setup_each_dates(struct tls_setup *setup, tls_setup_dates_fn *fn, void *ctx)
{
	const struct tls_file *file;

	pthread_mutex_lock(&setup->lock);
	list_for (file, &setup->files, node)
		if (file->has_dates)
			fn(ctx, file->setting, file->path, &file->dates);
	pthread_mutex_unlock(&setup->lock);
}

static bool is_stale(const struct tls_file *file)
{
	struct tls_file now;

	look_at(file->path, &now);
	return now.inode != file->inode || now.size != file->size ||
	       now.changed.tv_sec != file->changed.tv_sec ||
	       now.changed.tv_nsec != file->changed.tv_nsec;
}

bool tls_setup_looks_stale(struct tls_setup *setup)
{
	const struct tls_file *file;
	bool is_any = false;

	pthread_mutex_lock(&setup->lock);
	list_for (file, &setup->files, node)
		is_any = is_any || is_stale(file);
	pthread_mutex_unlock(&setup->lock);
	return is_any;
}

void tls_setup_touch(struct tls_setup *setup)
{
	struct tls_file *file;

	pthread_mutex_lock(&setup->lock);
	list_for (file, &setup->files, node)
		look_at(file->path, file);
	pthread_mutex_unlock(&setup->lock);
}

/* The state of files is noted before they are read, so that one which changes meanwhile
 * is read again. */
static struct tls_context *new_context(
    struct tls_setup *setup, const struct tls_config *config, struct err *err)
{
	bool is_client = config->is_server;
	struct tls_file *cert = note_file(setup,
	    is_client ? "client_tls_cert_file" : "server_tls_cert_file",
	    config->cert_file);
	note_file(setup, is_client ? "client_tls_key_file" : "server_tls_key_file",
	    config->key_file);
	struct tls_file *authorities = note_file(setup,
	    is_client ? "client_tls_ca_file" : "server_tls_ca_file", config->ca_file);
	note_file(setup, is_client ? "client_tls_crl_file" : "server_tls_crl_file",
	    config->crl_file);
	note_dates(cert, false);
	note_dates(authorities, true);
	return tls_context_new(config, err);
}

/* ---- clients ---- */

static int load_client(struct tls_setup *setup, struct err *err)
{
	const struct settings *s = settings_of(setup);
	struct tls_config config = {
	    .is_server = true,
	    .cert_file = s->client_tls_cert_file,
	    .key_file = s->client_tls_key_file,
	    .ca_file = s->client_tls_ca_file,
	    .crl_file = s->client_tls_crl_file,
	    .protocols = s->client_tls_protocols,
	    .ciphers = s->client_tls_ciphers,
	    .tls13_ciphers = s->client_tls13_ciphers,
	    .dheparams = s->client_tls_dheparams,
	    .ecdhcurve = s->client_tls_ecdhcurve,
	    .peer_check = s->client_tls_sslmode >= TLS_VERIFY_CA ? TLS_PEER_REQUIRED
								 : TLS_PEER_IF_SHOWN,
	    .has_tickets = true,
	};

	if (settings_check_tls(s, err) < 0)
		return -1;
	if (s->client_tls_sslmode == TLS_DISABLE)
		return 0;
	setup->client = new_context(setup, &config, err);
	return setup->client ? 0 : -1;
}

/* ---- servers ---- */

static struct scope scope_of(
    const struct tls_setup *setup, const struct database_config *db)
{
	return (struct scope){.database = &db->own, .settings = settings_of(setup)};
}

static enum tls_mode server_mode(
    const struct tls_setup *setup, const struct database_config *db)
{
	return (enum tls_mode)scope_server_tls_sslmode(scope_of(setup, db));
}

static char *context_key(const struct tls_config *config)
{
	const char *files[] = {
	    config->cert_file, config->key_file, config->ca_file, config->crl_file};
	struct buf buf;
	char *key;

	buf_init_sure(&buf);
	buf_printf(&buf, "%d", config->peer_check);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		buf_printf(&buf, "\n%s", files[i] ? files[i] : "");
	key = mem_strdup(buf_text(&buf));
	buf_done(&buf);
	return key;
}

static struct tls_context *find_or_make(
    struct tls_setup *setup, const struct database_config *db, struct err *err)
{
	struct shared_context *shared;
	struct tls_context *context;
	struct tls_config config;
	char *key;

	/* The TLS settings of a database's servers.  An entry has both certificate and
	 * key or neither, so that an entry's key is never used with the global
	 * certificate. */
	struct scope s = scope_of(setup, db);
	config = (struct tls_config){
	    .cert_file = scope_server_tls_cert_file(s),
	    .key_file = scope_server_tls_key_file(s),
	    .ca_file = scope_server_tls_ca_file(s),
	    .crl_file = scope_server_tls_crl_file(s),
	    .protocols = scope_server_tls_protocols(s),
	    .ciphers = scope_server_tls_ciphers(s),
	    .tls13_ciphers = scope_server_tls13_ciphers(s),
	    .peer_check = server_mode(setup, db) >= TLS_VERIFY_CA ? TLS_PEER_REQUIRED
								  : TLS_PEER_UNCHECKED,
	};
	key = context_key(&config);
	shared = map_get_str(setup->servers, key);
	if (shared) {
		mem_free(key);
		return shared->context;
	}
	context = new_context(setup, &config, err);
	if (!context) {
		mem_free(key);
		return NULL;
	}
	shared = mem_zero(sizeof(*shared));
	shared->key = key;
	shared->context = context;
	map_put_str(setup->servers, key, shared);
	return context;
}

int tls_setup_server(struct tls_setup *setup, const struct database_config *db,
    struct server_tls *out, struct err *err)
{
	*out = (struct server_tls){
	    .mode = server_mode(setup, db),
	    .start = (enum tls_start)db->sslnegotiation,
	};
	if (out->start == TLS_START_DIRECT && out->mode < TLS_REQUIRE)
		return err_set(err,
		    "database \"%.100s\": sslnegotiation=direct needs sslmode=require, "
		    "verify-ca or verify-full",
		    db->name);
	if (out->mode == TLS_DISABLE)
		return 0;
	pthread_mutex_lock(&setup->lock);
	out->context = find_or_make(setup, db, err);
	pthread_mutex_unlock(&setup->lock);
	return out->context ? 0 : -1;
}

static void wipe(const char *text)
{
	if (text)
		mem_wipe((char *)(uintptr_t)text, strlen(text));
}

static void put_place(const struct database_config *db, struct err *err)
{
	if (db->file)
		err_prefix(err, "%s:%u: ", db->file, db->line);
}

/* Makes the contexts of databases that will be made from the `*` entry.  An entry that
 * cannot be parsed makes none. */
static int load_template(struct tls_setup *setup, struct err *err)
{
	const struct database_config *template = setup->config->template;
	struct database_config made;
	struct server_tls tls;
	struct arena *arena;
	struct err ignored;
	int rc = 0;

	if (!template)
		return 0;
	arena = arena_new();
	if (entry_parse_connstr(
		&made, template->name, template->connstr, arena, &ignored) == 0) {
		rc = tls_setup_server(setup, &made, &tls, err);
		wipe(made.password);
		wipe(made.connstr);
	}
	arena_free(&arena);
	if (rc < 0)
		put_place(template, err);
	return rc;
}

static int load_servers(struct tls_setup *setup, struct err *err)
{
	const struct config *config = setup->config;
	const struct database_config nameless = {.name = ""};
	struct server_tls tls;

	/* the global settings must be valid even if every entry has its own */
	if (tls_setup_server(setup, &nameless, &tls, err) < 0)
		return -1;
	for (size_t i = 0; i < config->database_count; i++)
		if (tls_setup_server(setup, &config->databases[i], &tls, err) < 0) {
			put_place(&config->databases[i], err);
			return -1;
		}
	return load_template(setup, err);
}

/* ---- the setup ---- */

struct tls_setup *tls_setup_new(const struct config *config, struct err *err)
{
	struct tls_setup *setup = mem_zero(sizeof(*setup));

	setup->config = config_ref((struct config *)(uintptr_t)config);
	setup->servers = map_new();
	setup->refs = 1;
	pthread_mutex_init(&setup->lock, NULL);
	list_init(&setup->files);
	if (load_client(setup, err) < 0 || load_servers(setup, err) < 0)
		tls_setup_unref(&setup);
	return setup;
}

struct tls_setup *tls_setup_ref(struct tls_setup *setup)
{
	if (setup)
		atomic_fetch_add(&setup->refs, 1);
	return setup;
}

void tls_setup_unref(struct tls_setup **setup_p)
{
	struct tls_setup *setup = *setup_p;
	struct shared_context *shared;
	struct tls_file *file, *next;
	size_t at = 0;

	*setup_p = NULL;
	if (!setup || atomic_fetch_sub(&setup->refs, 1) > 1)
		return;
	pthread_mutex_destroy(&setup->lock);
	while ((shared = map_next(setup->servers, &at))) {
		tls_context_unref(&shared->context);
		mem_free(shared->key);
		mem_free(shared);
	}
	map_free(&setup->servers);
	list_for_safe (file, next, &setup->files, node)
		mem_free(file);
	tls_context_unref(&setup->client);
	config_unref(&setup->config);
	mem_free(setup);
}

enum tls_mode tls_setup_client_mode(const struct tls_setup *setup)
{
	return (enum tls_mode)settings_of(setup)->client_tls_sslmode;
}

struct tls_context *tls_setup_client(const struct tls_setup *setup)
{
	return setup->client;
}

bool tls_setup_is_obsoleting(const struct tls_setup *old, const struct tls_setup *new)
{
	return settings_are_different(settings_of(old), settings_of(new), OBSOLETES);
}
