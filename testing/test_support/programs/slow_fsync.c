// SPDX-License-Identifier: Apache-2.0

// A busy disk: fsync takes five seconds.

#include <unistd.h>

int fsync(int file)
{
  (void)file;
  sleep(5);
  return 0;
}
