public import Foundation

/// The errors of the library. The library also throws errors of the database.
public enum SluiceError: LocalizedError, Sendable, Hashable, CustomStringConvertible {
    /// The entities or the database are unsuitable for the client. This is a programming error, which the app's first
    /// run reveals.
    case configuration(String)
    /// A record cannot be written as JSON, or the gateway would not accept a payload.
    case invalid(String)
    /// An update, replacement or deletion of a row that was neither enqueued nor pulled before.
    case unknownEntity(entityType: String, key: String)
    /// The outbox has no mutation with this id.
    case unknownMutation
    /// The mutation's state does not allow the call. For example, a mutation that succeeded cannot be retried.
    case stateForbids(String)
    /// Other writes depend on the mutation, but the call does not specify what to do with these writes. The value is
    /// their number.
    case hasDependents(Int)
    /// Writes that are not confirmed or wait for a decision would be lost. The value is their number.
    case pendingWrites(Int)
    /// The database and the token belong to different users.
    case otherAccount
    /// The user has signed out of this database. Create a client for the next user.
    case signedOut
    /// An update or replacement of a row that was deleted on this phone or by another user, or whose create was
    /// discarded; or a reference to a row whose create was discarded.
    ///
    /// The app may still show the row if a foreign key in the app's tables forbids the deletion, or as long as later
    /// writes of the row wait (``Dependents/keep``). The deletion of such a row succeeds, and enqueues no mutation.
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
        case .otherAccount: "the token belongs to another user than the writes in this database"
        case .signedOut: "the user has signed out of this database: create a new client for the next user"
        case .deleted(let type, let key): "'\(type)' \(key) was deleted, or its create was discarded"
        }
    }
}

// Aliases for apps in which another module also declares a `JSON` or a `NetworkMonitor`. `SluiceClient.JSON` would not
// refer to the module's type, because the module contains a class of the same name.

/// An alias of ``ConflictResolution`` for files where that name has another meaning.
public typealias SluiceConflictResolution = ConflictResolution
/// An alias of ``Dependents`` for files where that name has another meaning.
public typealias SluiceDependents = Dependents
/// An alias of ``FailedWrite`` for files where that name has another meaning.
public typealias SluiceFailedWrite = FailedWrite

/// An alias of ``JSON`` for files where that name has another meaning.
public typealias SluiceJSON = JSON
/// An alias of ``NetworkMonitor`` for files where that name has another meaning.
public typealias SluiceNetworkMonitor = NetworkMonitor
/// An alias of ``Outcome`` for files where that name has another meaning.
public typealias SluiceOutcome = Outcome
/// An alias of ``Problem`` for files where that name has another meaning.
public typealias SluiceProblem = Problem
/// An alias of ``SyncStatus`` for files where that name has another meaning.
public typealias SluiceSyncStatus = SyncStatus
/// An alias of ``Winner`` for files where that name has another meaning.
public typealias SluiceWinner = Winner
/// An alias of ``Write`` for files where that name has another meaning.
public typealias SluiceWrite = Write
