"""Public functions begin with the name of their file, or with a struct of its header.

src/pool/pool_next.c defines functions that begin with pool_, src/conf/settings.c such that
begin with settings_ or setting_, and src/base/mem.c such that begin with mem_, or with arena_
for its struct arena.
"""
import os
import re

import symbols
import tree

# Those that do not, wherever they are: rename or move one when you change it, and add none.
EXCEPTIONS = set("""
auth_type_name catalog_adopt catalog_housekeeping catalog_note_time catalog_snapshot_stats
channel_binding_name commands_describe config_check config_load consoles_free consoles_new
courtesy_put database_auth_dbname database_auth_query database_auth_query_cache_time
database_auth_user database_channel_binding database_config_is_obsoleting database_config_parse
database_entry_parse database_key_at database_max_client_connections database_max_connections
database_min_pool_size database_note_use database_pool_size database_reserve_pool_size
database_scope database_server_lifetime fds_may_receive fds_send load_balance_name login_scope
secret_md5_of_password net_room peer_entry_parse peer_key_at pool_connected_count pool_drop_secret
pool_has_check pool_is_closing_for_pause pool_is_empty pool_is_oversized pool_is_paused
pool_is_undersized pool_kick pool_lifetime_spacing pool_login_retry pool_may_be_freed
pool_min_size pool_mode pool_mode_name pool_note_use pool_offer_room pool_reserve_size
pool_scope pool_server_count pool_server_scram_cache pool_server_secret pool_session_state
pool_settings pool_size pool_take_secret pool_want_room query_wait_timeout session_state_name
settings_describe tls_mode_name tls_start_name try_alloc user_client_idle_timeout
user_entry_parse user_idle_transaction_timeout user_key_at user_max_client_connections
user_max_connections user_query_timeout user_scope user_transaction_timeout views_describe
""".split())


def beginnings(root, file):
    """The words that functions of src/FILE.c may begin with: the file's name, its first word,
    either in the singular, and the structs that the file's own header declares."""
    base = os.path.basename(file)
    found = {base, base.split("_")[0]}
    found |= {word[:-1] for word in found if word.endswith("s")}
    header = "include/%s.h" % file
    if os.path.isfile(os.path.join(root, header)):
        found |= set(re.findall(r"^struct (\w+)(?: \{|;)", tree.text(root, header), re.M))
    return found


def is_named(function, words):
    return any(function == word or function.startswith(word + "_") for word in words)


def check(options):
    problems = []
    for path in symbols.objects(options):
        file = os.path.relpath(path, options.objects)[:-len(".o")]
        words = beginnings(options.root, file)
        problems += ["src/%s.c: %s does not carry its file's name" % (file, name)
                     for name, kind, _ in symbols.symbols(options.nm, path)
                     if kind == "T" and name != "main" and name not in EXCEPTIONS
                     and not is_named(name, words)]
    return problems
