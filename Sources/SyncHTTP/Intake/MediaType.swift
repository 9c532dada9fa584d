package import HTTPTypes
package import SyncModel

/// Whether a body is JSON, not compressed, as endpoints need it.
package enum MediaType {
    /// - Throws: `unsupported_media_type`.
    package static func requireJSON(_ headers: HTTPFields) throws(Problem) {
        if let encoding = headers[.contentEncoding], !isIdentity(encoding) {
            throw Problem(.unsupportedMediaType, "Content-Encoding must be absent or identity.")
        }
        guard let type = headers[.contentType], isJSON(type) else {
            throw Problem(.unsupportedMediaType, "Content-Type must be application/json.")
        }
    }

    /// `application/json` with any parameters: none has a meaning for JSON, which is UTF-8 in any case (RFC 8259, 11).
    package static func isJSON(_ value: String) -> Bool {
        if value == "application/json" { return true }
        let type = value.utf8.prefix { $0 != UInt8(ascii: ";") }
        return type.trimmed.lowercased == "application/json" && isOne(value)
    }

    /// Several fields of a name are joined by commas, which a single one may hold in quotes only.
    private static func isOne(_ value: String) -> Bool {
        var isQuoted = false
        var isEscaped = false
        for byte in value.utf8 {
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = isQuoted
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if byte == UInt8(ascii: ","), !isQuoted {
                return false
            }
        }
        return true
    }

    package static func isIdentity(_ value: String) -> Bool {
        value.utf8.split(separator: UInt8(ascii: ",")).allSatisfy {
            $0.trimmed.lowercased == "identity"
        }
    }
}
