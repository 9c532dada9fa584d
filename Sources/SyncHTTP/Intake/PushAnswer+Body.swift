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
    /// The maximum number of bytes of the response.
    package var estimatedBytes: Int { leastBytes + min(contentBytes, contentRoom) }

    /// The maximum number of bytes of the response without its large parts.
    package var leastBytes: Int {
        let long = mappings.reduce(0) { $0 + max(0, ($1.serverID?.text.utf8.count ?? 0) - WorkCost.mapping / 2) }
        return WorkCost.answer(entries: verdicts.count, mappings: mappings.count) + long
    }

    /// The bytes of its large parts, some of which the response may leave out.
    package var contentBytes: Int { verdicts.reduce(0) { $0 + ($1.record?.contentBytes ?? 0) } }
}
