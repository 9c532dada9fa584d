#include "duplicates.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "siphash.hpp"

namespace {

// Up to this many members, comparing every pair of signatures costs less than a table.
constexpr uint32_t small_count = 16;

struct Bytes {
    const uint8_t *start;
    size_t count;
};

// Reads names unescaped. One reader holds one unescaped name at a time.
class NameReader {
public:
    NameReader(const uint8_t *text, const csj_node *nodes) : text_(text), nodes_(nodes) {}

    bool read(uint32_t name, Bytes &bytes) {
        const csj_node &node = nodes_[name];
        bytes = {text_ + node.start + 1, node.end - node.start - 2};
        if (!(node.flags & CSJ_HAS_ESCAPES)) { return true; }
        if (bytes.count > capacity_) {
            buffer_.reset(new (std::nothrow) uint8_t[bytes.count]);
            capacity_ = buffer_ ? bytes.count : 0;
            if (!buffer_) { return false; }
        }
        bytes.count = csj_unescape(bytes.start, bytes.count, buffer_.get());
        bytes.start = buffer_.get();
        return true;
    }

private:
    const uint8_t *text_;
    const csj_node *nodes_;
    std::unique_ptr<uint8_t[]> buffer_;
    size_t capacity_ = 0;
};

// The length and the bytes at both ends, which differ for almost all names of one object.
inline uint32_t signature(Bytes name) {
    uint64_t head = 0, tail = 0;
    if (name.count >= 8) {
        std::memcpy(&head, name.start, 8);
        std::memcpy(&tail, name.start + name.count - 8, 8);
    } else if (name.count >= 4) {
        uint32_t first, last;
        std::memcpy(&first, name.start, 4);
        std::memcpy(&last, name.start + name.count - 4, 4);
        head = first;
        tail = last;
    } else if (name.count > 0) {
        head = uint64_t(name.start[0]) | uint64_t(name.start[name.count / 2]) << 8;
        tail = name.start[name.count - 1];
    }
    const uint64_t mixed =
        (head * 0x9e3779b97f4a7c15) ^ (tail * 0xc2b2ae3d27d4eb4f) ^ (name.count * 0x165667b19e3779f9);
    return uint32_t(mixed >> 32) ^ uint32_t(mixed);
}

class Search {
public:
    Search(const uint8_t *text, const csj_node *nodes, void *context, bool (*found)(void *, uint32_t))
        : nodes_(nodes), reader_(text, nodes), other_(text, nodes), context_(context), found_(found) {}

    bool pairs(uint32_t first, uint32_t count) {
        uint32_t names[small_count];
        // Signatures past `count` are compared and ignored, so that the loop has a fixed length.
        uint32_t signatures[small_count] = {};
        uint32_t name = first;
        for (uint32_t i = 0; i < count; i++, name = nodes_[name + 1].next) {
            Bytes bytes;
            if (!reader_.read(name, bytes)) { return false; }
            names[i] = name;
            signatures[i] = signature(bytes);
        }
        for (uint32_t i = 1; i < count; i++) {
            uint32_t equal = 0;
            for (uint32_t j = 0; j < small_count; j++) { equal += signatures[j] == signatures[i]; }
            if (equal == 1) { continue; }
            for (uint32_t j = 0; j < i; j++) {
                if (signatures[j] != signatures[i]) { continue; }
                bool same;
                if (!compare(names[j], names[i], same)) { return false; }
                if (!same) { continue; }
                if (!found_(context_, names[i])) { return false; }
                break;
            }
        }
        return true;
    }

    bool table(uint32_t first, uint32_t count) {
        uint32_t size = 64;
        while (size < count * 2) { size *= 2; }
        std::unique_ptr<Slot, decltype(&std::free)> slots(
            static_cast<Slot *>(std::calloc(size, sizeof(Slot))), &std::free);
        if (!slots) { return false; }
        uint32_t name = first;
        for (uint32_t i = 0; i < count; i++, name = nodes_[name + 1].next) {
            Bytes bytes;
            if (!reader_.read(name, bytes)) { return false; }
            const uint64_t hash = csj::siphash(bytes.start, bytes.count);
            bool same = false;
            Slot *slot = nullptr;
            for (uint32_t at = uint32_t(hash);; at++) {
                slot = slots.get() + (at & (size - 1));
                // Node 0 is never a name, so it marks an empty slot.
                if (slot->name == 0) { break; }
                if (slot->tag != uint32_t(hash >> 32)) { continue; }
                if (!compare(slot->name, name, same)) { return false; }
                if (same) { break; }
            }
            if (!same) {
                *slot = {uint32_t(hash >> 32), name};
            } else if (!found_(context_, name)) {
                return false;
            }
        }
        return true;
    }

private:
    struct Slot {
        uint32_t tag;
        uint32_t name;
    };

    bool compare(uint32_t left, uint32_t right, bool &same) {
        Bytes a, b;
        if (!reader_.read(left, a) || !other_.read(right, b)) { return false; }
        same = a.count == b.count && std::memcmp(a.start, b.start, a.count) == 0;
        return true;
    }

    const csj_node *nodes_;
    NameReader reader_;
    NameReader other_;
    void *context_;
    bool (*found_)(void *, uint32_t);
};

}  // namespace

bool csj::each_duplicate(
    const uint8_t *text, const csj_node *nodes, uint32_t object, uint32_t member_count, void *context,
    bool (*found)(void *context, uint32_t name)) {
    Search search(text, nodes, context, found);
    return member_count <= small_count ? search.pairs(object + 1, member_count)
                                       : search.table(object + 1, member_count);
}
