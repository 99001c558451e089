/*
 * The proof of a login.
 */
#ifndef TEST_SIM_SIM_LOGIN_H
#define TEST_SIM_SIM_LOGIN_H

#include "auth/scram.h"
#include "sim.h"

struct sim_proof {
	char user[16], password[40];
	bool is_wrong, has_scram;
	struct scram_client scram;
};

/* is_wrong: with a wrong password. */
void sim_proof_begin(struct sim_proof *p, const char *user, bool is_wrong);
void sim_proof_done(struct sim_proof *p);
/* Answers a demand of the pooler.  True: who it is has been proven. */
bool sim_proof_answer(
    struct sim_proof *p, const uint8_t *body, size_t len, struct buf *out);

#endif
