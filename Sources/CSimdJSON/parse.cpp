#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "csimdjson.h"
#include "duplicates.hpp"
#include "escapes.hpp"
#include "marks.hpp"
#include "numbers.hpp"
#include "uuid.hpp"

namespace {

inline bool is_space(uint8_t c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Whether a byte may follow a number or a literal.
inline bool ends_scalar(uint8_t c) {
    return is_space(c) || c == ',' || c == ']' || c == '}' || c == ':' || c == '[' || c == '{';
}

inline bool has_backslash(const uint8_t *p, size_t count) {
    if (count > 64) { return std::memchr(p, '\\', count) != nullptr; }
    constexpr uint64_t ones = 0x0101010101010101;
    uint64_t found = 0, word;
    const auto matches = [](uint64_t w) {
        w ^= ones * '\\';
        return (w - ones) & ~w & (ones * 0x80);
    };
    if (count < 8) {
        for (size_t i = 0; i < count; i++) { found |= p[i] == '\\'; }
        return found != 0;
    }
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        std::memcpy(&word, p + i, 8);
        found |= matches(word);
    }
    std::memcpy(&word, p + count - 8, 8);
    return (found | matches(word)) != 0;
}

// Walks the marks of one text and writes its nodes. The open containers are a separate stack, so a text can't reach the
// native one.
class Walk {
public:
    Walk(const uint8_t *text, uint32_t length, const csj::Marks &marks, csj_limits limits)
        : text_(text),
          length_(length),
          marks_(marks.offsets()),
          mark_count_(marks.count()),
          node_limit_(limits.nodes),
          depth_limit_(std::min(limits.depth, CSJ_MAXIMUM_DEPTH)) {}

    ~Walk() { csj_free(nodes_, defects_); }
    Walk(const Walk &) = delete;
    Walk &operator=(const Walk &) = delete;

    csj_result run() {
        // Every node has its own mark. Pages that no node reaches are never touched.
        capacity_ = std::min(mark_count_, node_limit_);
        nodes_ = static_cast<csj_node *>(std::malloc(sizeof(csj_node) * std::max(capacity_, 1u)));
        if (!nodes_) {
            fail(CSJ_OUT_OF_MEMORY, 0);
        } else if (values()) {
            return take();
        }
        return {nullptr, nullptr, 0, 0, error_, error_offset_};
    }

private:
    struct Frame {
        uint32_t node;
        uint32_t members;
    };

    bool fail(uint32_t error, uint32_t offset) {
        error_ = error;
        error_offset_ = offset;
        return false;
    }

    csj_result take() {
        auto *shrunk = static_cast<csj_node *>(std::realloc(nodes_, sizeof(csj_node) * count_));
        // A duplicate is found when its object closes, after the defects within.
        std::sort(defects_, defects_ + defect_count_, [](const csj_defect &a, const csj_defect &b) {
            return a.node != b.node ? a.node < b.node : a.kind < b.kind;
        });
        const csj_result result{shrunk ? shrunk : nodes_, defects_, count_, defect_count_, CSJ_OK, 0};
        nodes_ = nullptr;
        defects_ = nullptr;
        return result;
    }

    bool values() {
        for (;;) {
            bool entered;
            if (!value(entered)) { return false; }
            if (entered) { continue; }
            bool finished;
            if (!after_value(finished)) { return false; }
            if (finished) { return true; }
        }
    }

    // Reads a scalar, an empty container, or a container's opening up to its first value, which is `entered` then.
    inline bool value(bool &entered) {
        entered = false;
        if (mark_ == mark_count_) { return fail(CSJ_UNEXPECTED_END, length_); }
        const uint32_t at = marks_[mark_++];
        if (count_ == capacity_) { return fail(CSJ_TOO_MANY_NODES, at); }
        switch (text_[at]) {
            case '"': return string(at, CSJ_STRING);
            case '{':
                if (!open(at, CSJ_OBJECT)) { return false; }
                if (mark_ < mark_count_ && text_[marks_[mark_]] == '}') { return close(marks_[mark_++]); }
                entered = true;
                return name();
            case '[':
                if (!open(at, CSJ_ARRAY)) { return false; }
                if (mark_ < mark_count_ && text_[marks_[mark_]] == ']') { return close(marks_[mark_++]); }
                entered = true;
                return true;
            case 't': return literal(at, CSJ_TRUE, "true", 4);
            case 'f': return literal(at, CSJ_FALSE, "false", 5);
            case 'n': return literal(at, CSJ_NULL, "null", 4);
            case '-':
            case '0': case '1': case '2': case '3': case '4':
            case '5': case '6': case '7': case '8': case '9': return number(at);
            default: return fail(CSJ_EXPECTED_VALUE, at);
        }
    }

