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
WARM_TESTS := $(patsubst %,tests/unit/test_warm_%.c,dump join pagemap restore snapshot writes)
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
	@awk -F ':.*## ' '/^[a-z0-9_.%-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' Makefile

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

# A module for any Python, so without a C library.
AGENT_CFLAGS := -std=gnu17 -iquote . -Iruntime $(WARNINGS) -O2 -ffreestanding -fPIC -fvisibility=hidden -fno-stack-protector \
                -fasynchronous-unwind-tables -fcf-protection=none -mgeneral-regs-only
AGENT_C      := agent.c apart.c clocks.c ending.c loaded.c lookups.c memory.c services.c streams.c threads.c unwind.c
$(BUILD)/$(AGENT)/agent.so: $(wildcard $(AGENT)/*.[ch] runtime/warm/params.h) $(BUILD)/compiled
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(AGENT_CFLAGS) -shared -nostdlib -s -Wl,-z,noexecstack -Wl,--build-id=none \
	    -o $@ $(AGENT_C:%=$(AGENT)/%)

# Its Python, with byte code for these interpreters. Snapshots of other versions compile the texts, twice.
PYTHONS ?= $(if $(shell command -v python3),python3)
$(BUILD)/$(AGENT)/texts: $(AGENT)/texts $(wildcard $(AGENT)/*.py) $(BUILD)/pythons
	@mkdir -p $(@D)
	@$< $(PYTHONS) >$@.new && mv $@.new $@

# The common identity of a snapshot and the runtime that restores it.
$(BUILD)/$(AGENT)/identity: $(BUILD)/$(AGENT)/agent.so $(BUILD)/$(AGENT)/texts $(AGENT)/start.py
	@cat $^ | sha256sum | head -c 32 >$@

$(BUILD)/$(AGENT)/embed.o: $(AGENT)/embed.S $(BUILD)/$(AGENT)/identity
	$(call quiet,AS)$(CC) -D'AGENT="$(BUILD)/$(AGENT)/agent.so"' -D'TEXTS="$(BUILD)/$(AGENT)/texts"' \
	    -D'IDENTITY="$(BUILD)/$(AGENT)/identity"' -D'START="$(AGENT)/start.py"' -c -o $@ $<

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
$(BUILD)/pythons: FORCE
	$(call write_if_changed,'$(PYTHONS)')
$(BUILD)/version.h: FORCE
	$(call write_if_changed,'#define PYSBX_VERSION "$(VERSION)"' '#define PYSBX_COMMIT "$(COMMIT)"')

-include $(OBJECTS:.o=.d) $(FUZZED:.o=.d) $(FUZZ_PARTS:%.c=$(BUILD)/%.d) $(STATIC_OBJECTS:.o=.d) $(UNIT_TESTS:=.d) $(PARKED:.o=.d) $(BUILD)/tests/warm/wake.d

# Manual pages are made from contrib/docs. Without go-md2man(1) the installation leaves them out.
PAGES   := pysbx.1 profiles.5 warm.json.5 pysbx-runtime.8
MANUALS := $(if $(shell command -v go-md2man 2>/dev/null),$(PAGES:%=$(BUILD)/placed/%))
# Files of config/ that name the program.
PLACED  := containers.conf.d/50-pysbx.conf docker/daemon.json containerd/config.toml apparmor/pysbx-runtime
# source:mode:target, below DESTDIR
INSTALLED := \
    $(BUILD)/pysbx-runtime:0755:$(BINDIR)/pysbx-runtime \
    $(if $(STATIC),$(BUILD)/pysbx-runtime-dynamic:0755:$(LIBEXECDIR)/pysbx-runtime-dynamic) \
    contrib/completions/pysbx-runtime.bash:0644:$(DATADIR)/bash-completion/completions/pysbx-runtime \
    contrib/completions/pysbx-runtime.zsh:0644:$(ZSHDIR)/_pysbx-runtime \
    contrib/completions/pysbx-runtime.fish:0644:$(DATADIR)/fish/vendor_completions.d/pysbx-runtime.fish \
    $(foreach i,$(PLACED),$(BUILD)/placed/config/$(i):0644:$(DATADIR)/pysbx-runtime/$(i)) \
    config/runtime.json:0644:$(DATADIR)/pysbx-runtime/runtime.json \
    config/warm.json:0644:$(DATADIR)/pysbx-runtime/warm.json \
    config/selinux/pysbx.cil:0644:$(DATADIR)/pysbx-runtime/selinux/pysbx.cil
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

$(PLACED:%=$(BUILD)/placed/config/%): $(BUILD)/placed/config/%: config/% FORCE
	@$(call place,cat $<)

$(MANUALS): FORCE
	@$(call place,contrib/docs/man-page $(@F))

install: all $(MANUALS) $(PLACED:%=$(BUILD)/placed/config/%) ## install below PREFIX (/usr/local); DESTDIR for packages
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

# The steps of the tests: tests/steps. Those of a group run at the same time. BESIDE names another one to run beside the
# integration tests, and in the time that these leave.
CHECK ?= package-sources+unit$(if $(WARM),+agent)+conformance integration+wheel$(BESIDE:%=+%) adapters+ledger package+docs+self
CHECK_ALL := fresh site $(CHECK) recipes release vm packages sanitize
run_steps = ALL='$(ALL)' BUILD='$(BUILD)' MAKE='$(MAKE)' UNIT_TESTS='$(UNIT_TESTS)' WAKE='$(WAKE)' tests/check

# Each of these targets first installs its groups of tests/setup/install.sh. Make asks the compiler about itself and its
# libraries when it reads this file. So a second make builds the target after the packages are installed.
SETUP_check = $(shell tests/check --packages $(CHECK))
SETUP_check-all = $(shell tests/check --packages $(CHECK_ALL)) bench lint docs
SETUP_fuzz := build fuzz
SETUP_bench := build bench python
SETUP_lint := build lint
SETUP_docs := docs
SETUP_wheel := build wheel
SETUP_wheels := build wheel wheels
SETUP_image := build wheel image
SETUP_deb := build packaging

second_make = $(MAKE) $(if $(filter -j%,$(MAKEFLAGS)),,-j $(shell nproc)) --no-print-directory PREPARED=1 $@
# Tests create containers and cgroups, for which a user needs sudo. Afterwards the built files belong to the user again.
by_sudo = sudo --preserve-env=CI,BESIDE $(MAKE) -j $(shell nproc) --no-print-directory PREPARED=1 $(MAKEOVERRIDES) $@; \
          status=$$?; sudo chown -R "$$(id -u):$$(id -g)" '$(BUILD)'; exit $$status
needs_root = $(and $(filter-out 0,$(shell id -u)),$(filter check% bench image,$@))
ifndef PREPARED
$(patsubst SETUP_%,%,$(filter SETUP_%,$(.VARIABLES))):
	@tests/setup/install.sh $(SETUP_$@)
	+@$(if $(needs_root),$(by_sudo),$(second_make))

check-%: FORCE
	@groups=$$(tests/check --packages $*) && tests/setup/install.sh $$groups
	+@$(if $(needs_root),$(by_sudo),$(second_make))
else
check: ## the tests that decide about a change, or those of CHECK='STEP...'
	+@$(run_steps) $(CHECK)

# Everything, including repetitions. It takes hours.
check-all: docs ## all tests
	+@$(MAKE) --no-print-directory ALL=1 lint
	+@$(subst ALL='$(ALL)',ALL=1,$(run_steps)) $(CHECK_ALL)
	+@$(MAKE) --no-print-directory demo
	+@$(MAKE) --no-print-directory bench

check-%: FORCE ## one step of the tests: tests/README.md
	+@$(run_steps) $*

# The programs that tests/fuzz/run runs.
fuzz: $(FUZZERS:%=$(BUILD)/fuzz/%) ## the fuzz targets, with libFuzzer

# Packages of the distribution, from the last commit: contrib/packaging/README.md.
deb: ## the package of Debian
	@BUILD='$(abspath $(BUILD))' contrib/packaging/build-deb

# The package pysbx with the runtime in it, and its source archive: contrib/python/build-wheel. `make wheels
# URL=https://HOST/OWNER/NAME` adds the addresses of the project to the metadata.
wheel: ## the wheel of pysbx for this machine, which contains the runtime
wheels: ## the wheels of pysbx for x86-64 and aarch64
wheel wheels:
	@BUILD='$(abspath $(BUILD))' PYSBX_URL='$(URL)' contrib/python/build-wheel $(if $(filter wheels,$@),x86_64 aarch64)

# From packages of Debian and wheels, without a registry: contrib/image/build.
image: ## the container image of pysbx serve
	@BUILD='$(abspath $(BUILD))' contrib/image/build

bench: all ## compare with crun and runc
	@tests/bench/run $(BENCH_OPTIONS)

docs: ## build the documentation as a site, and check its links
	@BUILD='$(abspath $(BUILD))' contrib/docs/build

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

.PHONY: help all install install-hook uninstall demo check check-all deb wheel wheels image fuzz docs lint bench clean FORCE
