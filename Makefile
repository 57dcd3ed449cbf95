# pysbx-runtime: build, install, test. Every other target calls a script that can also be called directly.
VERSION := $(shell contrib/packaging/version)
COMMIT  := $(shell [ -e .git ] && git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

PREFIX  ?= /usr/local
BINDIR  ?= $(PREFIX)/bin
DATADIR ?= $(PREFIX)/share
MANDIR  ?= $(DATADIR)/man
ZSHDIR  ?= $(DATADIR)/zsh/site-functions
# The program finds it relative to its own path.
LIBEXECDIR = $(abspath $(BINDIR)/../libexec)
DESTDIR ?=

CC     ?= cc
# `make CCACHE=ccache` compiles through ccache(1).
CCACHE ?=
BUILD  ?= build
CFLAGS ?= -O2 -g

WARNINGS    := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes \
               -Wvla -Wformat=2 -Wundef
HARDENING   := -fstack-protector-strong -fPIE -D_FORTIFY_SOURCE=2 -fno-asynchronous-unwind-tables
ALL_CFLAGS   = -std=gnu17 -D_GNU_SOURCE -iquote . -Iruntime -I$(BUILD) $(WARNINGS) $(HARDENING) $(CPPFLAGS) $(CFLAGS)
# Relative relocations in a few hundred bytes instead of 30 KiB, which every command would read: binutils 2.38, glibc
# 2.36.
PACK        := -Wl,-z,pack-relative-relocs
# (Without a compiler, make prints the error of a command that ends with 127, like a shell.)
CANNOT_PACK := $(shell { echo 'int main(void) { return 0; }' | $(CC) -x c $(PACK) -Wl,--fatal-warnings -o /dev/null - || :; } 2>&1)
ALL_LDFLAGS  = -pie -Wl,-z,relro -Wl,-z,now -Wl,--as-needed $(if $(CANNOT_PACK),,$(PACK)) $(LDFLAGS)
# The two small libraries are linked statically if possible, because loading them would cost every command a tenth of
# its time. The large ones, libseccomp and libsystemd, are opened on demand.
static_or_shared = $(if $(filter /%,$(shell $(CC) -print-file-name=lib$(1).a 2>/dev/null)),-l:lib$(1).a,-l$(2))
LIBRARIES   ?= $(call static_or_shared,yajl_s,yajl) $(call static_or_shared,cap,cap)
# A wheel cannot rely on the host's library for filters. With LINK_SECCOMP=1 the dynamic program contains libseccomp.
LINK_SECCOMP ?=
LDLIBS      := $(LIBRARIES) $(if $(LINK_SECCOMP),-l:libseccomp.a) -ldl

machine_of  = $(firstword $(subst -, ,$(shell $(1) -dumpmachine 2>/dev/null)))
MACHINE    := $(call machine_of,$(CC))
# Snapshots consist of a machine's registers and instructions. For other machines, a file that reports this replaces
# these.
WARM       := $(filter x86_64,$(MACHINE))
WARM_FILES := $(wildcard $(addprefix runtime/warm/,dump/*.c observe/*.c restore/*.c restore/restorer/*.c snapshot/host.c))
AGENT      := runtime/warm/agent
SOURCES    := $(sort $(filter-out $(AGENT)/% $(if $(WARM),runtime/warm/unavailable.c,$(WARM_FILES)),\
              $(wildcard runtime/*.c runtime/*/*.c runtime/*/*/*.c runtime/*/*/*/*.c))) $(if $(SANITIZED),tests/sanitize/options.c)
EMBEDDED   := $(if $(WARM),$(BUILD)/$(AGENT)/embed.o)
OBJECTS    := $(SOURCES:%.c=$(BUILD)/%.o) $(EMBEDDED)
WARM_TESTS := $(patsubst %,tests/unit/test_warm_%.c,dump join observe restore snapshot writes)
UNIT_TESTS := $(patsubst %.c,$(BUILD)/%,$(sort $(filter-out $(if $(WARM),,$(WARM_TESTS)),\
              $(wildcard tests/unit/test_*.c tests/fuzz/test_*.c))))
WAKE       := $(if $(WARM),$(BUILD)/tests/warm/wake)
# The targets of tests/fuzz, run on their seeds; and their sources.
FUZZERS    := $(filter-out $(if $(WARM),,image session smaps pagemap proc-dump),$(basename $(notdir $(wildcard tests/fuzz/seeds/*.tar))))
FUZZ_PARTS := tests/fuzz/targets.c $(filter-out $(if $(WARM),,%/target_dump.c %/target_image.c),$(wildcard tests/fuzz/target_*.c))
FUZZED     := $(patsubst %.c,$(BUILD)/fuzz/objects/%.o,$(filter-out runtime/main.c runtime/cli/%,$(SOURCES)) \
              $(FUZZ_PARTS) tests/fuzz/fuzz.c)

# `make V=1` shows the commands themselves.
quiet = $(if $(V),,@echo '  $(1) $(patsubst $(BUILD)/%,%,$@)';)

# Sources of the programs that tests run.
export RUNTIME := $(abspath $(BUILD))/pysbx-runtime

# The program is static if musl and static libraries are available. It becomes the dynamic one next to it for tasks that
# need shared libraries: runtime/base/libraries.h. (The wrapper of musl's compiler does not support -static-pie.) The
# wrapper is for the build machine. For another machine, these variables do the wrapper's work, with the library next to
# it. SYSROOT works in the same way: it is the directory of the C libraries and headers if they are not this machine's.
SYSROOT     ?=
MUSL_NATIVE := $(if $(SYSROOT),,$(if $(filter $(MACHINE),$(call machine_of,musl-gcc)),musl-gcc))
MUSL        := $(if $(SANITIZED),,$(strip $(if $(MUSL_NATIVE),\
               $(shell sed -n 's/.*-specs "\(.*\)\/musl-gcc.specs".*/\1/p' "$$(command -v musl-gcc)"),\
               $(patsubst %/libc.a,%,$(wildcard $(SYSROOT)/usr/lib/$(MACHINE)-linux-musl/libc.a)))))
MUSL_CC     := $(or $(MUSL_NATIVE),$(CC) -nostdinc -isystem $(SYSROOT)/usr/include/$(MACHINE)-linux-musl \
               -isystem $(shell $(CC) -print-file-name=include 2>/dev/null))
ARCHIVES    := $(foreach i,yajl_s cap,$(filter /%,$(shell $(CC) -print-file-name=lib$(i).a 2>/dev/null)))
STATIC      := $(and $(MUSL),$(word 2,$(ARCHIVES)))
PROGRAMS    := $(BUILD)/pysbx-runtime $(if $(STATIC),$(BUILD)/pysbx-runtime-dynamic)
# Headers of the kernel and of the libraries come after musl's own. A small program has few pages to read.
STATIC_CFLAGS   = -DSTATIC_PROGRAM -Os -ffunction-sections -fdata-sections \
                  -idirafter $(SYSROOT)/usr/include -idirafter $(SYSROOT)/usr/include/$(shell $(CC) -print-multiarch 2>/dev/null)
STATIC_LDFLAGS  = -static-pie -nostdlib -nostartfiles -Wl,-z,relro -Wl,-z,now -Wl,--gc-sections $(LDFLAGS)
STATIC_OBJECTS := $(SOURCES:%.c=$(BUILD)/static/%.o) $(EMBEDDED)

.DEFAULT_GOAL := all
# `make help` lists a target with a text after two hash marks.
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9_.-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' Makefile

all: $(PROGRAMS) ## build the runtime

$(lastword $(PROGRAMS)): $(OBJECTS) $(BUILD)/linked
	$(call quiet,LD)$(CC) $(ALL_LDFLAGS) -o $@ $(OBJECTS) $(LDLIBS)

# The tables of functions that a child calls through a pointer, which the linker does not see: container/launch.h.
LAUNCHES    := restore_child refuse_child observed_child
STATIC_LINK = $(CC) $(STATIC_LDFLAGS) $(MUSL)/rcrt1.o $(MUSL)/crti.o $(STATIC_OBJECTS) $(ARCHIVES) \
              -Wl,--start-group $(MUSL)/libc.a $(shell $(CC) -print-libgcc-file-name 2>/dev/null) -Wl,--end-group $(MUSL)/crtn.o
ifdef STATIC
# The linker knows everything that container/child/finish.h reaches. It reports the omitted parts of a program that begins
# there.
$(BUILD)/static/left-out.list: $(STATIC_OBJECTS) $(BUILD)/linked
	@LC_ALL=C $(STATIC_LINK) -Wl,--entry=init_finish,--undefined=exec_finish $(LAUNCHES:%=-Wl,--undefined=%) -Wl,--print-gc-sections -o $@.elf 2>$@ || \
	    { grep -v 'removing unused section' $@; rm $@; exit 1; }
	@rm $@.elf

$(BUILD)/static/left-out.ld: runtime/left-out.awk $(BUILD)/static/left-out.list
	@awk -f $^ >$@

$(BUILD)/pysbx-runtime: $(BUILD)/static/left-out.ld
	$(call quiet,LD)$(STATIC_LINK) -Wl,-T,$< -o $@
endif

$(BUILD)/static/%.o: %.c $(BUILD)/compiled
	@mkdir -p $(@D)
	$(call quiet,CC)$(CCACHE) $(MUSL_CC) $(ALL_CFLAGS) $(STATIC_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/%.o: %.c $(BUILD)/compiled
	@mkdir -p $(@D)
	$(call quiet,CC)$(CCACHE) $(CC) $(ALL_CFLAGS) $(if $(LINK_SECCOMP),-DLINKED_SECCOMP) -MMD -MP -c -o $@ $<

# The probe is one text, because a container sees no files of the agent. Annotations need the order of definitions. A form
# feed ends each file: they are compiled one by one.
PROBE := $(AGENT)/values.py $(addprefix $(AGENT)/probe,$(addprefix _,$(addsuffix .py,look clocks doubles draws watch trace paths))) $(AGENT)/probe.py
$(BUILD)/$(AGENT)/probe.py: $(PROBE)
	@mkdir -p $(@D)
	@for file in $^; do cat $$file && printf '\f\n'; done >$@

# A module for any Python, so without a C library. Its text is for readers, not for the module.
AGENT_CFLAGS := -std=gnu17 -iquote . -Iruntime $(WARNINGS) -O2 -ffreestanding -fPIC -fvisibility=hidden -fno-stack-protector \
                -fasynchronous-unwind-tables -fcf-protection=none -mgeneral-regs-only
AGENT_TEXTS  := packages.py changes.py hidden.py resume.py
AGENT_C      := agent.c apart.c clocks.c ending.c loaded.c lookups.c memory.c services.c streams.c threads.c unwind.c embed.S
$(BUILD)/$(AGENT)/agent.so: $(wildcard $(AGENT)/*.[chS] runtime/warm/params.h) $(AGENT_TEXTS:%=$(AGENT)/%) $(BUILD)/$(AGENT)/probe.py $(BUILD)/compiled
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(AGENT_CFLAGS) -shared -nostdlib -s -Wl,-z,noexecstack -Wl,--build-id=none \
	    -D'PACKAGES="$(AGENT)/packages.py"' -D'CHANGES="$(AGENT)/changes.py"' -D'HIDDEN="$(AGENT)/hidden.py"' \
	    -D'RESUME="$(AGENT)/resume.py"' -D'PROBE="$(BUILD)/$(AGENT)/probe.py"' \
	    -o $@ $(AGENT_C:%=$(AGENT)/%)

# The common identity of a snapshot and the runtime that restores it.
$(BUILD)/$(AGENT)/identity: $(BUILD)/$(AGENT)/agent.so $(AGENT)/bootstrap.py
	@cat $^ | sha256sum | head -c 32 >$@

$(BUILD)/$(AGENT)/embed.o: $(AGENT)/embed.S $(BUILD)/$(AGENT)/identity
	$(call quiet,AS)$(CC) -D'AGENT="$(BUILD)/$(AGENT)/agent.so"' -D'IDENTITY="$(BUILD)/$(AGENT)/identity"' \
	    -D'BOOTSTRAP="$(AGENT)/bootstrap.py"' -c -o $@ $<

$(BUILD)/runtime/cli/version.o $(BUILD)/static/runtime/cli/version.o: $(BUILD)/version.h

# Everything but main, for the unit tests.
$(BUILD)/libruntime.a: $(filter-out $(BUILD)/runtime/main.o,$(OBJECTS)) $(BUILD)/linked
	@rm -f $@
	$(call quiet,AR)$(AR) rcs $@ $(filter %.o,$^)

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libruntime.a
	$(call quiet,LD)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(BUILD)/libruntime.a $(LDLIBS)

# The process that is saved and restored.
PARKED := $(BUILD)/tests/unit/parked.o $(BUILD)/tests/unit/parked_states.o
$(BUILD)/tests/unit/test_warm_dump $(BUILD)/tests/unit/test_warm_restore: $(PARKED)

$(BUILD)/tests/fuzz/test_seeds: $(FUZZ_PARTS:%.c=$(BUILD)/%.o)

# With libFuzzer: one program, whose name selects its target. Findings become seeds, and seeds are tests.
FUZZ_CFLAGS := -std=gnu17 -D_GNU_SOURCE -iquote . -Iruntime -I$(BUILD) -O1 -g -fno-omit-frame-pointer \
               -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
$(BUILD)/fuzz/objects/%.o: %.c
	@mkdir -p $(@D)
	$(call quiet,CLANG)clang $(FUZZ_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/fuzz/all: $(FUZZED) $(EMBEDDED)
	$(call quiet,LD)clang -fsanitize=fuzzer,address,undefined -o $@ $^ $(LDLIBS) -lpthread

$(FUZZERS:%=$(BUILD)/fuzz/%): $(BUILD)/fuzz/all
	@ln -sf all $@

.SECONDARY:

# Compile the libraries' headers once, so that a machine without packages prints the remedy instead of the first
# symptom.
LIBRARY_HEADERS := yajl/yajl_parse.h sys/capability.h seccomp.h
$(BUILD)/complete:
	@mkdir -p $(@D)
	@printf '#include <%s>\n' $(LIBRARY_HEADERS) | $(CC) $(CPPFLAGS) -fsyntax-only -x c - 2>$@.log || { \
	    grep -m 1 -i -e error -e 'not found' $@.log >&2; \
	    echo 'make: the compiler or a header is missing; this command installs them: tests/setup/install.sh build' >&2; exit 1; }
	@touch $@

# Files that change when their text does, and that cause a rebuild: the commands, and the version.
write_if_changed = @mkdir -p $(@D); printf '%s\n' $(1) | cmp -s - $@ || printf '%s\n' $(1) >$@
$(BUILD)/compiled: FORCE | $(BUILD)/complete
	$(call write_if_changed,'$(CC) $(ALL_CFLAGS) $(AGENT_CFLAGS) $(MUSL_CC) $(STATIC_CFLAGS)')
$(BUILD)/linked: FORCE
	$(call write_if_changed,'$(CC) $(ALL_LDFLAGS) $(OBJECTS) $(LDLIBS) $(MUSL) $(STATIC_LDFLAGS) $(LAUNCHES)')
$(BUILD)/version.h: FORCE
	$(call write_if_changed,'#define PYSBX_VERSION "$(VERSION)"' '#define PYSBX_COMMIT "$(COMMIT)"')

-include $(OBJECTS:.o=.d) $(FUZZED:.o=.d) $(FUZZ_PARTS:%.c=$(BUILD)/%.d) $(STATIC_OBJECTS:.o=.d) $(UNIT_TESTS:=.d) $(PARKED:.o=.d) $(BUILD)/tests/warm/wake.d

# Manual pages are made from contrib/docs. Without go-md2man(1) the installation leaves them out.
PAGES   := pysbx.1 profiles.5 warm.json.5 pysbx-runtime.8
MANUALS := $(if $(shell command -v go-md2man 2>/dev/null),$(PAGES:%=$(BUILD)/placed/%))
# source:mode:target, below DESTDIR
INSTALLED := \
    $(BUILD)/pysbx-runtime:0755:$(BINDIR)/pysbx-runtime \
    $(if $(STATIC),$(BUILD)/pysbx-runtime-dynamic:0755:$(LIBEXECDIR)/pysbx-runtime-dynamic) \
    contrib/completions/pysbx-runtime.bash:0644:$(DATADIR)/bash-completion/completions/pysbx-runtime \
    contrib/completions/pysbx-runtime.zsh:0644:$(ZSHDIR)/_pysbx-runtime \
    contrib/completions/pysbx-runtime.fish:0644:$(DATADIR)/fish/vendor_completions.d/pysbx-runtime.fish \
    config/containers.conf.d/50-pysbx.conf:0644:$(DATADIR)/pysbx-runtime/containers.conf.d/50-pysbx.conf \
    config/docker/daemon.json:0644:$(DATADIR)/pysbx-runtime/docker/daemon.json \
    config/containerd/config.toml:0644:$(DATADIR)/pysbx-runtime/containerd/config.toml \
    config/runtime.json:0644:$(DATADIR)/pysbx-runtime/runtime.json \
    config/warm.json:0644:$(DATADIR)/pysbx-runtime/warm.json \
    config/selinux/pysbx.cil:0644:$(DATADIR)/pysbx-runtime/selinux/pysbx.cil \
    $(BUILD)/placed/apparmor:0644:$(DATADIR)/pysbx-runtime/apparmor/pysbx-runtime
INSTALLED_PAGES := $(foreach i,$(PAGES),$(BUILD)/placed/$(i):0644:$(MANDIR)/man$(subst .,,$(suffix $(i)))/$(i))
# For packages: Podman looks for hooks below /usr/share by default, and not below /usr/local.
INSTALLED_HOOK := \
    hooks/require-sandbox:0755:$(LIBEXECDIR)/pysbx-runtime/require-sandbox \
    $(BUILD)/placed/50-require-sandbox.json:0644:$(DATADIR)/containers/oci/hooks.d/50-require-sandbox.json
field = $(word $(2),$(subst :, ,$(1)))
put   = $(foreach i,$(1),install -D -m $(call field,$(i),2) $(call field,$(i),1) '$(DESTDIR)$(call field,$(i),3)' &&) true

# Texts name paths below /usr/local. These files are installed with the paths of this installation. They are new files,
# because after `sudo make install` changed ones would belong to root.
place = mkdir -p $(@D) && rm -f $@ && $(1) >$@ && \
    sed -i -e 's|/usr/local/bin|$(BINDIR)|; s|/usr/local/libexec|$(LIBEXECDIR)|; s|/usr/local/share|$(DATADIR)|' $@
$(BUILD)/placed/50-require-sandbox.json: hooks/50-require-sandbox.json FORCE
	@$(call place,cat $<)

$(BUILD)/placed/apparmor: config/apparmor/pysbx-runtime FORCE
	@$(call place,cat $<)

$(MANUALS): FORCE
	@$(call place,contrib/docs/man-page $(@F))

install: all $(MANUALS) $(BUILD)/placed/apparmor ## install below PREFIX (/usr/local); DESTDIR for packages
	$(call put,$(INSTALLED) $(if $(MANUALS),$(INSTALLED_PAGES)))
	$(if $(MANUALS),,@echo 'make: no manual pages, because go-md2man is missing; this command installs it: tests/setup/install.sh build' >&2)

install-hook: $(BUILD)/placed/50-require-sandbox.json ## install the hook require-sandbox
	$(call put,$(INSTALLED_HOOK))

uninstall: ## remove what install and install-hook installed
	rm -f $(foreach i,$(INSTALLED) $(INSTALLED_PAGES) $(INSTALLED_HOOK),'$(DESTDIR)$(call field,$(i),3)')
	find $(foreach i,$(DATADIR) $(LIBEXECDIR),'$(DESTDIR)$(i)/pysbx-runtime') -depth -type d -empty -delete 2>/dev/null || true

# Install, build and show: contrib/demo/demo.sh calls make after installing the packages.
demo: ## install missing packages, build, and show the runtime at work
	+@MAKE='$(MAKE)' contrib/demo/demo.sh

# Each of these targets first installs its groups of tests/setup/install.sh. Make asks the compiler about itself and its
# libraries when it reads this file. So a second make builds the target after the packages are installed.
SETUP_check := build test conformance python wheel fresh
SETUP_check-all := $(SETUP_check) fresh vm packaging bench lint docs
SETUP_check-quick := build test package
SETUP_check-unit := build
SETUP_check-agent := build test
SETUP_check-integration := build test
SETUP_check-podman := build test
SETUP_check-engines := build test
SETUP_check-release := build test
SETUP_check-conformance := build test conformance
SETUP_check-python := build test python
SETUP_check-vm := build $(if $(ALL),wheel image) test vm
SETUP_check-long := build test python
SETUP_check-service := build test python
SETUP_check-security := build test python
SETUP_check-sanitize := build test
SETUP_check-sanitize-all := build test
SETUP_check-packages := build test packaging
SETUP_check-fresh := fresh
SETUP_fuzz := build fuzz
SETUP_check-fuzz := build fuzz
SETUP_check-docs := build test python
SETUP_check-self := build test python
SETUP_bench := build bench python
SETUP_lint := build lint
SETUP_docs := docs
SETUP_wheel := build wheel
SETUP_image := build wheel image
SETUP_check-k8s := $(SETUP_image) test k8s vm
SETUP_check-k8s-quick := $(SETUP_check-k8s)
SETUP_check-k8s-manifests := build test k8s
SETUP_check-wheel := $(SETUP_wheel) fresh
SETUP_check-recipes := $(SETUP_check-wheel)
SETUP_check-site := docs
SETUP_deb := build packaging
SETUP_rpm := build packaging

second_make = $(MAKE) $(if $(filter -j%,$(MAKEFLAGS)),,-j $(shell nproc)) --no-print-directory PREPARED=1 $@
# Tests create containers and cgroups, for which a user needs sudo. Afterwards the built files belong to the user again.
by_sudo = sudo --preserve-env=CI,BESIDE $(MAKE) -j $(shell nproc) --no-print-directory PREPARED=1 $(MAKEOVERRIDES) $@; \
          status=$$?; sudo chown -R "$$(id -u):$$(id -g)" '$(BUILD)'; exit $$status
needs_root = $(and $(filter-out 0,$(shell id -u)),$(filter check% bench image,$@))
ifndef PREPARED
$(patsubst SETUP_%,%,$(filter SETUP_%,$(.VARIABLES))):
	@tests/setup/install.sh $(SETUP_$@)
	+@$(if $(needs_root),$(by_sudo),$(second_make))
else
# The targets of a group run at the same time. Each is a make of its own, so what they build must be built before. BESIDE
# names another target to run beside the integration tests, and in the time that these leave.
CHECK_GROUPS := check-package-sources+check-unit$(if $(WARM),+check-agent)+check-conformance \
                check-integration+check-wheel$(BESIDE:%=+%) check-package+check-docs+check-self
check: all $(UNIT_TESTS) $(WAKE) ## the tests that decide about a change
	+@MAKE='$(MAKE)' tests/check $(CHECK_GROUPS)

check-unit: $(UNIT_TESTS) ## the unit tests
	@tests/run $^

# Everything, including repetitions. It takes hours.
check-all: docs ## check, check-vm, check-packages and all of check-sanitize
	+@$(MAKE) --no-print-directory ALL=1 lint
	+@ALL=1 MAKE='$(MAKE)' tests/check check-fresh check-site check check-recipes check-release check-vm check-packages check-sanitize-all
	+@$(MAKE) --no-print-directory demo
	+@$(MAKE) --no-print-directory bench

# The commands of the README on a machine that has make, git and certificates: in minimal systems of Debian.
check-fresh: ## demo and check-quick in fresh systems of Debian 12 and 13
	@tests/fresh/run || { [ $$? = 77 ] && echo '0 passed, 0 failed, 1 skipped'; }

# The parts that a change breaks first, in two minutes: for the time between two edits.
check-quick: $(UNIT_TESTS) all ## unit tests, command line, lifecycle, pysbx: in two minutes
	@TEST_PYSBX="$$(tests/setup/pysbx '$(abspath $(BUILD))/pysbx-venv')" \
	    tests/run tests/integration/cli.bats tests/integration/lifecycle.bats tests/smoke $(UNIT_TESTS) tests/self/flaky

# The commands and Python programs of README.md and contrib/docs.
check-docs: all ## every command and Python example of the documentation
	@BUILD='$(abspath $(BUILD))' tests/docs/run

# Tests of the test runners, with tests that fail. It runs after check-python, because it uses its virtual environment.
check-self: all
	@BUILD='$(abspath $(BUILD))' tests/run tests/self/docs tests/self/flaky tests/self/includes tests/self/ci tests/self/groups tests/self/once

# The agent of a prewarmed Python, without the runtime.
check-agent: all $(WAKE) ## the agent of a prewarmed Python, without the runtime
	@tests/run $(if $(ALL),tests/warm/compare) tests/warm/agent.bats

# The programs that tests/fuzz/run runs.
fuzz: $(FUZZERS:%=$(BUILD)/fuzz/%) ## the fuzz targets, with libFuzzer

# Thirty seconds of each target: tests/fuzz/run.
check-fuzz: fuzz ## each fuzz target for thirty seconds
	@tests/fuzz/run --seconds 30

check-integration: all ## the runtime under Podman and other engines
	@tests/setup/engines
	@tests/run --mode $(if $(ALL),both,once) tests/integration

# Hours: the tests of warm starts, with more random changes and more tests of packages than in check and check-all.
check-long: all ## warm starts for hours: 10000 random changes, tests of CPython, numpy, pandas and scipy
	@version=$$(tar -tf "$$(tests/lib/image pandas)" | sed -n 's|.*usr/bin/python\(3\.[0-9]*\)$$|\1|p') && \
	    tests/setup/science "$$version" >/dev/null && tests/setup/cpython-tests "$$version" >/dev/null
	@TEST_MUTATIONS=$${TEST_MUTATIONS:-10000} TEST_STRESS_SEC=$${TEST_STRESS_SEC:-600} BATS_TEST_TIMEOUT=36000 FILE_TIMEOUT=36000 \
	    tests/run -v tests/integration/warm*.bats tests/warm/packages.bats

# The tests of `pysbx serve` whose extent is a time: schemathesis for ten minutes, and wrk for five.
check-service: all ## the HTTP service under load and schemathesis: a quarter of an hour
	@BUILD='$(abspath $(BUILD))' TEST_SCHEMA_SEC=$${TEST_SCHEMA_SEC:-600} TEST_LOAD_SEC=$${TEST_LOAD_SEC:-300} \
	    contrib/python/check --mode rootless tests/test_service_schema.py tests/test_service_load.py

# The tests that SECURITY.md and THREAT-MODEL.md name as proofs: files of bats, unit tests, and files of the package.
proofs = $(shell grep -ohE '\b[a-z][a-z_-]*\.$(1)\b' SECURITY.md contrib/python/THREAT-MODEL.md | sort -u)
check-security: all $(UNIT_TESTS) ## the tests of attacks alone, as SECURITY.md names them
	+@MAKE='$(MAKE)' tests/check check-security-runtime+check-security-package

check-security-runtime: all $(UNIT_TESTS)
	@tests/run --mode $(if $(ALL),both,once) $(addprefix tests/integration/,$(call proofs,bats)) \
	    $(filter $(patsubst %.c,$(BUILD)/tests/unit/%,$(call proofs,c)),$(UNIT_TESTS))

check-security-package: all
	@BUILD='$(abspath $(BUILD))' contrib/python/check --proofs --mode $(if $(ALL),both,once)

# The parts whose results differ with newer Podman, Docker and containerd: for check-release.
check-podman: all
	@tests/run --mode both tests/integration/newer.bats tests/integration/pods.bats tests/integration/network.bats

check-engines: all
	@tests/run tests/integration/engines-docker.bats tests/integration/engines-containerd.bats

# A build, the unit tests and those two in another release of Debian, on this machine's kernel.
RELEASE ?= trixie
check-release: ## tests in another release of Debian: RELEASE=trixie
	@tests/lib/release $(RELEASE) sh -c 'make -j2 all >/dev/null && tests/check check-unit check-podman check-engines' || \
	    { [ $$? = 77 ] && echo '0 passed, 0 failed, 1 skipped'; }

check-conformance: all ## the OCI project's validation suite
	@tests/conformance/run

# The package pysbx: linters, and its tests with the real runtime. `make check` runs the two parts at different times.
check-python: all ## the package pysbx
	@BUILD='$(abspath $(BUILD))' contrib/python/check --mode $(if $(ALL),both,once)

check-package-sources:
	@BUILD='$(abspath $(BUILD))' contrib/python/check --linters-only

check-package: all
	@BUILD='$(abspath $(BUILD))' contrib/python/check --tests-only --mode $(if $(ALL),both,once)

# In a separate machine, whose kernel enforces limits, labels and profiles.
check-vm: all ## tests in a virtual machine with systemd, SELinux, AppArmor
	@tests/vm/check

# The same tests with a build that stops at the first invalid access, overflow or undefined operation.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
check-sanitize: ## tests with AddressSanitizer and UndefinedBehaviorSanitizer
	+@$(MAKE) --no-print-directory BUILD='$(BUILD)/sanitize' CFLAGS='-O1 -g -U_FORTIFY_SOURCE -Wno-format-truncation -Wno-format-overflow $(SANITIZE)' \
	    LDFLAGS='$(SANITIZE)' SANITIZED=1 check-sanitized

check-sanitize-all:
	+@$(MAKE) --no-print-directory ALL=1 check-sanitize

# The unit tests, which reach most of the C code. The files reach what those cannot: a process of create, run and exec, its
# mounts, errors of commands, a snapshot. With ALL=1 the whole suite, in both modes.
SANITIZED_FILES := config-mounts config-process errors exec warm
check-sanitized: all
	+@MAKE='$(MAKE)' tests/check check-unit $(if $(ALL),check-integration,check-sanitized-files)

check-sanitized-files: all
	@tests/run $(wildcard $(SANITIZED_FILES:%=tests/integration/%.bats))

# Packages of the distribution, from the last commit: contrib/packaging/README.md.
deb: ## the package of Debian
	@BUILD='$(abspath $(BUILD))' contrib/packaging/build-deb

rpm: ## the package of Fedora
	@BUILD='$(abspath $(BUILD))' contrib/packaging/build-rpm

# The package pysbx with the runtime in it, for x86-64 and aarch64, and its source archive: contrib/python/build-wheel. `make
# wheel URL=https://HOST/OWNER/NAME` adds the addresses of the project to the metadata.
wheel: ## the wheels of pysbx, which contain the runtime
	@BUILD='$(abspath $(BUILD))' PYSBX_URL='$(URL)' contrib/python/build-wheel

# From packages of Debian and wheels, without a registry: contrib/image/build.
image: ## the container image of pysbx serve
	@BUILD='$(abspath $(BUILD))' contrib/image/build

# The image under Podman with the runtimes of the distribution, with agent-sandbox's router and client. contrib/k8s alone
# and on a control plane, and the installer for nodes. The runtime below containerd's interface for Kubernetes. The
# files name the programs that they need, which are built once: half an hour.
check-k8s: all ## the image of pysbx serve, and the parts for Kubernetes
	@BUILD='$(abspath $(BUILD))' tests/run --mode $(if $(ALL),both,once) tests/k8s

# These files prove most for their CPU time: about 70 seconds, and 35 more to build kubeconform once. The image is extra.
# The chart is left out, because helm takes more than two minutes of CPU time to build.
K8S_QUICK := nested two-instances
check-k8s-quick: all ## the parts of check-k8s that take a minute of CPU time
	@BUILD='$(abspath $(BUILD))' tests/run $(K8S_QUICK:%=tests/k8s/%.bats)

# The files that need no image, pod or cluster: 4 seconds of CPU time, and four minutes to build helm and others once.
K8S_MANIFESTS := chart openshift
check-k8s-manifests: all ## the manifests and the Helm chart of contrib/k8s, without the image
	@tests/run $(K8S_MANIFESTS:%=tests/k8s/%.bats)

# As an ordinary user, in a minimal system with only Python: tests/wheel/run.
check-wheel: ## build a wheel, and use it in a fresh system
	@BUILD='$(abspath $(BUILD))' contrib/python/build-wheel $(if $(ALL),,"$$(uname -m)") || [ $$? = 77 ]
	@BUILD='$(abspath $(BUILD))' tests/run tests/wheel/run

# The recipes of the service, as its page has them, in a minimal system of Debian.
check-recipes: ## the recipes for nginx, Prometheus and OpenTelemetry, in a fresh system
	@BUILD='$(abspath $(BUILD))' contrib/python/build-wheel || [ $$? = 77 ]
	@BUILD='$(abspath $(BUILD))' tests/run tests/fresh/recipes

# Builds the package of Debian, and uses it on a copy of this machine's /usr, /etc and /var.
check-packages: all deb ## install, use and remove the package of Debian
	@tests/setup/apparmor >/dev/null
	@TEST_PACKAGES='$(abspath $(BUILD))/packages' tests/run tests/packaging

bench: all ## compare with crun and runc
	@tests/bench/run $(BENCH_OPTIONS)

docs: ## build the documentation as a site, and check its links
	@BUILD='$(abspath $(BUILD))' contrib/docs/build

# Test that it refuses a broken link.
check-site: ## test that make docs refuses broken links
	@BUILD='$(abspath $(BUILD))' tests/run tests/docs/site

lint: all $(BUILD)/version.h ## all linters
	@BUILD='$(BUILD)' tests/lint
endif

# From the commands of a complete rebuild.
compile_commands.json: FORCE ## the commands of the compiler, for clangd
	@$(MAKE) --no-print-directory --dry-run --always-make V=1 $(OBJECTS) $(UNIT_TESTS:%=%.o) | sed -e ':a' -e '/\\$$/{N;s/\\\n *//;ba' -e '}' | \
	    awk -v DIRECTORY='$(CURDIR)' -f runtime/compile-commands.awk >$@.new && mv $@.new $@

clean: ## remove build/
	rm -rf '$(BUILD)'

FORCE:

.PHONY: help all install install-hook uninstall wheel check-wheel deb rpm demo check check-all check-quick check-fresh check-unit check-agent check-python check-package check-package-sources check-docs \
        check-integration check-podman check-engines check-release check-conformance check-vm check-long check-service \
        check-security check-security-runtime check-security-package \
        check-sanitize \
        check-sanitize-all check-sanitized check-sanitized-files \
        check-packages image check-k8s check-k8s-quick check-k8s-manifests fuzz check-fuzz bench docs check-site lint clean FORCE
