#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

// Swift Testing starts all tests of a process at the same time. Most tests here start a database, a gateway or several
// processes. All together would overload the machine, and delays by that load could not be distinguished from faults. So
// at most one test per processor runs at a time, but at least two, because tests mostly wait. A test's time limit begins
// when the test runs.
//
// Swift 6.3 and later read the variable when the run starts, after the constructors. A variable that is set is kept.
__attribute__((constructor)) static void bound_width(void) {
    cpu_set_t processors;
    int count = 2;
    if (sched_getaffinity(0, sizeof processors, &processors) == 0 && CPU_COUNT(&processors) > count) {
        count = CPU_COUNT(&processors);
    }
    char text[16];
    snprintf(text, sizeof text, "%d", count);
    setenv("SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH", text, 0);
}
