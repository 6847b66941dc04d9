# SPDX-License-Identifier: Apache-2.0
# Shortcuts over CMake. Each installs what is missing on a Debian system first.
#
#   make          build the library and the nibble tool into build/
#   make install  install what make has built: PREFIX=/usr/local is where, DESTDIR a folder that stands for /
#   make demo     build, then run the operators on a real model's weights, on the CPU
#   make check    build and pass all tests: with gcc, under sanitizers, and on a software GPU
#   make quick    the gcc tests alone
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

# The library and the tool alone; check.sh makes builds of its own that have the tests.
all: deps
	@cmake -S . -B $(BUILD) -G Ninja -DBUILD_TESTING=OFF -DNIB_EXTRAS=OFF >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)

deps:
	@tools/install-deps.sh build

# Builds only where nothing is built: it may run as another user than make.
install:
	@test -e $(BUILD)/libnibble_static.a || $(MAKE) all
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

demo: all
	@tools/demo.sh $(BUILD)

check:
	@tools/check.sh

quick:
	@tools/check.sh gcc

clean:
	rm -rf build

.PHONY: all deps install demo check quick clean
