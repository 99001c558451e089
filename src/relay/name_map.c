#include "relay/name_map.h"

#include <string.h>

enum { SHORT_SIZE = 32 };

struct slab *name_map_slab(struct mem *mem)
{
	return slab_new(mem, "name_map_cache", sizeof(struct name_map) + SHORT_SIZE);
}

struct name_map *name_map_new(
    struct server *server, uint32_t tag, const char *ours, const char *theirs)
{
	size_t size = strlen(theirs) + 1;
	bool is_short = size <= SHORT_SIZE;
	struct name_map *a = is_short ? slab_take(server->conn.site->name_map_slab)
				      : mem_try(sizeof(*a) + size);

	if (!a)
		return NULL;
	*a = (struct name_map){.tag = tag, .is_short = is_short};
	memcpy(a->ours, ours, strlen(ours) + 1);
	memcpy(a->theirs, theirs, size);
	list_push_back(&server->link.name_maps, &a->node);
	return a;
}

int name_map_send(struct server *server, const struct message *m, const char *name,
    uint32_t tag, size_t *rest)
{
	uint8_t room[128];
	struct buf buf;

	buf_init_in(&buf, 0, room, sizeof(room));
	prepared_rename(m->bytes, m->have, m->size, name, &buf, rest);
	conn_send(&server->conn, &buf);
	buf_done(&buf);
	return server_owe(server, m->type, OWED_CLIENT, tag);
}

int name_map_send_back(struct server *server, const struct message *m, const char *ours,
    const char *theirs, size_t *rest)
{
	uint32_t tag = server_next_tag(server);

	return name_map_new(server, tag, ours, theirs)
		   ? name_map_send(server, m, ours, tag, rest)
		   : -1;
}

struct name_map *name_map_find(const struct server *server, uint32_t tag)
{
	struct name_map *a;

	/* answers come in the order of tags, so the first alias is the right one or has
	 * a later tag; the order is in 31 bits, without SERVER_TAG_UNNAMED */
	if (tag)
		list_for (a, &server->link.name_maps, node) {
			if (a->tag == tag)
				return a;
			if ((int32_t)((a->tag - tag) << 1) > 0)
				break;
		}
	return NULL;
}

static void end(struct server *server, struct name_map *a)
{
	list_remove(&server->link.name_maps, &a->node);
	prepared_unref(a->text);
	prepared_unref(a->parsed);
	if (a->is_short)
		slab_put(server->conn.site->name_map_slab, a);
	else
		mem_free(a);
}

void name_map_end(struct server *server, uint32_t tag)
{
	struct name_map *a = name_map_find(server, tag);

	if (a)
		end(server, a);
}

void name_map_clear_all(struct server *server)
{
	struct node *n;

	while ((n = list_first(&server->link.name_maps)))
		end(server, container_of(n, struct name_map, node));
}
