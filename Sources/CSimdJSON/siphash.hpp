// SipHash-1-3 with a key drawn once a process, so that no client can choose names that collide.
#pragma once

#include <cstddef>
#include <cstdint>

namespace csj {

uint64_t siphash(const uint8_t *bytes, size_t count);

}  // namespace csj
