package import JSONText
import SyncHTTP
import SyncModel

extension UserJoinRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("user", user)
        writer.member("into", target)
        writer.member("state", state.rawValue)
        writer.member("started_at", startedAt.rfc3339)
        writer.member("finished_at", finishedAt?.rfc3339)
    }
}
