package import JSONText
package import SyncModel
package import SyncStore

extension IDMapping: AnswerBody {
    package var expectedBytes: Int { 192 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("entity_type", entityType)
        switch client {
        case .id(let id): writer.member("client_id", id)
        case .number(let number, _): writer.member("client_id", number)
        }
        writer.member("server_id", serverID)
        writer.member("status", status.rawValue)
    }
}

extension MappingPage: AnswerBody {
    package var expectedBytes: Int { 128 + mappings.count * 192 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id_mappings", mappings)
        writer.member("next", next.text)
        writer.member("up_to_date", isUpToDate)
    }
}
