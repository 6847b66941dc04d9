/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#ifdef _WIN32
#include <io.h>
#define isatty _isatty
#define fileno _fileno
#else
#include <unistd.h>
#endif

#include "session.h"

bool cli_stderr_is_terminal(void)
{
    return isatty(fileno(stderr)) != 0;
}

#define BAR_COLUMNS 20

void cli_progress(const cli_session *session, size_t done, size_t total, const char *what)
{
    static const char full[] = "####################", empty[] = "....................";
    if (!session->progress)
        return;
    /* Return to the first column and clear the line, so that a shorter text leaves nothing behind.
     */
    if (total) {
        const int filled = (int)(done >= total ? BAR_COLUMNS : done * BAR_COLUMNS / total);
        fprintf(stderr, "\r\033[K[%.*s%.*s] %zu/%zu %.40s", filled, full, BAR_COLUMNS - filled,
                empty, done, total, what);
    } else {
        fprintf(stderr, "\r\033[K%.70s", what);
    }
    fflush(stderr);
}

void cli_progress_end(const cli_session *session)
{
    if (session->progress)
        fputs("\r\033[K", stderr);
}
