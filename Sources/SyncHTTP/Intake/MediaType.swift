import HTTPTypes
import SyncModel

/// Whether a body is what endpoints read: JSON, not compressed.
enum MediaType {
    /// - Throws: `unsupported_media_type`.
    static func requireJSON(_ headers: HTTPFields) throws(Problem) {
        if let encoding = headers[.contentEncoding], !isIdentity(encoding) {
            throw Problem(.unsupportedMediaType, "Content-Encoding must be absent or identity.")
        }
        guard let type = headers[.contentType], isJSON(type) else {
            throw Problem(.unsupportedMediaType, "Content-Type must be application/json.")
        }
    }

    /// `application/json`, and at most a `charset` that says UTF-8, which JSON is in any case.
    static func isJSON(_ value: String) -> Bool {
        if value == "application/json" { return true }
        let parts = value.utf8.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false).map {
            $0.trimmed.lowercased
        }
        guard parts[0] == "application/json" else { return false }
        return parts.dropFirst().allSatisfy { parameter in
            ["", "charset=utf-8", "charset=\"utf-8\""].contains(parameter)
        }
    }

    static func isIdentity(_ value: String) -> Bool {
        value.utf8.split(separator: UInt8(ascii: ",")).allSatisfy {
            $0.trimmed.lowercased == "identity"
        }
    }
}
