/* Shifts the wall clock of one process by so many seconds as a file of eight bytes says, a double; other clocks go on.
 * LD_PRELOAD it; CHAOS_CLOCK names the file. Python reads its clock by clock_gettime alone; the others are for libraries. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static const volatile double *shift;

static double seconds(void) {
  if (!shift) {
    const char *name = getenv("CHAOS_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(0, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
    static const double none = 0;
    shift = page == MAP_FAILED ? &none : page;
  }
  return *shift;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, time);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += (time_t)seconds();
  return failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  int failed = clock_gettime(CLOCK_REALTIME, &now);
  (void)zone;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return failed;
}

time_t time(time_t *place) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (place) *place = now.tv_sec;
  return now.tv_sec;
}
