#include <libpq-fe.h>

// Linux calls that Swift's Glibc module leaves out.
#include <pthread.h>
#include <sys/eventfd.h>

// Declared here because the system's header hides it unless _GNU_SOURCE is set for the whole module.
extern int pthread_setname_np(pthread_t thread, const char *name);
