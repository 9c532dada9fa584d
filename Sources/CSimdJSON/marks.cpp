#include "marks.hpp"

#include <simdjson.h>

#include <new>

#include "csimdjson.h"
#include "diagnosis.hpp"

namespace {

// simdjson keeps four bytes of marks for each byte of text it can take.
constexpr size_t smallest_capacity = 16 * 1024;
constexpr size_t largest_spare_capacity = 256 * 1024;

size_t rounded_capacity(size_t count) {
    if (count > largest_spare_capacity) { return count; }
    size_t capacity = smallest_capacity;
    while (capacity < count) { capacity *= 2; }
    return capacity;
}

}  // namespace

struct csj::Marks::Scanner {
    std::unique_ptr<simdjson::internal::dom_parser_implementation> implementation;
    size_t capacity = 0;

    // Only the first stage is used; it has no use for a depth.
    static std::unique_ptr<Scanner> make(size_t capacity) {
        std::unique_ptr<Scanner> scanner(new (std::nothrow) Scanner);
        if (!scanner) { return nullptr; }
        const auto error = simdjson::get_active_implementation()->create_dom_parser_implementation(
            capacity, 1, scanner->implementation);
        if (error != simdjson::SUCCESS) { return nullptr; }
        scanner->capacity = capacity;
        return scanner;
    }
};

struct csj::Marks::Spare {
    static thread_local std::unique_ptr<Scanner> scanner;
};
thread_local std::unique_ptr<csj::Marks::Scanner> csj::Marks::Spare::scanner;

csj::Marks::Marks(const uint8_t *text, size_t count) {
    if (count == 0) {
        error_ = CSJ_EMPTY;
        return;
    }
    scanner_ = std::move(Spare::scanner);
    if (!scanner_ || scanner_->capacity < count) { scanner_ = Scanner::make(rounded_capacity(count)); }
    if (!scanner_) {
        error_ = CSJ_OUT_OF_MEMORY;
        return;
    }
    auto &implementation = *scanner_->implementation;
    const auto error = implementation.stage1(text, count, simdjson::stage1_mode::regular);
    if (error == simdjson::SUCCESS) {
        offsets_ = implementation.structural_indexes.get();
        count_ = implementation.n_structural_indexes;
    } else if (error == simdjson::EMPTY) {
        error_ = CSJ_EMPTY;
        error_offset_ = uint32_t(count);
    } else {
        const Fault fault = diagnose(text, count);
        error_ = fault.error;
        error_offset_ = fault.offset;
    }
}

csj::Marks::~Marks() {
    if (scanner_ && scanner_->capacity <= largest_spare_capacity) { Spare::scanner = std::move(scanner_); }
}
