/*
 * Answers in which the pooler's name of a statement becomes the client's.  The tags of
 * the ledger say which answer it is.
 */
#include "relay/alias.h"

#include <string.h>

enum { SHORT_SIZE = 32 };

struct slab *alias_slab(struct mem *mem)
{
	return slab_new(mem, "alias_cache", sizeof(struct alias) + SHORT_SIZE);
}

struct alias *alias_new(
    struct server *server, uint32_t tag, const char *ours, const char *theirs)
{
	size_t size = strlen(theirs) + 1;
	bool is_short = size <= SHORT_SIZE;
	struct alias *a = is_short ? slab_take(server->conn.site->alias_slab)
				   : mem_try(sizeof(*a) + size);

	if (!a)
		return NULL;
	*a = (struct alias){.tag = tag, .is_short = is_short};
	memcpy(a->ours, ours, strlen(ours) + 1);
	memcpy(a->theirs, theirs, size);
	list_push_back(&server->link.aliases, &a->node);
	return a;
}

int alias_send(struct server *server, const struct message *m, const char *name,
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

int alias_send_back(struct server *server, const struct message *m, const char *ours,
    const char *theirs, size_t *rest)
{
	uint32_t tag = server_next_tag(server);

	return alias_new(server, tag, ours, theirs)
		   ? alias_send(server, m, ours, tag, rest)
		   : -1;
}

struct alias *alias_find(const struct server *server, uint32_t tag)
{
	struct alias *a;

	/* answers come in the order of tags, so the first alias is the right one or has
	 * a later tag; the order is in 31 bits, without SERVER_TAG_UNNAMED */
	if (tag)
		list_for (a, &server->link.aliases, node) {
			if (a->tag == tag)
				return a;
			if ((int32_t)((a->tag - tag) << 1) > 0)
				break;
		}
	return NULL;
}

static void end(struct server *server, struct alias *a)
{
	list_remove(&server->link.aliases, &a->node);
	prepared_unref(a->text);
	prepared_unref(a->parsed);
	if (a->is_short)
		slab_put(server->conn.site->alias_slab, a);
	else
		mem_free(a);
}

void alias_end(struct server *server, uint32_t tag)
{
	struct alias *a = alias_find(server, tag);

	if (a)
		end(server, a);
}

void alias_clear_all(struct server *server)
{
	struct node *n;

	while ((n = list_first(&server->link.aliases)))
		end(server, container_of(n, struct alias, node));
}
