import JSONText
package import SyncModel

/// A value that a mapping compares with. Nothing and null are one.
package enum MappedScalar: Sendable, Hashable {
    case text(ByteExactString)
    case integer(Int64)
    case bool(Bool)
    case null

    /// Nil for arrays, objects and numbers that are not whole.
    init?(_ value: JSONValue?) {
        guard let value, !value.isNull else {
            self = .null
            return
        }
        if let text = value.string {
            self = .text(ByteExactString(text))
        } else if let flag = value.bool {
            self = .bool(flag)
        } else if let number = value.int64 {
            self = .integer(number)
        } else {
            return nil
        }
    }

    /// The name of a member with this value.
    var name: String {
        switch self {
        case .text(let text): text.string
        case .integer(let number): String(number)
        case .bool(let flag): flag ? "true" : "false"
        case .null: "null"
        }
    }

    func write(to writer: inout JSONWriter) {
        switch self {
        case .text(let text): writer.string(text.string)
        case .integer(let number): writer.int(number)
        case .bool(let flag): writer.bool(flag)
        case .null: writer.null()
        }
    }
}
