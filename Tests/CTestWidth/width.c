#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

// Swift Testing begins all tests of a process at once. Most of ours have a database, a gateway or several processes of
// their own: together they would be each other's load, and what is late for a reason could not be told from what is
// late for none. So no more run at a time than there are processors, two at least, since most of what a test does is to
// wait. A test's time limit begins when it really runs.
//
// The variable is read when the run starts, after the constructors; from Swift 6.3 on. One that is set is left alone.
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
