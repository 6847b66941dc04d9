#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# headers.sh INCLUDE_DIR: compile each public header alone, as C11 and as C++17. webgpu.h needs Dawn's header and is
# checked where that exists.
passed=0 failed=0
for header in "$1"/nibble/*.h; do
    case $header in
    */webgpu.h) echo '#include <webgpu/webgpu.h>' | ${CC:-cc} -fsyntax-only -x c - 2>/dev/null || {
        echo "NOT RUN: ${header##*/} (no webgpu/webgpu.h on this system)"
        continue
    } ;;
    esac
    if ${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$1" -x c -fsyntax-only "$header" &&
        ${CXX:-c++} -std=c++17 -Wall -Wextra -Wpedantic -Werror -I"$1" -x c++ -fsyntax-only "$header"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
