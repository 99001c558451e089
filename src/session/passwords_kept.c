/*
 * The table of passwords.
 */
#include "session/passwords_kept.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"

struct kept_password *passwords_kept_find(
    struct passwords_kept *kept, const struct password_request *request)
{
	struct kept_password *k;
	struct buf key;

	buf_init_sure(&key);
	buf_put_str(&key, request->file ? request->file : "");
	buf_put_str(&key, request->command ? request->command : "");
	buf_put_str(&key, request->host);
	buf_put_str(&key, request->user);
	buf_put_str(&key, request->database);
	buf_put_u32(&key, (uint32_t)request->port);
	k = map_get(kept->table, key.bytes, key.len);
	if (k) {
		buf_done(&key);
		return k;
	}
	k = mem_zero(sizeof(*k));
	k->key = key;
	password_request_copy(&k->request, request);
	map_put(kept->table, k->key.bytes, k->key.len, k);
	return k;
}

void passwords_kept_drop(struct passwords_kept *kept, struct kept_password *k)
{
	map_del(kept->table, k->key.bytes, k->key.len);
	if (k->is_running)
		list_remove(&kept->running, &k->running_node);
	buf_done(&k->key);
	password_request_done(&k->request);
	mem_free_secret(k->password);
	mem_free(k->failure);
	mem_free(k);
}

bool passwords_kept_is_fresh(const struct kept_password *k, uint64_t now_us)
{
	return k->password && !k->is_refused && now_us < k->fetched_us + k->lifetime_us;
}

bool passwords_kept_is_busy(
    const struct passwords_kept *kept, const struct kept_password *k)
{
	const struct kept_password *other;

	list_for (other, &kept->running, running_node)
		if (other->request.port == k->request.port &&
		    strcmp(other->request.host, k->request.host) == 0 &&
		    strcmp(other->request.user, k->request.user) == 0)
			return true;
	return false;
}

struct passwords_kept *passwords_kept_new(void)
{
	struct passwords_kept *kept = mem_zero(sizeof(*kept));

	pthread_mutex_init(&kept->lock, NULL);
	kept->table = map_new();
	list_init(&kept->running);
	return kept;
}

void passwords_kept_free(struct passwords_kept **keptp)
{
	struct passwords_kept *kept = *keptp;
	struct kept_password *k;
	size_t at = 0;

	*keptp = NULL;
	while ((k = map_next(kept->table, &at)))
		passwords_kept_drop(kept, k);
	map_free(&kept->table);
	pthread_mutex_destroy(&kept->lock);
	mem_free(kept);
}
