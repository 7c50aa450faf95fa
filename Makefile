# heed — build. `make` builds build/heed and the library; `make help` lists the targets.
BUILD  ?= build
PREFIX ?= /usr/local
# As the shell would have it: heed.pc needs the whole path.
override PREFIX := $(abspath $(patsubst ~/%,$(HOME)/%,$(PREFIX)))
CC     ?= gcc
CXX    ?= g++
CFLAGS ?= -O3 -g
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

WARN  = -Wall -Wextra -Wshadow -Wvla -Werror -Wpointer-arith
CWARN = -Wstrict-prototypes -Wmissing-prototypes
PKGS  = jansson sentencepiece zlib liblzma libxxhash yaml-0.1
BOTH_FLAGS = $(CFLAGS) $(WARN) -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno \
             -pthread -Iinclude -Isrc -MMD -MP
ALL_CFLAGS   = -std=gnu11 $(BOTH_FLAGS) $(CWARN)
ALL_CXXFLAGS = -std=c++17 $(BOTH_FLAGS)
LDLIBS = $(shell pkg-config --libs $(PKGS)) -lcld2 -lstdc++ -lm -ldl -pthread
GUMBO_LIBS = $(shell pkg-config --silence-errors --libs gumbo) # tests compare HTML with it
TEST_LIBS = -lcmocka $(shell pkg-config --libs libzip) $(GUMBO_LIBS) # and write archives
CLI_LIBS = $(shell pkg-config --libs libedit)
# Libraries that are not linked but loaded by those who need them (loader_library).
loaded = $(shell lib=$$(pkg-config --variable=libdir $1) && \
    echo "$$lib/$$(objdump -p "$$lib/lib$2.so" | sed -n 's/ *SONAME *//p')")
LOADED_ZIP    := $(call loaded,libzip,zip)
LOADED_GNUTLS := $(call loaded,gnutls,gnutls)

VERSION := $(shell sed -n 's/^\#define HEED_VERSION  *"\(.*\)"/\1/p' include/heed.h)
MAJOR   := $(firstword $(subst ., ,$(VERSION)))

LIB_DIRS = base comm backend backend/ref backend/cpu data io eval model search text train convert \
    viz api
