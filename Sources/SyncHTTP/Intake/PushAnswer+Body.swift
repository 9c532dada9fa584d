package import JSONText
package import SyncModel

extension PushAnswer: AnswerBody {
    package var expectedBytes: Int { 256 + verdicts.count * 512 }

    package func writeMembers(to writer: inout JSONWriter) {
        var contents = AnswerContents(room: contentRoom)
        writer.member("accepted_sequence", acceptedSequence)
        writer.member("feed", feed)
        writer.member("held_by", hold)
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
    /// The maximum number of bytes of the response; 0 if it has no large entities and no bodies of upstreams.
    package var estimatedBytes: Int {
        let contents = verdicts.reduce(0) { $0 + ($1.record?.contentBytes ?? 0) }
        return contents == 0 ? 0 : WorkCost.answer(entries: verdicts.count) + min(contents, contentRoom)
    }
}
