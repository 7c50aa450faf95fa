# heed — build. `make` builds build/heed; see the targets below and README.md.
BUILD ?= build
CC ?= gcc
CFLAGS ?= -O3 -g
WARN = -Wall -Wextra -Wshadow -Wvla -Werror -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
ALL_CFLAGS = -std=gnu11 $(CFLAGS) $(WARN) -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno \
             -pthread -Iinclude -Isrc -MMD -MP
LDLIBS = -lm -pthread

LIB_SRC := $(wildcard src/base/*.c src/backend/*.c src/backend/ref/*.c src/backend/cpu/*.c src/io/*.c \
                      src/model/*.c src/train/*.c)
CLI_SRC := $(wildcard src/cli/*.c)
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(BUILD)/%.o)

all: $(BUILD)/heed

# Kernels are compiled for the instruction set they are named after, and may contract a*b+c to an FMA.
ISA_generic    = -ffp-contract=fast
ISA_avx2       = -mavx2 -mfma -ffp-contract=fast
ISA_avx512     = -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512 -ffp-contract=fast
ISA_avx512bf16 = $(ISA_avx512) -mavx512bf16
ISA_amx        = $(ISA_avx512) -mamx-tile -mamx-bf16
isa_of = $(patsubst kernels_%,%,$(filter kernels_%,$(basename $(notdir $1))))

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ISA_$(call isa_of,$<)) -c $< -o $@

$(BUILD)/heed: $(CLI_OBJ) $(LIB_OBJ)
	$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)

clean:
	rm -rf $(BUILD)

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d)
.PHONY: all clean
