/*
 * Answers in which the pooler's name of a statement becomes the client's.  The tags of
 * the ledger say which answer it is.
 */
#include "relay/alias.h"

#include <string.h>

struct alias *alias_new(
    struct server *server, uint32_t tag, const char *ours, const char *theirs)
{
	struct alias *a = mem_try(sizeof(*a) + strlen(theirs) + 1);

	if (!a)
		return NULL;
	*a = (struct alias){.tag = tag};
	memcpy(a->ours, ours, strlen(ours) + 1);
	memcpy(a->theirs, theirs, strlen(theirs) + 1);
	list_push_back(&server->link.aliases, &a->node);
	return a;
}

struct alias *alias_find(const struct server *server, uint32_t tag)
{
	struct alias *a;

	/* answers come in the order of tags, so the first alias is the right one or has
	 * a later tag */
	if (tag)
		list_for (a, &server->link.aliases, node) {
			if (a->tag == tag)
				return a;
			if ((int32_t)(a->tag - tag) > 0)
				break;
		}
	return NULL;
}

static void end(struct server *server, struct alias *a)
{
	list_remove(&server->link.aliases, &a->node);
	prepared_unref(a->text);
	prepared_unref(a->parsed);
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
