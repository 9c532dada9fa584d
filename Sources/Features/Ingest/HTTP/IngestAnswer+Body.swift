package import JSONText
import SyncHTTP
package import SyncModel

extension IngestAnswer: AnswerBody {
    package var expectedBytes: Int { 64 + verdicts.count * 128 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("feed", feed)
        writer.name("results")
        writer.beginArray()
        for verdict in verdicts {
            writer.beginObject()
            writer.member("event_id", verdict.eventID)
            writer.member("result", verdict.result.rawValue)
            writer.member("version", verdict.version)
            writer.member("original", verdict.original?.rawValue)
            if let problem = verdict.problem {
                writer.name("error")
                problem.write(to: &writer)
            } else {
                writer.member(null: "error")
            }
            writer.endObject()
        }
        writer.endArray()
    }
}
