package import JSONText
package import SyncModel

extension PushAnswer: AnswerBody {
    package var expectedBytes: Int { 256 + verdicts.count * 512 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("accepted_sequence", acceptedSequence)
        writer.member("feed", feed)
        writer.member("held_by", hold)
        writer.member("results", verdicts.enumerated()) { writer, verdict in
            writer.beginObject()
            verdict.element.writeResultMembers(of: entry(verdict.offset), to: &writer)
            writer.warning(warnings[verdict.offset], at: verdict.offset)
            writer.endObject()
        }
        writer.member("id_mappings", mappings)
    }
}
