public import Foundation

/// The errors of the library, in addition to the database's own.
public enum SluiceError: LocalizedError, Sendable, Hashable, CustomStringConvertible {
    /// The entities or the database are unsuitable for the client: a programming error, which the app's first run
    /// shows.
    case configuration(String)
    /// A record cannot be written as JSON, or the gateway would not accept a payload.
    case invalid(String)
    /// An update, replacement or deletion of a row that was neither enqueued nor pulled before.
    case unknownEntity(entityType: String, key: String)
    /// There is no mutation of this id in the outbox.
    case unknownMutation
    /// The mutation's state does not allow this: something that succeeded cannot be retried.
    case stateForbids(String)
    /// Other writes depend on the mutation, and the call does not specify their treatment.
    case hasDependents(Int)
    /// So many writes are not confirmed, or wait for a decision, and would be lost.
    case pendingWrites(Int)
    /// The database belongs to another user than the token.
    case otherAccount
    /// The user has signed out of this database: create a client for the next one.
    case signedOut
    /// The row was deleted, here or by another user, or its creation was given up.
    ///
    /// The app may still show it if its own foreign keys forbid the deletion.
    case deleted(entityType: String, key: String)

    public var errorDescription: String? { description }

    public var description: String {
        switch self {
        case .configuration(let text), .invalid(let text), .stateForbids(let text): text
        case .unknownEntity(let type, let key):
            "unknown '\(type)' \(key): it was neither created by enqueue(_:in:) nor pulled"
        case .unknownMutation: "the outbox does not contain this mutation"
        case .hasDependents(let count):
            "\(count) other writes depend on this one: specify whether to keep or discard them"
        case .pendingWrites(let count): "\(count) writes have not reached the server, and would be lost"
        case .otherAccount: "the token is of another user than the one whose writes this database has"
        case .signedOut: "the user has signed out of this database: create a new client for the next user"
        case .deleted(let type, let key): "'\(type)' \(key) was deleted"
        }
    }
}

// Names for an app, or another library, that also has a `JSON` or a `Problem`: the module's name would not distinguish
// them, because the class has the same name.

/// ``JSON``, where that name means something else.
public typealias SluiceJSON = JSON
/// ``Outcome``, where that name means something else.
public typealias SluiceOutcome = Outcome
/// ``Problem``, where that name means something else.
public typealias SluiceProblem = Problem
/// ``Write``, where that name means something else.
public typealias SluiceWrite = Write
