package import JSONText
import SyncModel
package import SyncStore

extension Subject: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("issuer", issuer.string)
        writer.member("subject", text.string)
    }
}
