package import JSONText
import SyncModel
package import SyncStore

extension DiscardedMutation: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        let id = mutation.record.id
        mutation.writeMembers(to: &writer)
        // the mutation's own id first
        writer.member("discarded", [id] + ids.filter { $0 != id })
    }
}
