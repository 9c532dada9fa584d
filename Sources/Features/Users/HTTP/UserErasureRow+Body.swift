package import Foundation
package import JSONText
import SyncHTTP
import SyncModel

/// The response to a request to erase the user with an id.
package struct UserErasureAnswer: AnswerBody {
    let user: UUID
    let erasure: UserErasureRow

    package init(user: UUID, erasure: UserErasureRow) {
        self.user = user
        self.erasure = erasure
    }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("user", user)
        writer.member("state", erasure.state.rawValue)
        writer.member("started_at", erasure.startedAt.rfc3339)
        writer.member("finished_at", erasure.finishedAt?.rfc3339)
        writer.member("attempts", Int64(erasure.attempts))
        writer.member("last_error", erasure.lastError)
    }
}
