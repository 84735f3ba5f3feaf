"""Libraries for LD_PRELOAD that change how a program reads one file."""

import os
import shutil
import subprocess

# The function `before` of a test comes in front of each read of READ_FILE. It may lower the count; it returns 0, or the number of
# an error with which the read fails.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
static int is_ours(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return strcmp(path, getenv("READ_FILE")) == 0;
}
static int before(size_t* count);
#define SHIM(name)                                                                     \
  ssize_t name(int fd, void* out, size_t count, off_t at) {                            \
    static ssize_t (*real)(int, void*, size_t, off_t);                                 \
    if (!real) real = (ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, #name);  \
    const int fault = is_ours(fd) ? before(&count) : 0;                                \
    if (fault == 0) return real(fd, out, count, at);                                   \
    errno = fault;                                                                     \
    return -1;                                                                         \
  }
SHIM(pread)
SHIM(pread64)
"""


def environment_of(test, name, before, file):
    """The environment of a program with the C function `before` in front of its reads of a file; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    source, shim = test.write(f"{name}.c", SHIM + before), test.path(f"{name}.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
    return {**os.environ, "LD_PRELOAD": str(shim), "READ_FILE": str(file)}
