/* SPDX-License-Identifier: Apache-2.0
 *
 * Run a fuzz target over files and folders, so that every compiler and sanitizer runs the corpus as
 * an ordinary test.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In memory of exactly its size, so that a sanitizer sees a read beyond it. */
static int replay_file(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (!file || stat(path, &info) != 0) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        return 1;
    }
    const size_t size = (size_t)info.st_size;
    uint8_t *data = malloc(size ? size : 1);
    const int failed = !data || fread(data, 1, size, file) != size;
    fclose(file);
    if (!failed)
        LLVMFuzzerTestOneInput(data, size);
    free(data);
    ++*count;
    return failed;
}

static int replay_folder(const char *path, size_t *count)
{
    DIR *folder = opendir(path);
    int failed = !folder;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char member[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(member, sizeof member, "%s/%s", path, entry->d_name);
        failed |= replay_file(member, count);
    }
    if (folder)
        closedir(folder);
    return failed;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        const int is_folder = stat(argv[i], &info) == 0 && S_ISDIR(info.st_mode);
        failed |= is_folder ? replay_folder(argv[i], &count) : replay_file(argv[i], &count);
    }
    const char *slash = strrchr(argv[0], '/'), *target = slash ? slash + 1 : argv[0];
    if (failed || count == 0)
        printf("%s: FAILED, %s\n", target,
               count ? "not every file could be read" : "there is no file to replay");
    else
        printf("%s: went through %zu files of its corpus without a crash\n", target, count);
    return failed || count == 0;
}
