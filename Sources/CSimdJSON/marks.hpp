// simdjson's first stage: one pass over a text that checks its UTF-8 and its strings' control characters, and marks
// where every bracket, brace, colon, comma, string and other scalar starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace csj {

// Owns the marks of one text. Between texts the memory stays with the thread, if it is small.
class Marks {
public:
    Marks(const uint8_t *text, size_t count);
    ~Marks();
    Marks(const Marks &) = delete;
    Marks &operator=(const Marks &) = delete;

    const uint32_t *offsets() const { return offsets_; }
    uint32_t count() const { return count_; }
    uint32_t error() const { return error_; }  // a csj_error
    uint32_t error_offset() const { return error_offset_; }

private:
    struct Scanner;
    struct Spare;
    std::unique_ptr<Scanner> scanner_;
    const uint32_t *offsets_ = nullptr;
    uint32_t count_ = 0;
    uint32_t error_ = 0;
    uint32_t error_offset_ = 0;
};

}  // namespace csj
