/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* deflate expands up to 1032-fold */
    return fuzz_file(NIB_FILE_NPZ, data, size, 2048);
}
