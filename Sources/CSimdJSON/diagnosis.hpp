#pragma once

#include <cstddef>
#include <cstdint>

namespace csj {

struct Fault {
    uint32_t error;  // a csj_error
    uint32_t offset;
};

// Why and where simdjson's first stage refused a text: it answers only that it did.
Fault diagnose(const uint8_t *text, size_t count);

}  // namespace csj
