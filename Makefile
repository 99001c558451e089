# One Makefile for everything; `make help` lists what it can do.
#
# Nothing is written outside $(BUILD) except by `make docs`, `make format` and
# `make install`.  configure runs by itself when it is due; pass it options with
# CONFIGURE_FLAGS="--with-pam --without-ldap --prefix=/usr".

BUILD   ?= build
VARIANT ?= release
OUT     ?= $(BUILD)/$(VARIANT)
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)

MAKEFLAGS += --no-builtin-rules --no-print-directory
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# ---------------------------------------------------------------- configure

# These targets need no configured tree.  Two of them install what configure needs and
# then call make again.
plain_goals := help clean demo check bench html format format-check fuzz-% setup-%
goals       := $(or $(MAKECMDGOALS),all)

CONFIGURE_FLAGS ?= $(shell cat $(BUILD)/configure.flags 2>/dev/null)

ifneq ($(filter-out $(plain_goals),$(goals)),)
include $(BUILD)/config.mk
endif

# The options of the last run are kept, and configure runs again when they change.
ifneq ($(filter-out $(plain_goals),$(goals)),)
ifneq ($(strip $(CONFIGURE_FLAGS)),$(strip $(shell cat $(BUILD)/configure.flags 2>/dev/null)))
$(shell mkdir -p $(BUILD) && echo '$(CONFIGURE_FLAGS)' >$(BUILD)/configure.flags)
endif
endif
$(BUILD)/configure.flags:
	@mkdir -p $(@D)
	@echo '$(CONFIGURE_FLAGS)' >$@

$(BUILD)/configure: configure.ac
	@mkdir -p $(@D)
	@echo "  AUTOCONF"
	@cp configure.ac $(BUILD)/configure.ac
	@cd $(BUILD) && autoheader -f configure.ac && autoconf -f -o configure configure.ac

$(BUILD)/config.mk: $(BUILD)/configure $(BUILD)/configure.flags
	@echo "  CONFIGURE $(CONFIGURE_FLAGS)"
	@cd $(BUILD) && ./configure -q --srcdir='$(CURDIR)' $(CONFIGURE_FLAGS)
	@sed -n 's/^FOUND = /  FOUND /p' $@
	@touch $@

# ----------------------------------------------------------------- compiler

# The compiler is taken from `make CC=clang` or the environment, else from configure.
ifeq ($(origin CC),default)
CC := $(or $(CONFIG_CC),cc)
endif
ifeq ($(VARIANT),fuzz)
CC := clang
endif

comma := ,
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
	-Wformat=2 -Wwrite-strings
# Warnings are errors for the project's own checks, not for people who only build.
WERROR ?= $(filter true 1 yes,$(CI))
ifneq ($(WERROR),)
WARN += -Werror
endif

HARDEN := -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
# A message passes through many short functions in several files, so calls are inlined
# across files.  The objects also hold ordinary code, for the archives and the checks.
LTO := $(if $(findstring Free Software Foundation,$(shell $(CC) --version 2>/dev/null)),-flto=auto -ffat-lto-objects)
FLAGS_release := -O2 -g -fno-plt $(LTO) $(HARDEN)
FLAGS_debug   := -O0 -g3
# Of what a debugger wants to know, reports of sanitizers only need the lines.
FLAGS_asan    := -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
FLAGS_tsan    := -O1 -g1 -fno-omit-frame-pointer -fsanitize=thread
# Unit tests take longer to compile than to run.
FLAGS_unit    := $(if $(filter asan tsan,$(VARIANT)),-O0)
FLAGS_cov     := -O0 -g --coverage
FLAGS_fuzz    := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
ifeq ($(filter $(VARIANT),release debug asan tsan cov fuzz),)
$(error VARIANT=$(VARIANT) is unknown; use release, debug, asan, tsan, cov or fuzz)
endif

# There are two hundred programs of tests, and a quick linker, where there is one, saves minutes.
ifneq ($(filter asan tsan cov,$(VARIANT)),)
QUICK_LINKER := $(if $(shell command -v mold),-fuse-ld=mold)
endif

CPPFLAGS_ALL := -D_GNU_SOURCE -Iinclude -I$(BUILD) $(CPPFLAGS)
CFLAGS_ALL   := -std=gnu11 $(WARN) -fno-strict-aliasing -fno-common \
	-fPIE -pthread $(FLAGS_$(VARIANT)) $(DEP_CFLAGS) $(CFLAGS)
# With sanitizers there are 200,000 addresses to relocate at each start of the program; tests start it often.
HARDEN_LD    := $(if $(filter asan,$(VARIANT)),-no-pie -Wl$(comma)-z$(comma)lazy,-pie -Wl$(comma)-z$(comma)relro$(comma)-z$(comma)now)
LDFLAGS_ALL  := $(HARDEN_LD) -pthread -Wl,--as-needed $(QUICK_LINKER) $(FLAGS_$(VARIANT)) $(LDFLAGS)
LIBS_ALL     := $(DEP_LIBS) -lm $(LIBS)

