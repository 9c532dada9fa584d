import Foundation
import JSONText
import SyncHTTP

/// Frames of the operators' events (WHATWG HTML, 9.2.5).
///
/// They have no ids: a client that reconnects reads all of it again.
enum OperatorFrame {
    static let opening = Array("retry: 2000\n\n".utf8)

    static func now(_ view: NowView) -> [UInt8] { frame("now", view.json()) }

    /// Something of an organization was changed; nil: of which is not known.
    static func changed(_ organization: UUID?) -> [UInt8] {
        frame("changed", JSONWriter.object { $0.member("organization_id", organization) })
    }

    static func moved(_ operation: UUID, of organization: UUID) -> [UInt8] {
        let data = JSONWriter.object { writer in
            writer.member("id", operation)
            writer.member("organization_id", organization)
        }
        return frame("operation", data)
    }

    /// The data have no line breaks.
    private static func frame(_ name: StaticString, _ data: [UInt8]) -> [UInt8] {
        Array("event: \(name)\ndata: ".utf8) + data + Array("\n\n".utf8)
    }
}
