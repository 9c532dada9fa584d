package import JSONText
package import SyncModel

extension PushPreview: AnswerBody {
    package var expectedBytes: Int { 256 + results.count * 1_024 }

    package func writeMembers(to writer: inout JSONWriter) {
        var contents = AnswerContents()
        writer.member("accepted_sequence", acceptedSequence)
        writer.member("results", results.enumerated()) { writer, result in
            writer.object { result.element.writeMembers(&contents, at: result.offset, to: &$0) }
        }
        writer.member("id_mappings", mappings)
    }
}

extension PushPreview.Result {
    fileprivate func writeMembers(_ contents: inout AnswerContents, at index: Int, to writer: inout JSONWriter) {
        verdict.writeResultMembers(of: EntryName(entry), &contents, at: index, to: &writer)
        writer.member("request", request)
        switch conflict.map({ contents.show(error: $0, at: "/results/\(index)/conflict") }) {
        case .whole?: writer.member("conflict", raw: conflict)
        case .cut(let conflict)?: writer.member("conflict", raw: conflict)
        case .nothing?, nil: writer.member(null: "conflict")
        }
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
