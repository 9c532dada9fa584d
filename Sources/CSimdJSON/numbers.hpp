// The grammar of numbers (RFC 8259, section 6) and the range of PostgreSQL's numeric.
#pragma once

#include <cstdint>

namespace csj {

struct Number {
    const uint8_t *end;  // after the number, or the invalid byte
    bool valid;
    bool integer;
    bool in_range;
};

// PostgreSQL's numeric holds this many digits before and after the decimal point.
constexpr int64_t maximum_integer_digits = 131072;
constexpr int64_t maximum_fraction_digits = 16383;
// Far outside of every range, and far from overflow when a text of digits is added.
constexpr int64_t exponent_cap = 1073741823;

inline bool is_digit(uint8_t c) { return uint8_t(c - '0') <= 9; }

inline const uint8_t *skip_digits(const uint8_t *p, const uint8_t *end) {
    while (p < end && is_digit(*p)) { p++; }
    return p;
}

inline const uint8_t *skip_zeros(const uint8_t *p, const uint8_t *end) {
    while (p < end && *p == '0') { p++; }
    return p;
}

// PostgreSQL counts the fraction's digits as written, zeros too, but the integer's from the first that isn't zero.
inline bool fits_numeric(
    const uint8_t *whole, const uint8_t *whole_end, const uint8_t *fraction, const uint8_t *fraction_end,
    int64_t exponent) {
    if (exponent >= exponent_cap || exponent <= -exponent_cap) { return false; }
    if ((fraction_end - fraction) - exponent > maximum_fraction_digits) { return false; }
    const uint8_t *first = skip_zeros(whole, whole_end);
    if (first < whole_end) { return (whole_end - first) + exponent <= maximum_integer_digits; }
    first = skip_zeros(fraction, fraction_end);
    if (first == fraction_end) { return true; }
    return exponent - (first - fraction) <= maximum_integer_digits;
}

inline Number read_number(const uint8_t *p, const uint8_t *end) {
    if (*p == '-') { p++; }
    const uint8_t *whole = p;
    p = skip_digits(p, end);
    if (p == whole) { return {p, false, false, false}; }
    if (*whole == '0' && p - whole > 1) { return {whole + 1, false, false, false}; }
    const uint8_t *whole_end = p;
    const uint8_t *fraction = p, *fraction_end = p;
    int64_t exponent = 0;
    bool has_exponent = false;
    if (p < end && *p == '.') {
        fraction = ++p;
        fraction_end = p = skip_digits(p, end);
        if (fraction == fraction_end) { return {p, false, false, false}; }
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        has_exponent = true;
        p++;
        const bool negative = p < end && *p == '-';
        if (p < end && (*p == '-' || *p == '+')) { p++; }
        const uint8_t *digits = p;
        for (; p < end && is_digit(*p); p++) {
            if (exponent < exponent_cap) { exponent = exponent * 10 + (*p - '0'); }
        }
        if (p == digits) { return {p, false, false, false}; }
        if (negative) { exponent = -exponent; }
    }
    const bool integer = fraction == whole_end && !has_exponent;
    const bool plainly_in_range = !has_exponent && p - whole <= maximum_fraction_digits;
    return {p, true, integer, plainly_in_range || fits_numeric(whole, whole_end, fraction, fraction_end, exponent)};
}

}  // namespace csj
