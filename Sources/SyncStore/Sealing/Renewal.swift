package import FoundationEssentials
package import SyncModel

/// Decrypts stored values and encrypts them again.
package struct Renewal {
    package let seal: Seal
    /// Whether values are sealed again. If not, they are only decrypted, and remain unchanged.
    private let seals: Bool
    /// Returns the new place of a value, which is usually its old place.
    private let destination: @Sendable (SealedPlace) -> SealedPlace
    /// A value that cannot be decrypted, or cannot be sealed again.
    package struct Closed: Sendable {
        package let place: SealedPlace
        package let cover: SealedText.Cover
        package let error: SealError
    }

    package private(set) var closed: [Closed] = []

    package init(
        seal: Seal,
        seals: Bool = true,
        destination: @escaping @Sendable (SealedPlace) -> SealedPlace = { $0 }
    ) {
        self.seal = seal
        self.seals = seals
        self.destination = destination
    }

    /// Checks that no value requires a master key that is not configured. The keys of such values must not be deleted.
    ///
    /// - Throws: ``StoreFailure/sealed`` if the configured master keys cannot decrypt a value, but another master key
    ///   can.
    package func check() throws(Problem) {
        for case .unknownKey(let number) in closed.map(\.error) where seal.isThere(number) { throw StoreFailure.sealed }
        for case .closedUserKey in closed.map(\.error) { throw StoreFailure.sealed }
    }

    /// Returns a JSON value that is sealed again.
    ///
    /// A value that cannot be decrypted remains unchanged and is added to ``closed``.
    package mutating func json(_ stored: [UInt8]?, as place: SealedPlace) throws(SealError) -> [UInt8]? {
        let destination = destination(place)
        return try renewed(stored, place, SealedText.cover(of: stored ?? [], isJSON: true)) { seal throws(SealError) in
            try seal.open(json: stored, as: place)
        } seal: { seal, plain throws(SealError) in
            try seal.seal(json: plain, as: destination)
        }
    }

    /// Returns a document that is sealed again, with its owner's key if its type requires that.
    package mutating func json(
        _ stored: [UInt8]?,
        as place: SealedPlace,
        type: String,
        owner: UUID?
    ) throws(SealError) -> [UInt8]? {
        try renewed(stored, place, SealedText.cover(of: stored ?? [], isJSON: true)) { seal throws(SealError) in
            try seal.open(json: stored, as: place)
        } seal: { seal, plain throws(SealError) in
            try seal.seal(json: plain, as: place, of: seal.user(ofType: type, owner: owner))
        }
    }

    /// Returns the value of a text column, sealed again.
    package mutating func text(_ stored: String?, as place: SealedPlace) throws(SealError) -> String? {
        let destination = destination(place)
        return try renewed(stored, place, SealedText.cover(of: Array((stored ?? "").utf8), isJSON: false)) {
            seal throws(SealError) in
            try seal.open(text: stored, as: place)
        } seal: { seal, plain throws(SealError) in
            try seal.seal(text: plain, as: destination)
        }
    }

    private mutating func renewed<Value>(
        _ stored: Value,
        _ place: SealedPlace,
        _ cover: @autoclosure () -> SealedText.Cover,
        open: (Seal) throws(SealError) -> Value,
        seal renew: (Seal, Value) throws(SealError) -> Value
    ) throws(SealError) -> Value {
        do throws(SealError) {
            let plain = try open(seal)
            return seals ? try renew(seal, plain) : stored
        } catch {
            if case .locked = error { throw error }
            if error.lacksUserKeys { throw error }
            closed.append(Closed(place: place, cover: cover(), error: error))
            return stored
        }
    }
}
