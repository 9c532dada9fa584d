import Foundation
import SyncModel
import SyncStore

/// Opens stored values and seals them anew.
struct Renewal {
    let seal: Seal
    /// What a value's place is afterwards; usually it stays where it is.
    private let destination: @Sendable (SealedPlace) -> SealedPlace
    /// The values that cannot be opened, with the errors.
    private(set) var closed: [(place: SealedPlace, error: SealError)] = []

    init(seal: Seal, destination: @escaping @Sendable (SealedPlace) -> SealedPlace = { $0 }) {
        self.seal = seal
        self.destination = destination
    }

    /// - Throws: ``StoreFailure/sealed`` where a value could not be opened that another master key opens: what it is sealed
    ///   with must not go.
    func check() throws(Problem) {
        for case .unknownKey(let number) in closed.map(\.error) where seal.isThere(number) { throw StoreFailure.sealed }
        for case .closedUserKey in closed.map(\.error) { throw StoreFailure.sealed }
    }

    /// A value sealed anew; one that cannot be opened stays unchanged and is added to ``closed``.
    mutating func json(_ stored: [UInt8]?, as place: SealedPlace) throws(SealError) -> [UInt8]? {
        let destination = destination(place)
        return try renewed(stored, place) { seal throws(SealError) in
            try seal.seal(json: seal.open(json: stored, as: place), as: destination)
        }
    }

    /// The same of a document, which may be sealed with its owner's key.
    mutating func json(
        _ stored: [UInt8]?,
        as place: SealedPlace,
        type: String,
        owner: UUID?
    ) throws(SealError) -> [UInt8]? {
        try renewed(stored, place) { seal throws(SealError) in
            let owner = seal.user(ofType: type, owner: owner)
            return try seal.seal(json: seal.open(json: stored, as: place), as: place, of: owner)
        }
    }

    /// The same of a text column.
    mutating func text(_ stored: String?, as place: SealedPlace) throws(SealError) -> String? {
        let destination = destination(place)
        return try renewed(stored, place) { seal throws(SealError) in
            try seal.seal(text: seal.open(text: stored, as: place), as: destination)
        }
    }

    private mutating func renewed<Value>(
        _ stored: Value,
        _ place: SealedPlace,
        _ renew: (Seal) throws(SealError) -> Value
    ) throws(SealError) -> Value {
        do throws(SealError) {
            return try renew(seal)
        } catch {
            if case .locked = error { throw error }
            if error.lacksUserKeys { throw error }
            closed.append((place, error))
            return stored
        }
    }
}
