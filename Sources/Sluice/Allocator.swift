import CMalloc

/// Settings of the C library's allocator.
enum Allocator {
    /// Keeps freed memory in few heaps.
    ///
    /// Each of glibc's arenas, up to eight a core, keeps memory that the others could use; two serve this process as
    /// well.
    static func useFewArenas() {
        _ = mallopt(M_ARENA_MAX, 2)
    }
}
