#include "uuid.hpp"

#include "csimdjson.h"

namespace {

// Where the sixteen bytes' digit pairs are in the text.
constexpr uint8_t pair_offsets[16] = {0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34};

inline uint8_t digit(uint8_t character) { return uint8_t((character & 0x0f) + 9 * (character >> 6)); }

struct HexPairs {
    char text[256][2];
    constexpr HexPairs() : text() {
        for (int i = 0; i < 256; i++) {
            text[i][0] = "0123456789abcdef"[i >> 4];
            text[i][1] = "0123456789abcdef"[i & 15];
        }
    }
};
constexpr HexPairs hex_pairs;

}  // namespace

extern "C" bool csj_parse_uuid(const uint8_t *text, uint8_t *out) {
    if (!csj::is_uuid(text)) { return false; }
    for (int i = 0; i < 16; i++) {
        const uint8_t *pair = text + pair_offsets[i];
        out[i] = uint8_t(digit(pair[0]) << 4 | digit(pair[1]));
    }
    return true;
}

extern "C" void csj_format_uuid(const uint8_t *uuid, uint8_t *out) {
    for (int i = 0; i < 16; i++) { std::memcpy(out + pair_offsets[i], hex_pairs.text[uuid[i]], 2); }
    out[8] = out[13] = out[18] = out[23] = '-';
}
