/*
 * Makes and frees the part of struct site that belongs to the login floor.
 */
#include "login/login_floor.h"

#include "auth/digest.h"
#include "auth/secret.h"
#include "login/authquery.h"
#include "login/login.h"
#include "login/verifiers.h"

void login_floor_init(struct site *site)
{
	login_init(site);
	authquery_init(site);
	verifiers_init(site);
	site->no_secret = mem_zero(sizeof(*site->no_secret));
	secret_init(site->no_secret, "");
	site->sha256 = digest_new("SHA256");
	site->md5 = digest_new("MD5");
}

void login_floor_done(struct site *site)
{
	verifiers_done(site);
	authquery_done(site);
	slab_free(&site->login_slab);
	secret_done(site->no_secret);
	mem_free(site->no_secret);
	digest_free(&site->sha256);
	digest_free(&site->md5);
}
