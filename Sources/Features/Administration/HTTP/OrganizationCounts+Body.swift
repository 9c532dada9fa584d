package import JSONText
import SyncHTTP
import SyncStore

extension OrganizationCounts: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("failed", failed)
        writer.member("conflict", conflict)
        writer.member("halted_lanes", haltedLanes)
    }
}
