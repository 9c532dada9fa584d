extension [UInt8] {
    /// JSON text without line ends.
    ///
    /// Line ends are between tokens only: within strings they are escaped.
    public var inOneLine: [UInt8] {
        guard contains(where: { $0 == 0x0a || $0 == 0x0d }) else { return self }
        return map { $0 == 0x0a || $0 == 0x0d ? 0x20 : $0 }
    }
}
