package import JSONText
import SyncHTTP
package import SyncModel

extension CircuitReport: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("organization_id", organization)
        writer.member("state", (isHalfOpen ? "half_open" : "open") as StaticString)
        writer.member("since", since.rfc3339)
        writer.member("failures", failures)
        writer.member("last_error", lastError)
        writer.member("next_probe_at", nextProbeAt.rfc3339)
    }
}
