/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_file(NIB_FILE_NPY, data, size, 64);
}
