import Foundation
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// A page of an organization's mutations, and who its users are.
struct OperatorMutationPage: AnswerBody {
    let page: MutationPage
    /// The issuers' names for the users of the page, if there are any.
    let subjects: [UUID: [Subject]]

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("mutations", page.mutations)
        // by user, as the mutations are
        let users = page.mutations.map(\.user).reduce(into: [UUID]()) { if $0.last != $1 { $0.append($1) } }
        writer.member("users", users) { writer, user in
            writer.object { writer in
                writer.member("id", user)
                writer.member("subjects", subjects[user] ?? [])
            }
        }
        writer.member("next", page.next)
    }
}