LIB_SRC := $(wildcard $(LIB_DIRS:%=src/%/*.c) src/data/sentencepiece.cc src/data/cld2.cc)
CLI_SRC := $(wildcard src/cli/*.c src/bench/*.c)
# The server is in the program only: whoever links the library needs nothing for it.
SERVE_SRC := $(wildcard src/serve/*.c)
# tests/test_NAME.c and selftest_NAME.c are programs, any other file of tests/ is shared by them.
TEST_SRC   := $(wildcard tests/test_*.c tests/selftest_*.c)
HELPER_SRC := $(filter-out $(TEST_SRC),$(wildcard tests/*.c tests/*.cc))
FUZZ_SRC   := $(wildcard tests/fuzz/fuzz_*.c)

objects = $(patsubst %,$(BUILD)/%.o,$(basename $1))
LIB_OBJ    := $(call objects,$(LIB_SRC))
SERVE_OBJ  := $(call objects,$(SERVE_SRC))
CLI_OBJ    := $(call objects,$(CLI_SRC)) $(SERVE_OBJ)
TEST_OBJ   := $(call objects,$(TEST_SRC))
HELPER_OBJ := $(call objects,$(HELPER_SRC))
TEST_BIN   := $(TEST_OBJ:.o=)
PRETEND_SO := $(BUILD)/tests/pretend/libheed-cuda.so
EMULATED   := $(BUILD)/emulated
FUZZ_OBJ   := $(call objects,$(FUZZ_SRC))
FUZZ_BIN   := $(FUZZ_OBJ:.o=)
LIB_SO     := $(BUILD)/libheed.so.$(VERSION)
LIB_A      := $(BUILD)/libheed.a

# The GPU's backend is a plug-in of its own. CUDA=1 insists on it, CUDA=0 leaves it out, auto builds
# it where nvcc is.
CUDA      ?= auto
CUDA_HOME ?= /usr/local/cuda
NVCC      ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard $(CUDA_HOME)/bin/nvcc))
ifeq ($(CUDA),auto)
WITH_CUDA := $(if $(NVCC),1)
else
WITH_CUDA := $(filter-out 0,$(CUDA))
endif
CUDA_SRC  := $(wildcard src/backend/cuda/*.cu)
CUDA_OBJ  := $(CUDA_SRC:%=$(BUILD)/%.o) $(BUILD)/plugin/src/base/err.o \
             $(BUILD)/plugin/src/backend/device.o
CUDA_SO   := $(if $(WITH_CUDA),$(BUILD)/libheed-cuda.so)

# What carries bytes between ranks are plug-ins, too, built where the headers of Open MPI are, and
# those of NCCL (NCCL_HOME, with the toolkit's); MPI=0 leaves both out.
MPI       ?= auto
MPI_FLAGS := $(if $(filter 0,$(MPI)),,$(shell pkg-config --silence-errors --cflags ompi-c))
MPI_OBJ    = $(addprefix $(BUILD)/plugin/src/,comm/mpi/mpi.o comm/transport.o base/err.o)
MPI_SO    := $(if $(MPI_FLAGS),$(BUILD)/libheed-mpi.so)
NCCL_FLAGS := $(addprefix -I,$(wildcard $(NCCL_HOME:%=%/include) $(CUDA_HOME)/include))
NCCL_OBJ   = $(addprefix $(BUILD)/plugin/src/,comm/nccl/nccl.o comm/transport.o base/loader.o \
             base/place.o base/err.o)
NCCL_SO   := $(if $(MPI_FLAGS),$(if $(shell $(CC) $(NCCL_FLAGS) -include nccl.h -E -x c /dev/null \
             >/dev/null 2>&1 && echo yes),$(BUILD)/libheed-nccl.so))
PLUGINS    = $(CUDA_SO) $(MPI_SO) $(NCCL_SO)

SHELLS      = bash zsh fish
COMPLETIONS = $(SHELLS:%=$(BUILD)/heed.%)
BUILT       = $(BUILD)/heed $(LIB_SO) $(LIB_A) $(PLUGINS) $(BUILD)/heed.1 $(COMPLETIONS)

all: $(BUILT) ## build/heed, the libraries, the plug-ins

# ---- compiling -----------------------------------------------------------------------------------

# Kernel files (src/backend/cpu/{rows,gemm,tiled,little}_ISA.c, src/base/hash_ISA.c) are compiled
# for the instruction set they are named after. None may contract a*b+c to an FMA: compilers choose
# differently, kernels say which they want (fma.h). psabi: generic passes vectors of 32 bytes
# between its own functions only.
ISA_generic    = -Wno-psabi
ISA_avx2       = -mavx2 -mfma -mf16c
ISA_avx512     = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mprefer-vector-width=512
ISA_avx512vnni = $(ISA_avx512) -mavx512vnni
ISA_avx512bf16 = $(ISA_avx512) -mavx512bf16
ISA_amx        = $(ISA_avx512) -mamx-tile -mamx-bf16
ISAS           = generic avx2 avx512 avx512vnni avx512bf16 amx
KERNELS = rows_% gemm_% tiled_% little_% hash_%
isa_of  = $(lastword $(subst _, ,$(filter $(KERNELS),$(basename $(notdir $1)))))

# V=1 shows whole commands.
short = $(if $(V),,@echo '  $1';)

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call short,cc $<) $(CC) $(ALL_CFLAGS) $(ISA_$(call isa_of,$<)) $(OWN_FLAGS) -c $< -o $@

$(BUILD)/%.o: %.cc $(BUILD)/flags
	@mkdir -p $(@D)
	$(call short,c++ $<) $(CXX) $(ALL_CXXFLAGS) -c $< -o $@

$(BUILD)/src/base/%.o: private WARN += -Wconversion
# Dozens of unrolled variants each: checking every index in them takes a compiler minutes, and they
# have no branches a fuzzer could find.
KERNEL_CHECKS ?= -fno-sanitize=undefined
$(BUILD)/src/backend/cpu/tiled_%.o $(BUILD)/src/backend/cpu/little_%.o \
$(BUILD)/src/backend/cpu/rows_%.o: private OWN_FLAGS = $(KERNEL_CHECKS)
$(BUILD)/tests/amx_emulated.o $(BUILD)/tests/amx_emulated_tiled.o: private WARN += $(ISA_avx512)
$(BUILD)/tests/fuzz/%.o: private OWN_FLAGS = -Itests

# Where models are installed, for a program that is not where it was installed. Another PREFIX
# compiles this file only.
$(BUILD)/src/model/catalog.o: private OWN_FLAGS = -DHEED_PREFIX='"$(PREFIX)"'
$(BUILD)/src/model/catalog.o: $(BUILD)/prefix
$(BUILD)/prefix: FORCE
	@mkdir -p $(@D)
	@echo '$(PREFIX)' | cmp -s - $@ || echo '$(PREFIX)' >$@

$(BUILD)/src/io/libzip.o: private OWN_FLAGS = -DLIBZIP_FILE='"$(notdir $(LOADED_ZIP))"'
$(BUILD)/src/serve/gnutls.o: private OWN_FLAGS = -DGNUTLS_FILE='"$(notdir $(LOADED_GNUTLS))"'

# The page that it puts into the program.
$(BUILD)/src/viz/attention_html.o: src/viz/attention.html

# The server's page, packed; tags tell browsers whether they have it already. The same bytes each
# time: gzip -n leaves name and date out.
WEB := $(wildcard src/serve/web/*)
WEB_MADE := $(patsubst src/serve/web/%,$(BUILD)/web/%.gz,$(WEB))
$(BUILD)/src/serve/web.o: private OWN_FLAGS = -Wa,-Isrc/serve/web,-I$(BUILD)/web
$(BUILD)/src/serve/web.o: $(WEB) $(WEB_MADE)
$(BUILD)/web/%.gz: src/serve/web/%
	@mkdir -p $(@D)
	$(call short,pack $<) gzip -9nc $< >$@ && \
	    printf 'W/"%s"' "$$(sha256sum <$< | cut -c 1-20)" >$(@:.gz=.etag)

# Changes when the flags do; everything depends on it. A fresh tree learns here what it lacks.
FLAGS := $(CC) $(ALL_CFLAGS) $(CXX) $(ALL_CXXFLAGS) $(foreach isa,$(ISAS),$(ISA_$(isa)))
$(BUILD)/flags: FORCE
	@echo '$(FLAGS)' | cmp -s - $@ || \
	    { tools/deps.sh --check build && mkdir -p $(@D) && echo '$(FLAGS)' >$@; }

# Machine code for A100 and H100/H200, and PTX that the driver compiles for what is newer. Objects
# are named after the whole source name: attention.cu may stand beside an attention.c.
NVCCFLAGS  ?= -O3
NV_TARGETS  = -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a \
              -gencode arch=compute_90,code=compute_90
# Kernels for several GPUs are 12 MB as they are and a third of it compressed, which drivers of CUDA
# 13 can read.
NV_MAJOR   := $(if $(NVCC),$(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\).*/\1/p'))
NV_COMPRESS = $(if $(filter-out 9 10 11 12,$(NV_MAJOR)),--compress-mode=size)
ALL_NVCCFLAGS = -std=c++20 $(NVCCFLAGS) $(NV_TARGETS) $(NV_COMPRESS) -Werror all-warnings \
                -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror -Iinclude -Isrc

$(BUILD)/%.cu.o: %.cu $(BUILD)/flags-cuda
	@mkdir -p $(@D)
	$(call short,nvcc $<) $(NVCC) $(ALL_NVCCFLAGS) -MD -MP -MF $(@:.o=.d) -c $< -o $@

# A plug-in brings its own copy of what it needs of the program, never instrumented as the program
# may be. Headers of others are as they are: -isystem.
$(BUILD)/plugin/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call short,cc $< (plug-in)) $(CC) -std=gnu11 -O2 -g $(WARN) $(CWARN) -fPIC \
	    -fvisibility=hidden -Iinclude -Isrc $(patsubst -I%,-isystem %,$(OWN_FLAGS)) -MMD -MP \
	    -c $< -o $@
$(BUILD)/plugin/src/comm/mpi/mpi.o: private OWN_FLAGS = $(MPI_FLAGS)
$(BUILD)/plugin/src/comm/nccl/nccl.o: private OWN_FLAGS = $(NCCL_FLAGS)

$(BUILD)/flags-cuda: FORCE
	@mkdir -p $(@D)
	@test -n '$(NVCC)' || { echo 'CUDA=1, but there is no nvcc: set NVCC or CUDA_HOME' >&2; exit 1; }
	@echo '$(NVCC) $(ALL_NVCCFLAGS)' | cmp -s - $@ || echo '$(NVCC) $(ALL_NVCCFLAGS)' >$@

# ---- linking -------------------------------------------------------------------------------------

$(BUILD)/heed: $(CLI_OBJ) $(LIB_OBJ)
	$(call short,link $@) $(CC) $(CFLAGS) -o $@ $^ $(CLI_LIBS) $(LDLIBS)

# The manual page and shell completion come from the same tables as --help.
$(BUILD)/heed.1: $(BUILD)/heed
	$(call short,write $@) $< manual >$@
$(COMPLETIONS): $(BUILD)/heed.%: $(BUILD)/heed
	$(call short,write $@) $< completion $* >$@

# C++ exports what its templates leave behind, whatever -fvisibility says; so both libraries name
# what stays.
$(LIB_SO): $(LIB_OBJ)
	@echo '{ global: heed_*; local: *; };' >$(BUILD)/exports
	$(call short,link $@) $(CC) $(CFLAGS) -shared -Wl,-soname,libheed.so.$(MAJOR) \
	    -Wl,--version-script=$(BUILD)/exports -o $@ $^ $(LDLIBS)
	@ln -sf $(@F) $(BUILD)/libheed.so.$(MAJOR)
	@ln -sf $(@F) $(BUILD)/libheed.so

# One object whose other symbols are made local: the archive exports what the shared library does.
# C++'s groups are dissolved, or another object's group of the same name would replace ours.
$(LIB_A): $(LIB_OBJ)
	$(call short,archive $@) $(LD) -r --force-group-allocation -o $(BUILD)/libheed.o $^ && \
	    objcopy --wildcard --keep-global-symbol='heed_*' $(BUILD)/libheed.o && rm -f $@ && \
	    $(AR) rcs $@ $(BUILD)/libheed.o

# The CUDA runtime is inside; cuBLASLt, half a gigabyte, is found beside the plug-in or where the
# toolkit is.
CUDA_LINK = -cudart static -o $@ $^ -L$(CUDA_HOME)/lib64 -lcublasLt -lrt -lpthread -ldl
$(BUILD)/libheed-cuda.so: $(CUDA_OBJ)
	@echo '{ global: heed_cuda_open; local: *; };' >$(BUILD)/exports-cuda
	$(call short,link $@) $(NVCC) -shared $(CUDA_LINK) \
	    -Xlinker --version-script=$(BUILD)/exports-cuda,-z,defs \
	    -Xlinker '-rpath=$$ORIGIN:$$ORIGIN/..:$$ORIGIN/../lib:/usr/local/cuda/lib64'

# Of a plug-in named NAME nothing but heed_NAME_open is seen.
PLUGIN_LINK = $(call short,link $@) mkdir -p $(@D) && \
    echo '{ global: heed_$(1)_open; local: *; };' >$(BUILD)/exports-$(1) && $(CC) -shared \
    -Wl,-z,defs -Wl,--version-script=$(BUILD)/exports-$(1) -o $@ $^
$(BUILD)/libheed-mpi.so: $(MPI_OBJ)
	$(call PLUGIN_LINK,mpi) $(shell pkg-config --libs ompi-c)

$(BUILD)/libheed-nccl.so: $(NCCL_OBJ)
	$(call PLUGIN_LINK,nccl) -ldl

# A device that is none, for tests of what ranks say about theirs.
PRETEND_OBJ = $(patsubst %.c,$(BUILD)/plugin/%.o,tests/pretend.c $(wildcard src/backend/ref/*.c) \
              $(addprefix src/backend/,beam.c device.c host.c) $(addprefix src/base/,err.c mem.c))
$(PRETEND_SO): $(PRETEND_OBJ)
	$(call PLUGIN_LINK,cuda) -lm

# The GPU's kernels as plain C++, for tests of them on a CPU (tests/emulated/README.md). Programs
# look for libcuda.so.1 to see whether there is a driver.
EMULATED_OBJ = $(patsubst %,$(EMULATED)/%.o,$(basename $(CUDA_SRC) $(wildcard tests/emulated/*.cc)))
EMULATED_FLAGS = -std=c++20 -O2 -g -Wall -Wextra -Werror -Wno-unknown-pragmas \
    -Wno-maybe-uninitialized -Wno-psabi -fPIC -fvisibility=hidden -ffp-contract=off \
    -fno-math-errno -fno-strict-aliasing -Itests/emulated/include -Iinclude -Isrc
$(EMULATED)/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call short,c++ $< (emulated)) $(CXX) -x c++ $(EMULATED_FLAGS) -MMD -MP -c $< -o $@
$(EMULATED)/%.o: %.cc $(BUILD)/flags
	@mkdir -p $(@D)
	$(call short,c++ $<) $(CXX) $(EMULATED_FLAGS) -MMD -MP -c $< -o $@
$(EMULATED)/libheed-cuda.so: $(EMULATED_OBJ) $(BUILD)/plugin/src/base/err.o \
                             $(BUILD)/plugin/src/backend/device.o
	@echo '{ global: heed_cuda_open; cuInit; cuDeviceGetCount; local: *; };' >$(EMULATED)/exports
	$(call short,link $@) $(CXX) -shared -Wl,-z,defs -Wl,--version-script=$(EMULATED)/exports \
	    -o $@ $^ -ldl -pthread && ln -sf $(@F) $(EMULATED)/libcuda.so.1
$(EMULATED)/broken: $(EMULATED)/tests/emulated/broken.o $(EMULATED)/tests/emulated/block.o \
                    $(EMULATED)/tests/emulated/runtime.o
	$(call short,link $@) $(CXX) -o $@ $^ -ldl -pthread

# Times single kernels, so it takes the plug-in's objects instead of loading it.
$(BUILD)/bench/attention: $(BUILD)/bench/attention.cu.o $(CUDA_OBJ)
	$(call short,link $@) $(NVCC) $(CUDA_LINK) \
	    -Xlinker -rpath=/usr/local/cuda/lib64

# Tests see hidden symbols too, and link only the objects they reach.
$(BUILD)/tests/objects.a: $(HELPER_OBJ) $(SERVE_OBJ) $(LIB_OBJ) \
                          $(BUILD)/src/bench/layer.o $(BUILD)/src/bench/fit.o \
                          $(BUILD)/src/bench/predict.o
	$(call short,archive $@) mkdir -p $(@D) && rm -f $@ && $(AR) rcs $@ $^

$(TEST_BIN): %: %.o $(BUILD)/tests/objects.a
	$(call short,link $@) $(CC) $(CFLAGS) -o $@ $^ $(LDLIBS) $(TEST_LIBS)

$(FUZZ_BIN): %: %.o $(BUILD)/tests/objects.a
	$(call short,link $@) $(CXX) $(CFLAGS) -fsanitize=fuzzer -o $@ $^ $(LDLIBS)

# ---- running -------------------------------------------------------------------------------------

demo: ## translate with the models that come with heed: sentences, scores, a prompt
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(BUILD)/heed
	@demo/run.sh $(BUILD)/heed $(BUILD)/demo $(MODELS)

demo-train: ## train a small translator from nothing in a minute or two, and show it
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(BUILD)/heed
	@demo/train.sh $(BUILD)/heed $(BUILD)/demo

# The runner is tried alone first: had it lost the power to fail, it could not report that itself.
test: ## build and run all tests; TESTS=pattern picks some
	@tools/deps.sh test
	@tools/deps.sh ranks || echo 'without them the tests of ranks are left out'
	@$(MAKE) --no-print-directory all test-programs
	+@$(if $(FUZZ_IN_TEST),if tools/deps.sh fuzz 2>/dev/null; then $(FUZZ_BUILD); fi)
	@tests/test_runner.sh
	@tests/run.sh -o $(BUILD)/tests/summary $(if $(TESTS),-k '$(TESTS)') \
	    $(filter $(BUILD)/tests/test_%,$(TEST_BIN)) $(wildcard tests/test_*.sh)

test-serve: ## heed serve against programs from PyPI that know LibreTranslate
	@tools/deps.sh test
	@$(MAKE) --no-print-directory $(BUILD)/heed
	@tests/serve/peers.sh

test-slow: ## heed serve under slowhttptest: slow heads, bodies and readers
	@tools/deps.sh slow
	@$(MAKE) --no-print-directory $(BUILD)/heed
	@tests/serve/slow.sh

# Machines made of network namespaces; as root.
test-cluster: ## ranks on four machines, or what looks like them: same bytes, faults; needs root
	@tools/deps.sh cluster
	@tools/deps.sh slurm || echo 'without it the steps with Slurm are left out'
	@$(MAKE) --no-print-directory all test-programs
	@tests/cluster.sh

test-import: ## trained models of CTranslate2, Argos and Bergamot from PyPI, beside their engines
	@tools/deps.sh test
	@$(MAKE) --no-print-directory $(BUILD)/heed
	@tests/import/real.sh || [ $$? = 77 ] # it says what it left out, and why

soak: ## heed serve for SECONDS=600 under 200 clients that ask, abort and talk nonsense
	@tools/deps.sh test
	@$(MAKE) --no-print-directory $(BUILD)/heed
	@tests/serve/soak.sh $(if $(filter command line environment,$(origin SECONDS)),$(SECONDS),600)

# On a machine with a GPU: what involves it, and nothing that may be left out.
test-gpu: ## the tests that need a GPU; under compute-sanitizer too, where it is
	@tools/deps.sh test
	@$(MAKE) --no-print-directory CUDA=1 all test-programs
	@HEED_TEST_GPU=1 tests/gpu.sh $(BUILD)

test-emulated: ## the GPU's tests without a GPU, its kernels compiled for the CPU; half an hour
	@tools/deps.sh test
	@$(MAKE) --no-print-directory all test-programs
	@tests/emulated.sh --all $(BUILD)

test-bare: ## both commands of the README on a bare Debian 12, in a chroot; needs root
	@tools/deps.sh bare
	@tools/bare.sh

bench-gpu: ## speed on a GPU, beside PyTorch when it is installed
	@tools/deps.sh build
	@$(MAKE) --no-print-directory CUDA=1 all
	bench/gpu.sh bench $(BUILD)

test-programs: $(TEST_BIN) $(PRETEND_SO) $(EMULATED)/libheed-cuda.so $(EMULATED)/broken

# Fuzzing wants clang, and the library compiled for it. In `make test` it is left out where clang
# cannot be had, where TESTS asks for something else, and in sanitizer builds, since it has its own.
FUZZ_FLAGS = -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined \
    -fno-sanitize-recover=all
FUZZ_BUILD = $(MAKE) --no-print-directory BUILD=$(BUILD)/fuzz CUDA=0 CC=clang CXX=clang++ \
    CWARN=-Wno-error KERNEL_CHECKS=-fno-sanitize=all CFLAGS='$(FUZZ_FLAGS)' fuzz-programs
FUZZ_IN_TEST = $(if $(filter 0,$(TEST_SLOW)),,$(if $(TESTS),$(findstring fuzz,$(TESTS)),yes))
SECONDS ?= 60
paper-smoke: ## run the recipes of the paper's tables and figures at toy size
	+@$(MAKE) --no-print-directory test TESTS=test_paper

fuzz: ## throw bytes at every parser; SECONDS=60 for each, FUZZ=name picks one
	@tools/deps.sh fuzz
	+@$(FUZZ_BUILD)
	@tests/fuzz/run.sh $(SECONDS) $(BUILD)/fuzz/found \
	    $(addprefix $(BUILD)/fuzz/,$(basename $(if $(FUZZ),tests/fuzz/fuzz_$(FUZZ).c,$(FUZZ_SRC))))

fuzz-programs: $(FUZZ_BIN)

# ASan's stack-use-after-return check stays off: GCC before 13.3 misaligns 64-byte vectors in its
# frames. Address randomisation can place memory where ThreadSanitizer cannot look, so it goes where
# it may.
SANITIZE = $(MAKE) --no-print-directory test TEST_SCALE=10 TEST_SLOW=0 CUDA=0
NO_ASLR  = $(shell setarch -R true 2>/dev/null && echo setarch -R)
asan: ## tests under AddressSanitizer and UndefinedBehaviorSanitizer
	ASAN_OPTIONS=handle_segv=2:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	$(SANITIZE) BUILD=$(BUILD)/asan \
	    CFLAGS='-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all'

tsan: ## tests under ThreadSanitizer
	TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1 \
	$(NO_ASLR) $(SANITIZE) BUILD=$(BUILD)/tsan \
	    CFLAGS='-O1 -g -fno-omit-frame-pointer -fsanitize=thread'

# Test sets are looked for in HEED_DATA; SCORES='--json FILE --f32 DIR ...': bench/scores.py --help.
MODELS ?= models
scores: ## quality, robustness, size and speed of the models in MODELS, beside what was asked
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(BUILD)/heed
	@python3 bench/scores.py --heed $(BUILD)/heed --out $(BUILD)/scores --models $(MODELS) $(SCORES)

bench: ## speed of products, training and scaling; beside PyTorch when it is installed
	@tools/deps.sh build
	@$(MAKE) --no-print-directory $(BUILD)/heed
	$(BUILD)/heed bench gemm
	$(BUILD)/heed bench train --preset base --tokens 4096
	$(BUILD)/heed bench scale
	@if python3 -c 'import torch' 2>/dev/null; then python3 bench/torch_cpu.py; \
	 else echo 'no PyTorch here (python3-torch): comparison left out'; fi

lint: ## house rules, format, cppcheck, clang-tidy, exported symbols
	@tools/deps.sh lint
	@$(MAKE) --no-print-directory $(LIB_SO) $(LIB_A)
	@tools/lint.sh
	@$(MAKE) --no-print-directory --keep-going --output-sync tidy

# clang-tidy, once per change of a file: it depends on the object, which knows the headers.
tidy: $(patsubst %.o,%.tidy,$(LIB_OBJ) $(CLI_OBJ))
$(BUILD)/%.tidy: %.c $(BUILD)/%.o .clang-tidy
	@clang-tidy --quiet $< -- $(ALL_CFLAGS) $(ISA_$(call isa_of,$<)) 2>/dev/null && touch $@
$(BUILD)/%.tidy: %.cc $(BUILD)/%.o .clang-tidy
	@clang-tidy --quiet $< -- $(ALL_CXXFLAGS) 2>/dev/null && touch $@

format: ## rewrite all C files the way .clang-format says
	@tools/deps.sh lint
	git ls-files '*.c' '*.cc' '*.cu' '*.h' | xargs clang-format -i

deps: ## install what building, testing and linting need
	tools/deps.sh lint

# ---- installing ----------------------------------------------------------------------------------

DEST = $(DESTDIR)$(PREFIX)

install: all ## into PREFIX (default /usr/local), below DESTDIR
	@$(MAKE) --no-print-directory install-built

install-built: install-models
	install -D -m 755 $(BUILD)/heed $(DEST)/bin/heed
	install -D -m 644 include/heed.h $(DEST)/include/heed.h
	install -D -m 644 $(LIB_A) $(DEST)/lib/libheed.a
	install -D -m 755 $(LIB_SO) $(DEST)/lib/libheed.so.$(VERSION)
	ln -sf libheed.so.$(VERSION) $(DEST)/lib/libheed.so.$(MAJOR)
	ln -sf libheed.so.$(VERSION) $(DEST)/lib/libheed.so
	for plugin in $(wildcard $(BUILD)/libheed-*.so); do \
	    install -D -m 755 $$plugin $(DEST)/lib/heed/$${plugin##*/} || exit 1; done
	mkdir -p $(DEST)/lib/pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@REQUIRES@|$(PKGS)|' \
	    heed.pc.in >$(DEST)/lib/pkgconfig/heed.pc
	install -D -m 644 $(BUILD)/heed.1 $(DEST)/share/man/man1/heed.1
	install -D -m 644 $(BUILD)/heed.bash $(DEST)/share/bash-completion/completions/heed
	install -D -m 644 $(BUILD)/heed.zsh $(DEST)/share/zsh/site-functions/_heed
	install -D -m 644 $(BUILD)/heed.fish $(DEST)/share/fish/vendor_completions.d/heed.fish

# The models that come with the source: their files, and links to them such as `default`. Whatever
# else lies in share/heed/models is left alone.
MODELS = models
MODEL_FILES = $(if $(wildcard $(MODELS)/.),$(shell cd $(MODELS) && find . -maxdepth 2 \
    \( -path './*/*' -type f \( -name config.json -o -name model.safetensors \
    -o -name tokenizer.model -o -name README.md -o -name 'LICEN[CS]E*' \) \
    -o -not -path './*/*' -type l \) -printf '%P\n'))
DEST_MODELS = $(DEST)/share/heed/models
install-models:
	@for file in $(MODEL_FILES); do \
	    mkdir -p "$$(dirname "$(DEST_MODELS)/$$file")" && \
	    if [ -L "$(MODELS)/$$file" ]; then cp -PT --remove-destination "$(MODELS)/$$file" \
	        "$(DEST_MODELS)/$$file"; \
	    else install -m 644 "$(MODELS)/$$file" "$(DEST_MODELS)/$$file"; fi && \
	    echo "$(DEST_MODELS)/$$file" || exit 1; done

uninstall: ## remove what install put there
	rm -f $(DEST)/bin/heed $(DEST)/include/heed.h $(DEST)/lib/libheed.a $(DEST)/lib/libheed.so* \
	    $(DEST)/lib/heed/libheed-*.so \
	    $(DEST)/lib/pkgconfig/heed.pc $(DEST)/share/man/man1/heed.1 \
	    $(DEST)/share/bash-completion/completions/heed $(DEST)/share/zsh/site-functions/_heed \
	    $(DEST)/share/fish/vendor_completions.d/heed.fish $(MODEL_FILES:%=$(DEST_MODELS)/%)
	@for folder in $(patsubst %,$(DEST_MODELS)/%,$(sort $(dir $(MODEL_FILES)))) $(DEST_MODELS) \
	    $(DEST)/share/heed; do rmdir "$$folder" 2>/dev/null || true; done

# A folder that runs where nothing can be installed. The program is linked once more, to look for
# libraries beside itself, theirs included (which only the older kind of run path does). CUBLAS=1
# takes cuBLASLt along, half a gigabyte; machines with CUDA's toolkit have it.
CUBLAS ?= 0
DIST   ?= $(BUILD)/dist
dist: all ## build/dist/heed-VERSION and its .tar.gz: all that a machine needs to run it
	@$(MAKE) --no-print-directory dist-built

dist-built:
	@mkdir -p $(DIST)
	$(call short,link $(DIST)/heed) $(CC) $(CFLAGS) -o $(DIST)/heed $(CLI_OBJ) $(LIB_OBJ) \
	    $(CLI_LIBS) $(LDLIBS) -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib'
	@tools/dist.sh $(BUILD) $(DIST) $(VERSION) $(CUBLAS) $(MODELS) \
	    $(LOADED_ZIP) $(LOADED_GNUTLS)

clean: ## remove the build folder
	rm -rf $(BUILD)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

export BUILD TEST_SCALE TEST_SLOW
-include $(patsubst %.o,%.d,$(LIB_OBJ) $(CLI_OBJ) $(TEST_OBJ) $(HELPER_OBJ) $(FUZZ_OBJ) \
    $(CUDA_OBJ) $(MPI_OBJ) $(NCCL_OBJ) $(PRETEND_OBJ) $(EMULATED_OBJ) \
    $(EMULATED)/tests/emulated/broken.o)
.SECONDARY:
.DELETE_ON_ERROR:
.PHONY: all demo demo-train test test-serve test-slow test-cluster test-import soak test-gpu \
        test-emulated test-bare bench-gpu dist dist-built test-programs fuzz paper-smoke \
        fuzz-programs asan tsan bench scores lint tidy format deps install install-built uninstall \
        clean help FORCE
