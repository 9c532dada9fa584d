package import JSONText
package import SyncModel

extension PushPreview: AnswerBody {
    package var expectedBytes: Int { 256 + results.count * 1_024 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("accepted_sequence", acceptedSequence)
        writer.member("results", results)
        writer.member("id_mappings", mappings)
    }
}

extension PushPreview.Result: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        verdict.writeResultMembers(of: EntryName(entry), to: &writer)
        writer.member("request", request)
        writer.member("conflict", raw: conflict)
        writer.warning(warning, at: entry.index)
    }
}

extension PreviewedRequest: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("method", method)
        writer.member("path", path)
        writer.member("headers") { writer in
            for header in headers {
                writer.name(header.name)
                writer.string(header.value)
            }
        }
        writer.member("body", raw: body)
        writer.member("unresolved_ids", unresolvedIDs) { $0.value($1) }
    }
}
