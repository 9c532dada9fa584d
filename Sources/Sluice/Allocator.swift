import CMalloc

/// What the C library's allocator is told.
enum Allocator {
    /// Keeps what was freed in few heaps.
    ///
    /// Each of glibc's arenas, up to eight a core, keeps memory that others could use; two serve this process as well.
    static func useFewArenas() {
        _ = mallopt(M_ARENA_MAX, 2)
    }
}
