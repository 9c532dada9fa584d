#ifndef CONSOLE_H
#define CONSOLE_H

#include <stddef.h>
#include <stdint.h>

/// A file of the console, which is part of the program.
struct console_asset {
    /// The name below `assets`.
    const char *name;
    const uint8_t *bytes;
    size_t length;
};

/// The number of files.
size_t console_asset_count(void);

/// Returns a file by its index, from 0.
struct console_asset console_asset_at(size_t index);

#endif
