// SPDX-License-Identifier: Apache-2.0

// Simulates a busy disk: fsync and fdatasync take five seconds.

#include <unistd.h>

int fsync(int file)
{
  (void)file;
  sleep(5);
  return 0;
}

int fdatasync(int file)
{
  return fsync(file);
}
