#include "wire/reported_names.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* PostgreSQL has no longer names; these are parts of commands. */
enum { NAME_MOST = 63 };

struct reported_names {
	pthread_mutex_t lock; /* for the references, and for who adds a name */
	unsigned refs;
	atomic_size_t count;
	char names[REPORTED_NAMES_MOST][NAME_MOST + 1];
};

struct reported_names *reported_names_new(void)
{
	struct reported_names *r = mem_zero(sizeof(*r));

	pthread_mutex_init(&r->lock, NULL);
	atomic_init(&r->count, 0);
	r->refs = 1;
	return r;
}

struct reported_names *reported_names_ref(struct reported_names *r)
{
	pthread_mutex_lock(&r->lock);
	r->refs++;
	pthread_mutex_unlock(&r->lock);
	return r;
}

void reported_names_unref(struct reported_names **rp)
{
	struct reported_names *r = *rp;
	unsigned left;

	*rp = NULL;
	pthread_mutex_lock(&r->lock);
	left = --r->refs;
	pthread_mutex_unlock(&r->lock);
	if (left)
		return;
	pthread_mutex_destroy(&r->lock);
	mem_free(r);
}

/* What PostgreSQL reports beside and no SET changes, and what is no name. */
static bool may_be_set(const char *name)
{
	static const char *const fixed[] = {"server_version", "server_encoding",
	    "integer_datetimes", "is_superuser", "session_authorization"};
	static const char first[] = "abcdefghijklmnopqrstuvwxyz_"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
			  others[] = ".0123456789";
	size_t len = strlen(name), of_name = 0;

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (text_equal_nocase(name, fixed[i]))
			return false;
	while (name[of_name] && (strchr(first, name[of_name]) ||
				    (of_name && strchr(others, name[of_name]))))
		of_name++;
	return len > 0 && len == of_name && len <= NAME_MOST;
}

int reported_names_find(struct reported_names *r, const char *name)
{
	size_t count = atomic_load_explicit(&r->count, memory_order_acquire);

	for (size_t i = 0; i < count; i++)
		if (text_equal_nocase(r->names[i], name))
			return (int)i;
	return -1;
}

int reported_names_add(struct reported_names *r, const char *name)
{
	int place = reported_names_find(r, name);

	if (place >= 0 || !may_be_set(name))
		return place;
	pthread_mutex_lock(&r->lock);
	place = reported_names_find(r, name);
	size_t count = atomic_load(&r->count);
	if (place < 0 && count < REPORTED_NAMES_MOST) {
		memcpy(r->names[count], name, strlen(name) + 1);
		atomic_store_explicit(&r->count, count + 1, memory_order_release);
		place = (int)count;
	}
	pthread_mutex_unlock(&r->lock);
	return place;
}

const char *reported_names_get(struct reported_names *r, size_t i)
{
	return i < atomic_load_explicit(&r->count, memory_order_acquire) ? r->names[i]
									 : "";
}
