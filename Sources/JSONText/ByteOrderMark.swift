extension [UInt8] {
    private static let byteOrderMark: [UInt8] = [0xef, 0xbb, 0xbf]

    /// The bytes without one UTF-8 byte order mark at their beginning.
    ///
    /// A reader of JSON may ignore it (RFC 8259, 8.1). Use it for texts of other servers, whose authors cannot be
    /// asked to correct them: ``JSONTree`` itself refuses the mark.
    public var withoutByteOrderMark: [UInt8] {
        starts(with: Self.byteOrderMark) ? Array(dropFirst(Self.byteOrderMark.count)) : self
    }
}
