/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"

#include <stdlib.h>

#include "files.h"

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

char *cli_cache_path(const char *name)
{
#ifdef _WIN32
    const char *home = environment("LOCALAPPDATA");
    return home ? cli_format("%s/nibble/%s", home, name) : NULL;
#else
    const char *cache = environment("XDG_CACHE_HOME"), *home = environment("HOME");
    if (cache)
        return cli_format("%s/nibble/%s", cache, name);
    return home ? cli_format("%s/.cache/nibble/%s", home, name) : NULL;
#endif
}
