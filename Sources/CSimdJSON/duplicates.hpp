#pragma once

#include <cstdint>

#include "csimdjson.h"

namespace csj {

// Calls `found` with every name node of an object whose unescaped text an earlier name of it has. Linear in the names'
// bytes, for any input. False if memory ran out.
bool each_duplicate(
    const uint8_t *text, const csj_node *nodes, uint32_t object, uint32_t member_count, void *context,
    bool (*found)(void *context, uint32_t name));

}  // namespace csj