# Sanitizers stop at the first finding, so that no test can overlook one.
export ASAN_OPTIONS  ?= detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS ?= print_stacktrace=1
export LSAN_OPTIONS  ?= print_suppressions=0
export TSAN_OPTIONS  ?= halt_on_error=1:suppressions=$(CURDIR)/test/check/tsan-suppressions
export PYTHONDONTWRITEBYTECODE := 1

# All objects depend on this file, which is written when the flags change.
flags := $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(LDFLAGS_ALL) $(LIBS_ALL)
ifneq ($(filter-out $(plain_goals),$(goals)),)
ifneq ($(strip $(flags)),$(strip $(shell cat $(OUT)/flags 2>/dev/null)))
$(shell mkdir -p $(OUT) && echo '$(flags)' >$(OUT)/flags)
endif
endif
$(OUT)/flags: ;

# ------------------------------------------------------------------- floors

# From the top down, which is also the order in which archives are linked.
FLOORS := top tools daemon admin metrics views login relay handoff cancel broker session pool wire auth net conf base

below_base    := base
below_wire    := wire base
below_auth    := auth base
below_net     := net base
below_conf    := conf base
below_pool    := pool wire auth net conf base
below_session := session $(below_pool)
below_broker  := broker $(below_session)
# Tests of session, and of the floors up to login and relay, share test/unit/stage, which
# needs them all.
below_stage   := login relay handoff cancel $(below_broker)
below_cancel  := $(below_stage)
below_handoff  := $(below_stage)
below_login   := $(below_stage)
below_relay   := $(below_stage)
below_views   := views $(below_stage)
below_admin   := admin $(below_views)
below_metrics := metrics $(below_views)
below_daemon  := daemon metrics $(below_admin)
below_tools   := tools $(below_daemon)
below_top     := top $(below_tools)

libs = $(foreach f,$(FLOORS),$(if $(filter $f,$(1)),$(OUT)/lib$f.a))

BIN     := $(OUT)/pgbouncer
MAIN_OBJ := $(OUT)/obj/src/main.o

