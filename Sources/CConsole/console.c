#include "console.h"

// SwiftPM would embed the files as array literals of Swift, which take its compiler long; see CContract.
#pragma clang diagnostic ignored "-Wc23-extensions"

// A file of `assets` is a list of its bytes here, and a line of the table below.

static const uint8_t index_html[] = {
#embed "assets/index.html"
};

#define ASSET(name, bytes) {name, bytes, sizeof bytes}

static const struct console_asset assets[] = {
    ASSET("index.html", index_html),
};

size_t console_asset_count(void) { return sizeof assets / sizeof assets[0]; }

struct console_asset console_asset_at(size_t index) { return assets[index]; }
