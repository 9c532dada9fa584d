#include "diagnosis.hpp"

#include "csimdjson.h"

namespace {

inline bool is_continuation(uint8_t c) { return (c & 0xc0) == 0x80; }

// The length of the well-formed sequence at `p` (Unicode, table 3-7), or 0.
size_t utf8_length(const uint8_t *p, size_t left) {
    const uint8_t c = p[0];
    if (c < 0x80) { return 1; }
    if (c < 0xc2 || c > 0xf4) { return 0; }
    const size_t length = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (left < length) { return 0; }
    for (size_t i = 1; i < length; i++) {
        if (!is_continuation(p[i])) { return 0; }
    }
    if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f)) { return 0; }
    if ((c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] > 0x8f)) { return 0; }
    return length;
}

}  // namespace

csj::Fault csj::diagnose(const uint8_t *text, size_t count) {
    bool in_string = false;
    bool escaped = false;
    size_t quote = 0;
    for (size_t i = 0; i < count;) {
        const size_t length = utf8_length(text + i, count - i);
        const uint8_t c = text[i];
        if (length == 0) { return {CSJ_INVALID_UTF8, uint32_t(i)}; }
        if (in_string && c < 0x20) { return {CSJ_CONTROL_CHARACTER, uint32_t(i)}; }
        if (escaped) {
            escaped = false;
        } else if (c == '"') {
            in_string = !in_string;
            quote = i;
        } else if (c == '\\') {
            // No text may have one outside of strings, so what simdjson takes it to escape there does not matter.
            if (!in_string) { return {CSJ_EXPECTED_VALUE, uint32_t(i)}; }
            escaped = true;
        }
        i += length;
    }
    if (in_string) { return {CSJ_UNTERMINATED_STRING, uint32_t(quote)}; }
    return {CSJ_EXPECTED_VALUE, 0};
}
