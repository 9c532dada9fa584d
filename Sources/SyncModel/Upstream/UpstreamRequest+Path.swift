extension UpstreamRequest {
    /// A path and query as a URL holds them, with all other characters percent-encoded. Existing escapes stay.
    public static func encoded(path: String) -> String {
        let bytes = Array(path.utf8)
        if bytes.allSatisfy(isKept) { return path }
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count)
        for (index, byte) in bytes.enumerated() {
            let isEscape =
                byte == UInt8(ascii: "%") && PercentEncoding.escape(bytes[(index + 1)...].prefix(2)) != nil
            if isKept(byte) || isEscape {
                output.append(byte)
            } else {
                output += PercentEncoding.escaped(byte)
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// RFC 3986: unreserved, sub-delims, ":", "@", "/" and "?".
    private static func isKept(_ byte: UInt8) -> Bool {
        switch byte {
        case 48...58, 63...90, 97...122, 0x5f, 0x7e, 0x21, 0x24, 0x26...0x2f, 0x3b, 0x3d: true
        default: false
        }
    }
}
