/* Preloaded into the processes of a chaos run: clocks that step and syncs that fail, as one shared page says.
 *
 * CLOCK_BOOTTIME jumps for all processes at once, as after a suspend. The wall clock and fsync(2) are each
 * role's own (CHAOS_ROLE); the page is CHAOS_PAGE. Without a page everything is as it was.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define ROLES 64
#define NS 1000000000LL

struct page {
    int64_t boot_ahead_ns;
    struct {
        int64_t wall_ahead_ns;
        int64_t sync_errno;
    } role[ROLES];
};

static const volatile struct page *page;
static int role;

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CHAOS_PAGE"), *number = getenv("CHAOS_ROLE");
    int fd;
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    if (path == NULL || (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return;
    void *at = mmap(NULL, sizeof(struct page), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return;
    role = number != NULL ? atoi(number) % ROLES : 0;
    page = at;
}

static int64_t ahead_ns(clockid_t clock)
{
    if (page == NULL)
        return 0;
    if (clock == CLOCK_BOOTTIME)
        return page->boot_ahead_ns;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        return page->role[role].wall_ahead_ns;
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    if (real_clock_gettime == NULL)
        real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real_clock_gettime(clock, at);
    int64_t ahead = result == 0 ? ahead_ns(clock) : 0;
    if (ahead != 0) {
        int64_t sum = at->tv_sec * NS + at->tv_nsec + ahead;
        at->tv_sec = sum / NS;
        at->tv_nsec = sum % NS;
    }
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL)
        *at = now.tv_sec;
    return now.tv_sec;
}

static int failing(void)
{
    int64_t code = page != NULL ? page->role[role].sync_errno : 0;
    if (code != 0)
        errno = (int)code;
    return code != 0;
}

int fsync(int fd)
{
    return failing() ? -1 : real_fsync(fd);
}

int fdatasync(int fd)
{
    return failing() ? -1 : real_fdatasync(fd);
}
