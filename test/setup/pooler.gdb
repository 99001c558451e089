# For gdb on a debug build (make VARIANT=debug):
#
#   gdb -x test/setup/pooler.gdb -p PID
#   (gdb) pooler-site        finds the site, from any stack of the running process
#   (gdb) pooler-clients     every client: its phase, user, database, and its server
#   (gdb) pooler-pools       every pool: its clients, waiting clients and servers
#
# $site may also be set by hand: set $site = &d.site (in daemon_run).

set print pretty on
set print array on
set pagination off

define pooler-site
  frame function daemon_run
  set $site = &d.site
end
document pooler-site
Sets $site, from a process that runs.
end

define pooler-clients
  set $at = $site->clients.head.next
  while $at != &$site->clients.head
    set $client = (struct client *) ((char *) $at - (unsigned long) &((struct client *) 0)->site_node)
    printf "C-%p id=%lu phase=%s", $client, $client->conn.id, $client->conn.ops->name
    if $client->user != 0
      printf " user=%s", $client->user->name
    end
    if $client->database != 0
      printf " database=%s", $client->database->name
    end
    printf " seat=%p parked=%d paused=%d\n", $client->request.ask.seat, $client->conn.is_parked, $client->conn.is_paused
    set $at = $at->next
  end
end
document pooler-clients
Lists the clients that have logged in.  Needs $site.
end

define pooler-pools
  set $at = $site->catalog->pool_list.head.next
  while $at != &$site->catalog->pool_list.head
    set $pool = (struct pool *) ((char *) $at - (unsigned long) &((struct pool *) 0)->node)
    printf "%s/%s clients=%lu waiting=%lu idle=%lu active=%lu login=%lu\n", $pool->database->name, $pool->user->name, $pool->clients.count, $pool->waiting.count, $pool->seats[SEAT_IDLE].count, $pool->seats[SEAT_ACTIVE].count, $pool->seats[SEAT_LOGIN].count
    set $at = $at->next
  end
end
document pooler-pools
Lists the pools with the counts of SHOW POOLS.  Needs $site.
end
