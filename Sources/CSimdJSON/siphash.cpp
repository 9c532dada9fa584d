#include "siphash.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <cstring>
#include <ctime>

namespace {

struct Key {
    uint64_t k0, k1;
    Key() {
        if (getentropy(this, sizeof *this) != 0) {
            k0 = uint64_t(std::time(nullptr)) * 0x9e3779b97f4a7c15;
            k1 = uint64_t(getpid()) ^ reinterpret_cast<uintptr_t>(this);
        }
    }
};

inline uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

struct State {
    uint64_t v0, v1, v2, v3;
    void round() {
        v0 += v1; v1 = rotate(v1, 13); v1 ^= v0; v0 = rotate(v0, 32);
        v2 += v3; v3 = rotate(v3, 16); v3 ^= v2;
        v0 += v3; v3 = rotate(v3, 21); v3 ^= v0;
        v2 += v1; v1 = rotate(v1, 17); v1 ^= v2; v2 = rotate(v2, 32);
    }
    void absorb(uint64_t word) {
        v3 ^= word;
        round();
        v0 ^= word;
    }
};

}  // namespace

uint64_t csj::siphash(const uint8_t *bytes, size_t count) {
    static const Key key;
    State state{
        key.k0 ^ 0x736f6d6570736575, key.k1 ^ 0x646f72616e646f6d,
        key.k0 ^ 0x6c7967656e657261, key.k1 ^ 0x7465646279746573};
    uint64_t word;
    for (size_t left = count; left >= 8; left -= 8, bytes += 8) {
        std::memcpy(&word, bytes, 8);
        state.absorb(word);
    }
    word = 0;
    std::memcpy(&word, bytes, count & 7);
    state.absorb(word | uint64_t(count) << 56);
    state.v2 ^= 0xff;
    for (int i = 0; i < 3; i++) { state.round(); }
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}
