package import JSONText
package import SyncModel

extension PushAnswer: AnswerBody {
    package var expectedBytes: Int { 256 + verdicts.count * 512 }

    package func writeMembers(to writer: inout JSONWriter) {
        var contents = AnswerContents(room: contentRoom)
        writer.member("accepted_sequence", acceptedSequence)
        writer.member("feed", feed)
        writer.member("held_by", blocker)
        writer.member("results", verdicts.enumerated()) { writer, verdict in
            writer.beginObject()
            verdict.element.writeResultMembers(of: entry(verdict.offset), &contents, at: verdict.offset, to: &writer)
            writer.warning(warnings[verdict.offset], at: verdict.offset)
            writer.endObject()
        }
        writer.member("id_mappings", mappings)
    }
}

extension PushAnswer {
    /// The maximum size of the response, in bytes.
    package var estimatedBytes: Int { leastBytes + min(contentBytes, contentRoom) }

    /// The maximum size of the response without its large parts, in bytes.
    package var leastBytes: Int {
        let long = mappings.reduce(0) { $0 + max(0, ($1.serverID?.text.utf8.count ?? 0) - WorkCost.mapping / 2) }
        return WorkCost.answer(entries: verdicts.count, mappings: mappings.count) + long
    }

    /// The size of the response's large parts, in bytes. The response may omit some of these parts.
    package var contentBytes: Int { verdicts.reduce(0) { $0 + ($1.record?.contentBytes ?? 0) } }
}

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
        if let route {
            writer.member("route") { writer in
                writer.member("method", route.method)
                writer.member("path", route.path)
            }
        } else {
            writer.member(null: "route")
        }
    }
}

extension BoundedCount: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("count", count)
        writer.member("is_more", isMore)
    }
}

extension Subject: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("issuer", issuer.string)
        writer.member("subject", text.string)
    }
}
