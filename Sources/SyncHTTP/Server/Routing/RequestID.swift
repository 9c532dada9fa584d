import Foundation
package import HTTPTypes
import JSONText
import SyncModel

/// The request's id in responses, logs and problems.
package enum RequestID {
    package static let maximumLength = 128
    private static let ids = UUIDv4Generator()

    /// The client's `X-Request-ID` if it is sane, otherwise a new UUID.
    package static func of(_ headers: HTTPFields) -> String {
        if let given = headers[.xRequestID], isSane(given) { return given }
        return make()
    }

    package static func make() -> String { ids.make().lowercased }

    /// 1 to 128 letters, digits, dots, underscores and hyphens: nothing that could confuse a log or a header.
    package static func isSane(_ text: String) -> Bool {
        let bytes = text.utf8
        return !bytes.isEmpty && bytes.count <= maximumLength && bytes.allSatisfy(isAllowed)
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"): true
        default: false
        }
    }
}
