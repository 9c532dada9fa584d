// The parts that Swift's module of the C library omits.
#pragma once
#include <sys/epoll.h>