    // Reads the text after a value, closing containers, up to the next value or the end of the text.
    inline bool after_value(bool &finished) {
        finished = false;
        while (depth_ > 0) {
            if (mark_ == mark_count_) { return fail(CSJ_UNEXPECTED_END, length_); }
            const uint32_t at = marks_[mark_++];
            const bool in_object = nodes_[frames_[depth_ - 1].node].kind == CSJ_OBJECT;
            if (text_[at] == ',') { return in_object ? name() : true; }
            if (text_[at] != (in_object ? '}' : ']')) { return fail(CSJ_EXPECTED_COMMA_OR_END, at); }
            if (!close(at)) { return false; }
        }
        if (mark_ < mark_count_) { return fail(CSJ_TRAILING_CONTENT, marks_[mark_]); }
        finished = true;
        return true;
    }

    inline bool open(uint32_t at, uint8_t kind) {
        if (depth_ == depth_limit_) { return fail(CSJ_TOO_DEEP, at); }
        frames_[depth_++] = {count_, 0};
        nodes_[count_++] = {at, 0, 0, 1, kind, 0};
        return true;
    }

    inline bool close(uint32_t at) {
        const Frame frame = frames_[--depth_];
        csj_node &node = nodes_[frame.node];
        node.end = at + 1;
        node.next = count_;
        if (depth_ > 0) {
            csj_node &parent = nodes_[frames_[depth_ - 1].node];
            parent.height = std::max(parent.height, uint16_t(node.height + 1));
        }
        if (frame.members < 2) { return true; }
        if (csj::each_duplicate(text_, nodes_, frame.node, frame.members, this, record_duplicate)) { return true; }
        return fail(CSJ_OUT_OF_MEMORY, at);
    }

    inline bool name() {
        if (mark_ == mark_count_) { return fail(CSJ_UNEXPECTED_END, length_); }
        const uint32_t at = marks_[mark_++];
        if (text_[at] != '"') { return fail(CSJ_EXPECTED_NAME, at); }
        if (count_ == capacity_) { return fail(CSJ_TOO_MANY_NODES, at); }
        if (!string(at, CSJ_NAME)) { return false; }
        if (mark_ == mark_count_) { return fail(CSJ_UNEXPECTED_END, length_); }
        const uint32_t colon = marks_[mark_++];
        if (text_[colon] != ':') { return fail(CSJ_EXPECTED_COLON, colon); }
        frames_[depth_ - 1].members++;
        return true;
    }

    // Between a string's start and the next mark there are the string and white space only.
    inline bool string(uint32_t at, uint8_t kind) {
        uint32_t end = mark_ < mark_count_ ? marks_[mark_] : length_;
        while (is_space(text_[end - 1])) { end--; }
        if (end - at < 2 || text_[end - 1] != '"') { return fail(CSJ_UNTERMINATED_STRING, at); }
        const uint8_t *content = text_ + at + 1;
        const uint32_t size = end - at - 2;
        const uint32_t index = count_++;
        nodes_[index] = {at, end, index + 1, 0, kind, 0};
        if (has_backslash(content, size)) { return escapes(index, content, size); }
        if (size == csj::uuid_length && kind == CSJ_STRING && csj::is_uuid(content)) {
            nodes_[index].flags = CSJ_IS_UUID;
        }
        return true;
    }

