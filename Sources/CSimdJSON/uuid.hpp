#pragma once

#include <cstdint>
#include <cstring>

namespace csj {

constexpr uint32_t uuid_length = 36;

// Branch-free over the digits, so that the compiler can take sixteen at a time.
inline bool is_uuid(const uint8_t *text) {
    if (text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-') { return false; }
    uint8_t digits[uuid_length];
    std::memcpy(digits, text, uuid_length);
    digits[8] = digits[13] = digits[18] = digits[23] = '0';
    uint8_t bad = 0;
    for (uint32_t i = 0; i < uuid_length; i++) {
        const uint8_t decimal = uint8_t(digits[i] - '0');
        const uint8_t letter = uint8_t((digits[i] | 0x20) - 'a');
        bad |= uint8_t((decimal > 9) & (letter > 5));
    }
    return bad == 0;
}

}  // namespace csj
