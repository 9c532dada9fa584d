#ifndef CONSOLE_H
#define CONSOLE_H

#include <stddef.h>
#include <stdint.h>

/// A file of the console, which is part of the program.
struct console_asset {
    /// Its name below `assets`.
    const char *name;
    const uint8_t *bytes;
    size_t length;
};

/// How many files there are.
size_t console_asset_count(void);

/// One of them, from 0 on.
struct console_asset console_asset_at(size_t index);

#endif
