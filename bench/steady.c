/* The same "random" numbers for each run, so that two runs execute the same instructions.
 *
 * Loaded before the C library (LD_PRELOAD) where instructions are counted: the seeds of hash tables come from
 * getrandom(2).
 *
 *   cc -O2 -shared -fPIC -o steady.so steady.c
 */
#include <string.h>
#include <sys/types.h>

ssize_t getrandom(void *to, size_t bytes, unsigned flags)
{
    (void)flags;
    memset(to, 0x5a, bytes);
    return (ssize_t)bytes;
}