    bool escapes(uint32_t index, const uint8_t *content, uint32_t size) {
        const uint8_t *end = content + size;
        bool nul = false, lone = false;
        size_t unescaped_size = size;
        const uint8_t *p = content;
        while ((p = static_cast<const uint8_t *>(std::memchr(p, '\\', size_t(end - p))))) {
            const csj::Escape escape = csj::read_escape(p, end);
            if (escape.length == 0) { return fail(CSJ_INVALID_ESCAPE, uint32_t(p - text_)); }
            nul |= escape.character == 0;
            lone |= csj::is_high_surrogate(escape.character) || csj::is_low_surrogate(escape.character);
            unescaped_size -= escape.length - 1;
            p += escape.length;
        }
        csj_node &node = nodes_[index];
        node.flags = CSJ_HAS_ESCAPES;
        // Exact for ASCII, which is all that a UUID has; anything else fails the test of its shape.
        if (unescaped_size == csj::uuid_length && size <= 6 * csj::uuid_length && node.kind == CSJ_STRING) {
            uint8_t unescaped[6 * csj::uuid_length];
            const size_t written = csj_unescape(content, size, unescaped);
            if (written == csj::uuid_length && csj::is_uuid(unescaped)) { node.flags |= CSJ_IS_UUID; }
        }
        if (nul && !record(index, CSJ_NUL_CHARACTER)) { return fail(CSJ_OUT_OF_MEMORY, node.start); }
        if (lone && !record(index, CSJ_LONE_SURROGATE)) { return fail(CSJ_OUT_OF_MEMORY, node.start); }
        return true;
    }

    inline bool number(uint32_t at) {
        const csj::Number number = csj::read_number(text_ + at, text_ + length_);
        const uint32_t end = uint32_t(number.end - text_);
        if (!number.valid || !scalar_ends(end)) { return fail(CSJ_INVALID_NUMBER, end); }
        const uint8_t flags = number.integer ? uint8_t(CSJ_IS_INTEGER) : uint8_t(0);
        nodes_[count_] = {at, end, count_ + 1, 0, CSJ_NUMBER, flags};
        count_++;
        if (number.in_range || record(count_ - 1, CSJ_NUMBER_OUT_OF_RANGE)) { return true; }
        return fail(CSJ_OUT_OF_MEMORY, at);
    }

    inline bool literal(uint32_t at, uint8_t kind, const char *spelling, uint32_t size) {
        const bool spelled = length_ - at >= size && std::memcmp(text_ + at, spelling, size) == 0;
        if (!spelled || !scalar_ends(at + size)) { return fail(CSJ_INVALID_LITERAL, at); }
        nodes_[count_] = {at, at + size, count_ + 1, 0, kind, 0};
        count_++;
        return true;
    }

    inline bool scalar_ends(uint32_t end) const { return end == length_ || ends_scalar(text_[end]); }

    static bool record_duplicate(void *walk, uint32_t name) {
        return static_cast<Walk *>(walk)->record(name, CSJ_DUPLICATE_MEMBER);
    }

    // At most one of each kind a node, so their number is bounded by the limit on nodes.
    bool record(uint32_t node, uint32_t kind) {
        if (defect_count_ == defect_capacity_) {
            const uint32_t capacity = std::max(16u, defect_capacity_ * 2);
            auto *grown = static_cast<csj_defect *>(std::realloc(defects_, sizeof(csj_defect) * capacity));
            if (!grown) { return false; }
            defects_ = grown;
            defect_capacity_ = capacity;
        }
        defects_[defect_count_++] = {node, kind};
        return true;
    }

    const uint8_t *const text_;
    const uint32_t length_;
    const uint32_t *const marks_;
    const uint32_t mark_count_;
    const uint32_t node_limit_;
    const uint32_t depth_limit_;
    csj_node *nodes_ = nullptr;
    csj_defect *defects_ = nullptr;
    uint32_t mark_ = 0;
    uint32_t count_ = 0;
    uint32_t capacity_ = 0;
    uint32_t depth_ = 0;
    uint32_t defect_count_ = 0;
    uint32_t defect_capacity_ = 0;
    uint32_t error_ = CSJ_OK;
    uint32_t error_offset_ = 0;
    Frame frames_[CSJ_MAXIMUM_DEPTH];
};

}  // namespace

extern "C" csj_result csj_parse(const uint8_t *text, size_t count, csj_limits limits) {
    const size_t byte_limit = std::min(limits.bytes, CSJ_MAXIMUM_BYTES);
    if (count > byte_limit) { return {nullptr, nullptr, 0, 0, CSJ_TOO_LONG, uint32_t(byte_limit)}; }
    const csj::Marks marks(text, count);
    if (marks.error() != CSJ_OK) { return {nullptr, nullptr, 0, 0, marks.error(), marks.error_offset()}; }
    return Walk(text, uint32_t(count), marks, limits).run();
}

extern "C" void csj_free(csj_node *nodes, csj_defect *defects) {
    std::free(nodes);
    std::free(defects);
}
