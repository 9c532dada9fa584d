// The escapes of strings (RFC 8259, section 7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace csj {

constexpr uint32_t not_hex = 0xffffffff;

inline uint32_t hex_digit(uint8_t c) {
    if (c >= '0' && c <= '9') { return c - '0'; }
    const uint8_t letter = c | 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10u : not_hex;
}

// The value of four hexadecimal digits, or not_hex.
inline uint32_t hex_quad(const uint8_t *p) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t digit = hex_digit(p[i]);
        if (digit == not_hex) { return not_hex; }
        value = value << 4 | digit;
    }
    return value;
}

inline bool is_high_surrogate(uint32_t c) { return (c & 0xfffffc00) == 0xd800; }
inline bool is_low_surrogate(uint32_t c) { return (c & 0xfffffc00) == 0xdc00; }

// One escape, read from its backslash on.
struct Escape {
    uint32_t character;  // a lone surrogate is kept as it is
    uint32_t length;     // bytes read; 0 if the escape is malformed
};

inline Escape read_escape(const uint8_t *p, const uint8_t *end) {
    if (end - p < 2) { return {0, 0}; }
    switch (p[1]) {
        case '"': return {'"', 2};
        case '\\': return {'\\', 2};
        case '/': return {'/', 2};
        case 'b': return {'\b', 2};
        case 'f': return {'\f', 2};
        case 'n': return {'\n', 2};
        case 'r': return {'\r', 2};
        case 't': return {'\t', 2};
        case 'u': break;
        default: return {0, 0};
    }
    if (end - p < 6) { return {0, 0}; }
    const uint32_t first = hex_quad(p + 2);
    if (first == not_hex) { return {0, 0}; }
    if (is_high_surrogate(first) && end - p >= 12 && p[6] == '\\' && p[7] == 'u') {
        const uint32_t second = hex_quad(p + 8);
        if (second != not_hex && is_low_surrogate(second)) {
            return {0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12};
        }
    }
    return {first, 6};
}

// Hands the runs without escapes and the characters of valid escapes to `run` and `character`, in order.
template <typename Run, typename Character>
inline void each_part(const uint8_t *p, size_t count, Run run, Character character) {
    const uint8_t *end = p + count;
    while (p < end) {
        const auto *backslash = static_cast<const uint8_t *>(std::memchr(p, '\\', size_t(end - p)));
        const uint8_t *stop = backslash ? backslash : end;
        if (stop > p) { run(p, size_t(stop - p)); }
        if (!backslash) { return; }
        const Escape escape = read_escape(backslash, end);
        if (escape.length == 0) { return; }
        character(escape.character);
        p = backslash + escape.length;
    }
}

// UTF-8, and the same pattern for lone surrogates (WTF-8), so that every distinct text has distinct bytes.
inline uint8_t *append_utf8(uint8_t *out, uint32_t c) {
    if (c < 0x80) {
        *out++ = uint8_t(c);
    } else if (c < 0x800) {
        *out++ = uint8_t(0xc0 | c >> 6);
        *out++ = uint8_t(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = uint8_t(0xe0 | c >> 12);
        *out++ = uint8_t(0x80 | (c >> 6 & 0x3f));
        *out++ = uint8_t(0x80 | (c & 0x3f));
    } else {
        *out++ = uint8_t(0xf0 | c >> 18);
        *out++ = uint8_t(0x80 | (c >> 12 & 0x3f));
        *out++ = uint8_t(0x80 | (c >> 6 & 0x3f));
        *out++ = uint8_t(0x80 | (c & 0x3f));
    }
    return out;
}

}  // namespace csj
