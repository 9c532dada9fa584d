package import JSONText
import SyncStore

extension CappedCount: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("count", count)
        writer.member("is_more", isMore)
    }
}
