/* SPDX-License-Identifier: Apache-2.0
 *
 * A build without libzip knows an .npz when it sees one, and says that it cannot read it.
 */
#include "io/records.h"

nib_status nib_npz_parse(nib_file *file, nib_error *error)
{
    (void)file;
    return nib_fail(error, NIB_UNSUPPORTED,
                    "this library was built without libzip and reads no .npz");
}

nib_status nib_npz_read(const nib_file *file, const nib_record *record, void *to, nib_error *error)
{
    (void)file, (void)record, (void)to;
    return nib_fail(error, NIB_UNSUPPORTED,
                    "this library was built without libzip and reads no .npz");
}