define floor_rules
OBJ_$(1) := $$(patsubst %.c,$$(OUT)/obj/%.o,$$(wildcard src/$(1)/*.c))
$$(OUT)/lib$(1).a: $$(OBJ_$(1)) $$(OUT)/lib$(1).list
	@rm -f $$@
	@$$(AR) rcs $$@ $$(OBJ_$(1))
# A removed source file must leave the archive too.
$$(OUT)/lib$(1).list: list-$(1)
list-$(1):
	@mkdir -p $$(OUT)
	@echo '$$(OBJ_$(1))' | cmp -s - $$(OUT)/lib$(1).list || echo '$$(OBJ_$(1))' >$$(OUT)/lib$(1).list
.PHONY: list-$(1)
endef
$(foreach f,$(FLOORS),$(eval $(call floor_rules,$f)))
ALL_OBJ := $(MAIN_OBJ) $(foreach f,$(FLOORS),$(OBJ_$f))

$(OUT)/obj/%.o: %.c $(OUT)/flags $(BUILD)/config.mk
	@mkdir -p $(@D)
	@echo "  CC $<"
	@$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(if $(filter test/fuzz/%,$<),-Wno-missing-prototypes) \
	    $(if $(filter test/unit/%,$<),$(FLAGS_unit)) \
	    -MMD -MP -c -o $@ $<

-include $(ALL_OBJ:.o=.d)
# The page is a part of this object as it is.
$(OUT)/obj/src/metrics/page.o: src/metrics/page.html

$(BIN): $(MAIN_OBJ) $(call libs,$(FLOORS))
	@echo "  LINK $@"
	@$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_ALL)

.PHONY: all objects
ifeq ($(VARIANT),fuzz)
all: fuzzers
else
all: $(BIN)
	@if [ "$(VARIANT)" = release ] && [ "$(OUT)" = "$(BUILD)/release" ]; then \
	    ln -sf release/pgbouncer $(BUILD)/pgbouncer; fi
endif
objects: $(ALL_OBJ)

# ---------------------------------------------------------------- unit tests

stage := $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard test/unit/stage/*.c))
-include $(stage:.o=.d)
stage_session = $(stage)
stage_broker  = $(stage)
stage_cancel  = $(stage)
stage_handoff  = $(stage)
stage_login   = $(stage)
stage_relay   = $(stage)
unit_session  = $(below_stage)
unit_broker   = $(below_stage)

# See test/unit/no_memory.h, which these include.
NO_MEMORY    := -Wl,--wrap=mem_try -Wl,--wrap=mem_try_resize
NO_MEMORY_IN := %/test_no_memory %/test_hba_files %/test_link

# Linked without another compilation: there are many, and what they show does not depend on it.
define unit_rules
UNIT_$(1)  := $$(patsubst %.c,$$(OUT)/%,$$(wildcard test/unit/$(1)/test_*.c))
UNITH_$(1) := $$(patsubst %.c,$$(OUT)/obj/%.o,$$(filter-out test/unit/$(1)/test_%,$$(wildcard test/unit/$(1)/*.c)))
$$(UNIT_$(1)): $$(OUT)/%: $$(OUT)/obj/%.o $$(UNITH_$(1)) $$(stage_$(1)) $$(call libs,$$(or $$(unit_$(1)),$$(below_$(1))))
	@mkdir -p $$(@D)
	@$$(CC) $$(LDFLAGS_ALL) -fno-lto $$(if $$(filter $$(NO_MEMORY_IN),$$@),$$(NO_MEMORY)) -o $$@ $$^ -lcmocka $$(LIBS_ALL)
unit-$(1): $$(UNIT_$(1))
	@test/check/programs.py $$(UNIT_$(1))
-include $$(patsubst $$(OUT)/%,$$(OUT)/obj/%.d,$$(UNIT_$(1))) $$(UNITH_$(1):.o=.d)
.SECONDARY: $$(patsubst $$(OUT)/%,$$(OUT)/obj/%.o,$$(UNIT_$(1)))
.PHONY: unit-$(1)
endef
$(foreach f,$(FLOORS),$(eval $(call unit_rules,$f)))
# Lower floors run first, because their failures explain those above.
UNIT := $(foreach f,base wire auth net conf pool session broker cancel handoff relay login views admin metrics daemon tools top,$(UNIT_$f))

# Tests with several threads, which VARIANT=tsan checks.
THREADED := $(filter $(addprefix $(OUT)/test/unit/,auth/test_helpers% auth/test_external_auth% auth/test_password_job% auth/test_kerberos% wire/test_prepared_store% net/test_mailbox% net/test_stream_detach% session/test_cancel_keys% session/test_passwords% pool/test_central% session/test_workers% broker/test_dial% login/test_%),$(UNIT))

.PHONY: unit unit-threads
unit: $(UNIT)
	@test/check/programs.py $(UNIT)
unit-threads: $(THREADED)
	@test/check/programs.py $(THREADED)

# --------------------------------------------- property tests and fuzz targets

# The first comment of each program names the floors it links: /* links: base pool */
# The folder with a program's name has its other files.
links_of = $(shell sed '/\*\//q' $(1) | tr '\n*' '  ' | sed -n 's/.*links:\([a-z ]*\).*/\1/p')

PROP := $(patsubst %.c,$(OUT)/%,$(wildcard test/prop/prop_*.c))
FUZZ := $(patsubst %.c,$(OUT)/%,$(wildcard test/fuzz/fuzz_*.c))
FUZZ_MAIN := $(if $(filter fuzz,$(VARIANT)),,$(OUT)/obj/test/fuzz/replay.o)

define linked_rules
PARTS_$(1) := $$(patsubst %.c,$$(OUT)/obj/%.o,$(1).c $$(wildcard $(1)/*.c))
$$(OUT)/$(1): $$(PARTS_$(1)) $(2) $$(call libs,$$(call links_of,$(1).c))
	@mkdir -p $$(@D)
	@$$(CC) $$(LDFLAGS_ALL) $(3) -o $$@ $$^ $$(LIBS_ALL)
-include $$(PARTS_$(1):.o=.d)
.SECONDARY: $$(PARTS_$(1))
endef
$(foreach p,$(PROP:$(OUT)/%=%),$(eval $(call linked_rules,$p,,)))
$(foreach p,$(FUZZ:$(OUT)/%=%),$(eval $(call linked_rules,$p,$(FUZZ_MAIN),$(if $(filter fuzz,$(VARIANT)),-fsanitize=fuzzer))))

.PHONY: prop replay fuzzers programs
# The seed is fixed, so that a new failure comes from a change; SEED=N sets another one,
# and a program that is run without a seed takes a random one.
prop: $(PROP)
	@test/check/programs.py --seed $(or $(SEED),20261121) $(PROP)
prop-%: $(OUT)/test/prop/prop_%
	$< $(SEED)
replay: $(FUZZ)
	@test/check/programs.py --corpus test/fuzz/corpus $(FUZZ)
fuzzers: $(FUZZ)
programs: $(UNIT) $(PROP) $(FUZZ)

# New inputs stay in the build folder; copy into the corpus what is worth keeping.
FUZZ_SECONDS ?= 60
fuzz-%:
	@test/setup/install-packages fuzz
	@+$(MAKE) VARIANT=fuzz $(BUILD)/fuzz/test/fuzz/fuzz_$*
	@mkdir -p $(BUILD)/fuzz/found/$* $(BUILD)/fuzz/crash/$*
	$(BUILD)/fuzz/test/fuzz/fuzz_$* -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
	    -artifact_prefix=$(BUILD)/fuzz/crash/$*/ $(BUILD)/fuzz/found/$* \
	    $(wildcard test/fuzz/corpus/$*)

# -------------------------------------------------------------- simulation

# The pooler as it is, whose system calls the linker sends to a simulated kernel.  Objects
# are linked as they are, because names within inlined ones could not be redirected.
SIM      := $(OUT)/test/sim/sim
SIM_OBJ  := $(patsubst %.c,$(OUT)/obj/%.o,$(wildcard test/sim/*.c))
SIM_WRAP := $(sort $(shell sed -n 's/^[a-z].*[ *]__wrap_\([a-z_0-9]*\)..*/\1/p' test/sim/*.c))
-include $(SIM_OBJ:.o=.d)
.SECONDARY: $(SIM_OBJ)
$(SIM): $(SIM_OBJ) $(call libs,$(below_tools))
	@mkdir -p $(@D)
	@$(CC) $(LDFLAGS_ALL) -fno-lto $(SIM_WRAP:%=-Wl,--wrap=%) -o $@ $^ $(LIBS_ALL)

# SEED is the first one; HOURS are simulated ones.  A failure is shortened.
.PHONY: sim check-sim
SIM_ARGS ?=
sim: $(SIM)
	@test/sim/run.py $(SIM) --seed $(or $(SEED),1) --hours $(or $(HOURS),1) $(SIM_ARGS)
# The same for everybody, and short.
check-sim: $(SIM)
	@test/sim/run.py $(SIM) --seed $(or $(SEED),1) --seeds 12 --seconds 60 --clients 8 --budget 20 --shorten 20 --twice

# ---------------------------------------------------------- the n-th call fails

# The program, one of whose calls fails: see test/nth/nth_calls.c.
NTH      := $(OUT)/test/nth/pgbouncer
NTH_OBJ  := $(OUT)/obj/test/nth/nth_calls.o
NTH_WRAP := open ares_getaddrinfo ares_search SSL_CTX_use_certificate_chain_file SSL_CTX_use_PrivateKey_file \
	$(shell sed -n 's/^CALL_[FGR][A-Z]*.\([a-z_]*\),.*/\1/p; s/^CALL.[^,]*, \([A-Za-z_0-9]*\),.*/\1/p' test/nth/nth_calls.c)
-include $(NTH_OBJ:.o=.d)
$(NTH): $(NTH_OBJ) $(MAIN_OBJ) $(call libs,$(FLOORS))
	@mkdir -p $(@D)
	@$(CC) $(LDFLAGS_ALL) -fno-lto $(NTH_WRAP:%=-Wl,--wrap=%) -o $@ $^ $(LIBS_ALL)

# Every n; `make check` tries some of them.
.PHONY: nth-call
nth-call: export NTH_SHARE ?= 1
nth-call: export NTH_COUNTS := $(abspath $(OUT))/pytest-nth/counts
nth-call: $(NTH) $(BIN) setup-venv
	@mkdir -p $(OUT)/pytest-nth
	@rm -f $(NTH_COUNTS)
	@test/check/integration.py --python $(PYTHON) --pooler $(abspath $(BIN)) --out $(OUT)/pytest-nth -- \
	    -n $(TEST_JOBS) test/integration/test_nth_call.py $(PYTEST_ARGS)
	@sort $(NTH_COUNTS)

# The tests that drivers and frameworks bring along, through the pooler with session_state=keep.
.PHONY: suites
suites: export SUITES ?= psycopg2 asyncpg lib-pq pgx django/psycopg django/psycopg2 \
	sqlalchemy/psycopg2 sqlalchemy/psycopg sqlalchemy/asyncpg psycopg2+saving asyncpg+saving lib-pq+saving
suites: $(BIN) setup-venv
	@mkdir -p $(OUT)/pytest-suites
	@test/check/integration.py --python $(PYTHON) --pooler $(abspath $(BIN)) --out $(OUT)/pytest-suites -- \
	    -n 1 test/integration/test_suites.py
# PostgreSQL's own regression tests, also straight and in session mode.
.PHONY: regress
regress: export REGRESS_WAYS ?= straight session transaction saving
regress: $(BIN) setup-venv
	@mkdir -p $(OUT)/pytest-regress
	@test/check/integration.py --python $(PYTHON) --pooler $(abspath $(BIN)) --out $(OUT)/pytest-regress -- \
	    -n $(TEST_JOBS) test/integration/test_regress.py

# ------------------------------------------------- programs of the benchmark

# Load generators, a server and simple relays, of which one needs liburing.
BENCH_C   := $(filter-out $(if $(findstring -luring,$(DEP_LIBS)),,test/bench/relay_uring.c),$(wildcard test/bench/*.c))
BENCH_BIN := $(BENCH_C:%.c=$(OUT)/%)
$(foreach p,$(BENCH_C:%.c=%),$(eval $(call linked_rules,$p,,)))

.PHONY: bench-programs
bench-programs: $(BENCH_BIN)

# ------------------------------------------------------------- whole program

# The whole life of a pooler, for T=10m or T=8h; see test/bench/soak.py.
.PHONY: soak
soak: $(BIN) setup-venv
	@$(PYTHON) test/bench/soak.py --pooler $(abspath $(BIN)) --time $(or $(T),10m) --report $(OUT)/soak.html $(SOAK_ARGS)

.PHONY: setup-venv check check-integration check-structure check-docs check-dist check-deb check-rpm \
        check-container promtool demo bench oracle
VENV   := $(abspath $(BUILD))/venv
PYTHON := $(VENV)/bin/python

setup-venv:
	@test/setup/venv $(VENV) test/integration/requirements.txt

PYTEST_ARGS ?=
# The cases mostly wait, so several run for each processor; more with sanitizers, where the
# longest ones wait for hosts.
TEST_JOBS   ?= $(shell expr $(JOBS) '*' $(if $(filter asan,$(VARIANT)),4,3))
# The oracle replays fewer sequences with a slow variant; `make oracle` replays new ones.
check-integration: export ORACLE_SHARE ?= $(if $(filter asan tsan cov,$(VARIANT)),0.06,0.12)
check-integration: export ORACLE_PARTS ?= $(if $(filter asan tsan cov,$(VARIANT)),1,5)
# So do the clients that share servers: by default they go on for 10 s.
check-integration: export WRONG_ROW_SECONDS ?= 6
check-integration: $(BIN) $(NTH) $(BENCH_BIN) setup-venv
	@mkdir -p $(OUT)/pytest
	@test/check/integration.py --python $(PYTHON) --pooler $(abspath $(BIN)) \
	    --out $(OUT)/pytest -- -n $(TEST_JOBS) $(PYTEST_ARGS)

check-structure: objects
	@test/check/structure.py --cc '$(CC)' --nm '$(NM)' --build $(BUILD) --objects $(OUT)/obj/src \
	    $(if $(filter asan tsan cov fuzz,$(VARIANT)),--skip globals)

# What systems other than Linux get, as far as it can be seen here: net/ compiles without
# the headers that only Linux has, and its tests pass.  The rings and alarms are Linux's.
.PHONY: check-portable unit-portable
unit-portable: $(filter-out %/test_alarm %/test_ring,$(UNIT_net)) $(OUT)/test/prop/prop_stream
	@test/check/programs.py $^
check-portable:
	@for file in src/net/*.c; do \
	    $(CC) -fsyntax-only -Werror -DNET_PORTABLE -Itest/check/portable \
	        $(CPPFLAGS_ALL) $(CFLAGS_ALL) $$file || exit 1; done
	@+$(MAKE) OUT=$(OUT)/portable CPPFLAGS='$(CPPFLAGS) -DNET_PORTABLE' unit-portable

check-docs:
	@test/check/docs.py $(CC)

check-dist: dist
	@test/check/dist $(DIST) '$(CC)'

# The package holds the program as it is: what counts is what is around it.
check-deb: dist $(BIN)
	@PROGRAM='$(abspath $(BIN))' DEB_BUILD_OPTIONS='nocheck noautodbgsym' test/setup/make-deb $(DIST) $(BUILD)/deb
	@test/check/deb $(BUILD)/deb
check-rpm: dist $(BIN)
	@PROGRAM='$(abspath $(BIN))' test/check/rpm $(DIST) $(BUILD)/rpm-check

# Builds and runs the container of a release, so it takes minutes; not part of check.
check-container: dist
	@test/check/container $(DIST)

# The checker of Prometheus, which some tests use where it is; it is built in minutes.
promtool:
	@test/setup/promtool

# All tests, in groups; the last line is the sum.
check:
	@test/setup/install-packages check
	@+BUILD='$(BUILD)' JOBS='$(JOBS)' test/check/run $(if $(findstring k,$(firstword -$(MAKEFLAGS))),-k)

demo:
	@test/setup/install-packages demo
	@+$(MAKE) -j$(JOBS) VARIANT=release all
	@POOLER=$${POOLER:-$(abspath $(BUILD))/release/pgbouncer} test/demo/run

BENCH_ARGS ?= --engines
bench:
	@test/setup/install-packages bench
	@+$(MAKE) -j$(JOBS) all bench-programs
	@python3 test/bench/bench.py --pooler $(abspath $(BIN)) $(BENCH_ARGS)

# Random sequences of messages against PostgreSQL and the pooler, for as long as wanted.
SECONDS     ?= 3600
ORACLE_ARGS ?=
oracle: $(BIN) setup-venv
	@$(PYTHON) test/integration/oracle.py --seconds $(SECONDS) --pooler $(abspath $(BIN)) \
	    --store $(OUT)/oracle $(ORACLE_ARGS)

# ---------------------------------------- documents, formatting and structure

.PHONY: docs html format format-check lint
docs:
	@test/check/docs.py --write $(CC)
# The documents as pages for a browser, by Sphinx.
html:
	@test/setup/venv $(abspath $(BUILD))/html-venv test/check/pages-requirements.txt
	@$(BUILD)/html-venv/bin/python test/check/pages.py $(BUILD)/html

c_files = $(shell find src include test -name '*.[ch]' | sort)
format:
	@$$(test/setup/clang-format $(VENV)) -i $(c_files)
format-check:
	@$$(test/setup/clang-format $(VENV)) --dry-run -Werror --ferror-limit=3 $(c_files)
# Shellcheck need not find files of other packages, and leaves ls, texts for other shells in single
# quotes and functions that are called by name.
SHELLCHECK_OFF := SC1091,SC2012,SC2016,SC2317
# LINT=quick leaves out the analyzer, which takes most of the time.
LINT ?= all
lint: format-check
	@test/setup/install-packages lint
	@find src -name '*.c' | sort | xargs -P $(JOBS) -n 4 sh -c \
	    'clang-tidy --quiet $(if $(filter quick,$(LINT)),--checks=-clang-analyzer-*) "$$@" -- -std=gnu11 $(WARN) $(CPPFLAGS_ALL) $(DEP_CFLAGS)' lint
	@test/setup/list-files | xargs awk 'FNR == 1 && /^#!.*sh/ { print FILENAME }' | xargs shellcheck -e $(SHELLCHECK_OFF)

# A second look at the sources, by gcc's analyzer and by cppcheck.  The latter does not understand
# a macro that puts nothing before ##, as those of the views do (preprocessorErrorDirective).
# ANALYZED chooses files for gcc's, as sed does lines: it takes long.
.PHONY: analyze
ANALYZED ?= p
analyze:
	@test/setup/install-packages analyze
	@find src -name '*.c' | sort | sed -n '$(ANALYZED)' | xargs -P $(JOBS) -n 4 sh -c \
	    'for file; do gcc -fanalyzer -Werror -c -o /dev/null -std=gnu11 $(CPPFLAGS_ALL) $(DEP_CFLAGS) "$$file" || exit 255; done' analyze
	@cppcheck --quiet -j $(JOBS) --enable=warning,performance,portability --std=c11 --max-configs=1 \
	    -D__GNUC__ $(CPPFLAGS_ALL) --suppress=missingIncludeSystem --suppress=preprocessorErrorDirective \
	    --error-exitcode=1 src

# Unit tests below valgrind, which also sees what was never written; without sanitizers.
.PHONY: valgrind valgrind-unit coverage
valgrind:
	@test/setup/install-packages valgrind
	@+$(MAKE) VARIANT=debug valgrind-unit
valgrind-unit: $(UNIT)
	@test/check/programs.py --below 'valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite' \
	    $(UNIT)

# Lines and branches that the quick tests reach (COVERED_BY=check-integration: also the
# end-to-end tests, whose programs run in another account), and errors on these floors that they do not.
COVERED ?= session wire auth pool
COVERED_BY ?=
coverage:
	@mkdir -p $(BUILD)/cov && find $(BUILD)/cov -name '*.gcda' -delete
	-@+$(MAKE) -k VARIANT=cov unit prop replay
	-@+$(MAKE) VARIANT=cov check-sim
	-@+$(if $(COVERED_BY),umask 0; chmod -R a+rwX $(BUILD)/cov; $(MAKE) VARIANT=cov $(COVERED_BY))
	@test/check/coverage.py $(BUILD)/cov/obj $(COVERED)

# ---------------------------------------------------------- for editors and gdb

# Both are in the build folder, where clangd and `vim -t` (set tags+=build/tags) look.
.PHONY: tags compile_commands
tags:
	@mkdir -p $(BUILD)
	@find src include -name '*.[ch]' -o -name '*.def' | sort | xargs ctags -o $(BUILD)/tags
	@echo $(BUILD)/tags

command_of = {"directory": "$(CURDIR)"$(comma) "file": "$(1)"$(comma) \
	"command": "$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -c $(1)"}
compile_commands:
	@mkdir -p $(BUILD)
	@printf '%s\n' '[' $(foreach f,$(filter-out $(firstword $(c_sources)),$(c_sources)),'$(call command_of,$f)$(comma)') \
	    '$(call command_of,$(firstword $(c_sources)))' ']' >$(BUILD)/compile_commands.json
	@echo $(BUILD)/compile_commands.json
c_sources = $(filter %.c,$(c_files))

# ------------------------------------------------------------------- install

.PHONY: install install-config uninstall dist deb rpm
SAMPLES := etc/pgbouncer.ini etc/pgbouncer-minimal.ini etc/userlist.txt etc/fail2ban-filter.conf \
	etc/fail2ban-jail.conf etc/grafana-dashboard.json etc/patroni-switchover etc/prometheus-alerts.yml etc/prometheus.yml
GUIDES  := README.md CHANGELOG.md $(wildcard doc/*.md doc/*.png doc/*.svg)
RECIPES := $(wildcard doc/recipes/*.md)
UNITS   := etc/pgbouncer.service etc/pgbouncer.socket
to = $(DESTDIR)$(1)

# Where systemd looks below each prefix; and the account and folders of the service.
unitdir           ?= $(prefix)/lib/systemd/system
tmpfilesdir       ?= $(prefix)/lib/tmpfiles.d
sysusersdir       ?= $(prefix)/lib/sysusers.d
examplesdir        = $(docdir)/examples
service_user      ?= pgbouncer
service_rundir    ?= /run/pgbouncer
service_socketdir ?= /tmp

# put FILE,FOLDER,NAME: with the paths and the account of this installation.
put = sed -e 's,/usr/local/bin/,$(bindir)/,g' -e 's,/usr/local/libexec/,$(libexecdir)/,g' \
	-e 's,/etc/pgbouncer/,$(sysconfdir)/pgbouncer/,g' \
	-e 's,^ListenStream=/tmp/,ListenStream=$(service_socketdir)/,' \
	-e '/^RuntimeDirectory/!s,/run/pgbouncer\b,$(service_rundir),g' -e 's,^User=.*,User=$(service_user),' \
	-e 's,\(su\|0750\|0755\) pgbouncer pgbouncer,\1 $(service_user) $(service_user),' \
	$(1) >$(call to,$(2))/$(3) && chmod 644 $(call to,$(2))/$(3)

install: $(BIN)
	@$(INSTALL) -d $(foreach d,$(bindir) $(libexecdir)/pgbouncer $(mandir)/man1 $(mandir)/man5 $(examplesdir) $(docdir)/recipes \
	    $(unitdir) $(tmpfilesdir) $(sysusersdir),$(call to,$d))
	@$(INSTALL) -m 755 $(BIN) $(call to,$(bindir))/pgbouncer
	@$(INSTALL) -m 755 etc/pgbouncer-reload $(call to,$(libexecdir))/pgbouncer/reload
	@$(INSTALL) -m 644 doc/pgbouncer.1 $(call to,$(mandir)/man1)/pgbouncer.1
	@$(INSTALL) -m 644 doc/pgbouncer.ini.5 $(call to,$(mandir)/man5)/pgbouncer.ini.5
	@echo '.so man5/pgbouncer.ini.5' >$(call to,$(mandir)/man5)/pgbouncer.5
	@chmod 644 $(call to,$(mandir)/man5)/pgbouncer.5
	@$(INSTALL) -m 644 $(GUIDES) $(call to,$(docdir))
	@$(INSTALL) -m 644 $(RECIPES) $(call to,$(docdir))/recipes
	@$(INSTALL) -m 644 $(SAMPLES) $(call to,$(examplesdir))
	@$(call put,etc/pgbouncer.logrotate,$(examplesdir),pgbouncer.logrotate)
	@$(foreach u,$(UNITS),$(call put,$u,$(unitdir),$(notdir $u)) &&) :
	@$(call put,etc/pgbouncer.tmpfiles,$(tmpfilesdir),pgbouncer.conf)
	@$(call put,etc/pgbouncer.sysusers,$(sysusersdir),pgbouncer.conf)

# What an administrator changes is written once, and neither replaced nor uninstalled.
keep = test -e $(call to,$(2))/$(3) || { $(call put,$(1),$(2),$(3)) && chmod $(4) $(call to,$(2))/$(3); }
install-config:
	@$(INSTALL) -d $(call to,$(sysconfdir)/pgbouncer) $(call to,$(sysconfdir)/logrotate.d)
	@$(call keep,etc/packaging/pgbouncer.ini,$(sysconfdir)/pgbouncer,pgbouncer.ini,640)
	@$(call keep,etc/packaging/userlist.txt,$(sysconfdir)/pgbouncer,userlist.txt,640)
	@$(call keep,etc/pgbouncer.logrotate,$(sysconfdir)/logrotate.d,pgbouncer,644)

uninstall:
	@rm -f $(call to,$(bindir))/pgbouncer $(call to,$(libexecdir))/pgbouncer/reload \
	    $(call to,$(mandir)/man1)/pgbouncer.1 $(call to,$(mandir)/man5)/pgbouncer.ini.5 \
	    $(call to,$(mandir)/man5)/pgbouncer.5 $(addprefix $(call to,$(docdir))/,$(notdir $(GUIDES))) \
	    $(addprefix $(call to,$(docdir))/recipes/,$(notdir $(RECIPES))) \
	    $(addprefix $(call to,$(examplesdir))/,$(notdir $(SAMPLES) etc/pgbouncer.logrotate)) \
	    $(addprefix $(call to,$(unitdir))/,$(notdir $(UNITS))) \
	    $(call to,$(tmpfilesdir))/pgbouncer.conf $(call to,$(sysusersdir))/pgbouncer.conf
	@rmdir $(call to,$(docdir))/recipes $(call to,$(examplesdir)) $(call to,$(docdir)) $(call to,$(libexecdir))/pgbouncer 2>/dev/null || :

# ------------------------------------------------------------------ packages

# The archive is the same bytes from the same commit, whoever makes it, where and when.
NAME = $(PACKAGE_TARNAME)-$(VERSION)
DIST = $(BUILD)/$(NAME).tar.gz
SOURCE_DATE_EPOCH ?= $(shell git -c safe.directory='*' log -1 --format=%ct 2>/dev/null || stat -c %Y configure.ac)
dist:
	@test/setup/list-files | LC_ALL=C TZ=UTC tar -cf - --format=gnu --no-recursion --owner=0 --group=0 --numeric-owner \
	    --mtime=@$(SOURCE_DATE_EPOCH) --mode=u=rwX,go=rX --transform 's,^,$(NAME)/,' -T - | gzip -9n >$(DIST)
	@echo $(DIST)

# Both are built from the archive, in a folder of their own.
deb: dist
	@test/setup/make-deb $(DIST) $(BUILD)/deb
rpm: dist
	@test/setup/make-rpm $(DIST) $(BUILD)/rpm

clean:
	rm -rf $(BUILD)

# ---------------------------------------------------------------------- help

.PHONY: help clean
help:
	@echo 'make                     build $(BUILD)/release/pgbouncer'
	@echo 'make VARIANT=V           debug, asan (with UBSan), tsan, cov or fuzz, each in $(BUILD)/V'
	@echo 'make demo                build, then start a scratch PostgreSQL and the pooler and compare them'
	@echo 'make check               run the tests, of which some take turns from commit to commit; installs what is missing'
	@echo 'make install uninstall   prefix=/usr/local, DESTDIR=; units, account, manual pages, examples'
	@echo 'make install-config      a first configuration in sysconfdir=/etc, where there is none'
	@echo 'make dist                $(BUILD)/pgbouncer-VERSION.tar.gz, the same bytes from the same commit'
	@echo 'make deb rpm             packages, in $(BUILD)/deb and $(BUILD)/rpm'
	@echo 'make check-dist          build the archive by itself; install, run, uninstall'
	@echo 'make check-deb           install, upgrade and remove the Debian package (as root)'
	@echo 'make check-rpm           build the RPM package around the program, and look into it'
	@echo 'make check-container     build the container and run it (as root, with buildah)'
	@echo 'make promtool            fetch and build the checker of Prometheus, for tests'
	@echo 'make docs                write the generated references, manuals and sample ini'
	@echo 'make html                the documents as pages for a browser, in $(BUILD)/html'
	@echo 'make format lint         lay out all C files with clang-format; examine them with clang-tidy, and scripts with shellcheck'
	@echo 'make analyze             examine them with the analyzer of gcc and with cppcheck'
	@echo 'make valgrind            unit tests below valgrind'
	@echo 'make coverage            what unit, property and fuzz tests and the simulation reach, by file and floor'
	@echo 'make unit unit-FLOOR     unit tests (of one floor: base wire auth ... admin daemon)'
	@echo 'make unit-threads        unit tests of helper threads; use it with VARIANT=tsan'
	@echo 'make prop prop-NAME      property tests (of one, SEED=N)'
	@echo 'make soak                everything that happens in a life, for T=10m, with a report'
	@echo 'make suites              the tests of drivers, through the pooler and straight'
	@echo 'make regress             the regression tests of PostgreSQL, through the pooler and straight'
	@echo 'make nth-call            let each call of the program fail, one at a time; use it with'
	@echo '                         VARIANT=asan'
	@echo 'make sim                 simulate the whole pooler for HOURS=1, from SEED=1; use it with'
	@echo '                         VARIANT=debug, or asan'
	@echo 'make replay              run the fuzz corpora once'
	@echo 'make fuzz-NAME           fuzz one target for FUZZ_SECONDS=60'
	@echo 'make check-portable      net/ as systems other than Linux get it'
	@echo 'make check-structure     headers, includes, circles, globals, rooms, words, names, citations'
	@echo 'make check-docs          compare the generated files with the tables'
	@echo 'make check-integration   end-to-end tests of $$(VARIANT); PYTEST_ARGS="-k copy",'
	@echo '                         POOLER_SETTINGS="io_engine=epoll" for every configuration'
	@echo 'make oracle              compare random sequences of messages with PostgreSQL for'
	@echo '                         SECONDS=3600; ORACLE_ARGS="--help"'
	@echo 'make bench               compare with another pooler; BENCH_ARGS="--help"'
	@echo 'make bench-programs      what loads and relays for it, in $(OUT)/test/bench'
	@echo 'make tags compile_commands  what editors read, in $(BUILD)'
	@echo '                         gdb: test/setup/pooler.gdb, for a VARIANT=debug'
	@echo 'make clean               remove $(BUILD)'
	@echo
	@echo 'Variables: BUILD, VARIANT, CC, CFLAGS, CONFIGURE_FLAGS, WERROR=1, JOBS, CI=true'
