#include "escapes.hpp"

#include "csimdjson.h"

namespace {

uint8_t *append_pair(uint8_t *out, char second) {
    *out++ = '\\';
    *out++ = uint8_t(second);
    return out;
}

uint8_t *append_hex_escape(uint8_t *out, uint32_t c) {
    out = append_pair(out, 'u');
    for (int shift = 12; shift >= 0; shift -= 4) { *out++ = uint8_t("0123456789abcdef"[c >> shift & 15]); }
    return out;
}

// The shortest way to write a character in a string; never longer than any escape it can have come from.
uint8_t *append_shortest(uint8_t *out, uint32_t c) {
    switch (c) {
        case '"': return append_pair(out, '"');
        case '\\': return append_pair(out, '\\');
        case '\b': return append_pair(out, 'b');
        case '\f': return append_pair(out, 'f');
        case '\n': return append_pair(out, 'n');
        case '\r': return append_pair(out, 'r');
        case '\t': return append_pair(out, 't');
        default: break;
    }
    if (c < 0x20 || csj::is_high_surrogate(c) || csj::is_low_surrogate(c)) { return append_hex_escape(out, c); }
    return csj::append_utf8(out, c);
}

template <typename Append>
size_t transform(const uint8_t *content, size_t count, uint8_t *out, Append append) {
    uint8_t *p = out;
    csj::each_part(
        content, count,
        [&](const uint8_t *run, size_t length) {
            std::memcpy(p, run, length);
            p += length;
        },
        [&](uint32_t c) { p = append(p, c); });
    return size_t(p - out);
}

}  // namespace

extern "C" size_t csj_unescape(const uint8_t *content, size_t count, uint8_t *out) {
    return transform(content, count, out, csj::append_utf8);
}

extern "C" size_t csj_normalize_escapes(const uint8_t *content, size_t count, uint8_t *out) {
    return transform(content, count, out, append_shortest);
}
